"""Compare the dry run with the allocator's peaks of recorded trials on a card, trial by trial.

    python -m benchmarks.dry_run_trials [SOURCE] [--most N] [--write]

SOURCE is a folder of ``records/sources`` that holds trials of a plan (``gpu-sweep``). Needs
``[train]`` and no card. Prints, of each trial that ended well, the peaks that the allocator handed
out and held on the card (GiB), each beside the dry run's and its error; then the errors in all.
``--write`` keeps what the dry runs held in ``registry/predict/dryrun/trials.csv``, from which the
interval of ``registry fit --exact`` is learned: each as soon as it is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.trial_settings import settings_of
from registry.predict import dryrun
from registry.predict.dryrun import DryRunError, Recipe, dry_run
from registry.predict.dryrun.beside import FILE_NAME
from registry.submission.identity import observation_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCES = Path(__file__).parents[1] / "records" / "sources"

#: cuBLAS workspace of one handle on Hopper (PyTorch, CUDABlas).
HOPPER_WORKSPACE_BYTES = 32 << 20
GIB = 2**30
KINDS = ("allocated", "reserved")


def main(arguments: list[str]) -> int:
    """Compare; return the exit status."""
    parser = argparse.ArgumentParser(description="Dry runs beside what a card held.")
    parser.add_argument("source", nargs="?", default="gpu-sweep")
    parser.add_argument("--most", type=int, default=None, metavar="N")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    executed: dict[str, int] = {}
    for name, spec, measured in list(read_trials(options.source))[: options.most]:
        label = describe(spec["settings"])
        try:
            recipe = Recipe(cublas_workspace_bytes=HOPPER_WORKSPACE_BYTES)
            found = dry_run(settings_of(spec["settings"]), spec["model"], recipe=recipe)
        except DryRunError as error:
            print(f"not run: {label}: {str(error).partition('; expected')[0][:200]}", flush=True)
            continue
        executed[name] = found.peak_reserved_bytes
        if options.write:
            write_executed(executed)
        cells = []
        for kind in KINDS:
            answered = getattr(found, f"peak_{kind}_bytes")
            errors[kind].append(answered / measured[kind] - 1)
            off = f"{errors[kind][-1]:+.1%}"
            cells.append(f"{measured[kind] / GIB:6.2f} {answered / GIB:6.2f} {off:>6}")
        print("  ".join((*cells, label)), flush=True)
    for kind in KINDS:
        sizes = sorted(map(abs, errors[kind]))
        print(
            f"{kind}, {len(sizes)} trials: median error {statistics.median(sizes):.2%}, 90th "
            f"percentile {sizes[int(0.9 * (len(sizes) - 1))]:.2%}, largest {sizes[-1]:.1%}"
        )
    return 0


def write_executed(executed: Mapping[str, int]) -> None:
    """Write what dry runs held beside the ids of the trials, in their order."""
    path = Path(dryrun.__file__).with_name(FILE_NAME)
    lines = [f"{name},{n_bytes}" for name, n_bytes in sorted(executed.items())]
    path.write_text("\n".join((_HEAD, *lines, "")), encoding="utf-8")


_HEAD = "observation_id,peak_reserved_bytes"


def read_trials(source: str) -> Iterator[tuple[str, dict[str, Any], dict[str, float]]]:
    """Yield the id of each trial, what it was told and the bytes of its peaks by kind."""
    text = (SOURCES / source / "submissions.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        document = json.loads(line)
        for observation in document["observations"]:
            if observation["outcome"] == "ok":
                rows = observation["measurements"]
                peaks = {
                    row["kind"]: row["value"] for row in rows if row["metric"] == "peak_memory"
                }
                name = observation_id(document["source"]["source_id"], observation)
                yield name, observation["provenance"]["spec"], peaks


def describe(settings: dict[str, Any]) -> str:
    """Return what tells a trial from others."""
    names = ("model", "method", "quantization", "optimizer", "dtype", "seq_len")
    parts = [str(settings[name]) for name in names]
    parts.append(f"batch {settings['micro_batch_size']}")
    parts.append("checkpointing" if settings["gradient_checkpointing"] else "no checkpointing")
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
