"""milabench: the scaling file of a GPU, which its sizer writes (``config/scaling/<GPU>.yaml``)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.base import Imported, join_imported
from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.shapes import count_of, entries_of, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.importers.base import ImportOptions, RunFile

#: Seconds since 1970 from which on there is no date.
_LAST_SECOND: Final = datetime.max.replace(tzinfo=UTC).timestamp()

#: Benches that train a transformer: its model, the method, the unit of the rate (milabench,
#: benchmarks/huggingface/bench/models.py and config/base.yaml).
_BENCHES: Final = {
    "bert": ("bert-base-uncased", "full", "samples_per_second"),
    "t5": ("t5-small", "full", "samples_per_second"),
    "llm-lora-single": ("llama-3.1-8b", "lora", "tokens_per_second"),
    "llm-lora-ddp-gpus": ("llama-3.1-8b", "lora", "tokens_per_second"),
    "llm-lora-mp-gpus": ("llama-3.1-70b", "lora", "tokens_per_second"),
    "llm-full-mp-gpus": ("llama-3.1-70b", "full", "tokens_per_second"),
    "llava-single": ("llava-1.5-7b", "full", "samples_per_second"),
    "rlhf-single": ("pythia-1b-deduped", "full", "samples_per_second"),
}
#: Lengths of the sequences that the bench makes up, and that its weights are random.
_LENGTHS: Final = {"bert": 512, "t5": 1024}
_DTYPES: Final = {"fp16": "fp16", "fp32": "fp32", "tf32": "tf32", "tf32-fp16": "fp16"}
_MEBIBYTE: Final = 2**20


class MilabenchImporter:
    """Reads a scaling file of milabench."""

    name = "milabench"
    is_single_file = True
    expects = (
        "a YAML of milabench's scaling with benches and observations of a batch, memory and a rate"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize benches with observations of a batch, memory and a rate."""
        return [file for file in files if file.kind == "yaml" and any(_observations(file))]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return a run for each observation of a bench that trains a transformer."""
        file = files[0]
        gpu = _gpu_of(file, options)
        drafts, left = [], set()
        for bench, entry in _observations(file):
            known = _bench(bench)
            if known is None:
                left.add(bench)
                continue
            drafts.append(_draft(file, bench, known, entry, gpu))
        if not drafts:
            raise SubmissionError(
                f"found the benches {', '.join(sorted(left))}; expected one of the transformers "
                "that this importer knows"
            )
        found = import_drafts(
            self.name, "a milabench scaling file", [file], drafts, options, kind="benchmark"
        )
        said = f"benches left out, which this importer does not know: {', '.join(sorted(left))}"
        return join_imported([found, Imported(missing=(f"{file.name}: {said}",) if left else ())])


def _observations(file: RunFile) -> Iterator[tuple[str, dict[str, Any]]]:
    document = file.document if isinstance(file.document, dict) else {}
    for bench, content in document.items():
        for entry in entries_of(content, "observations"):
            if {"batch_size", "memory", "perf"} <= entry.keys():
                yield str(bench), entry


def _bench(name: str) -> tuple[str, str, str] | None:
    return _BENCHES.get(name) or (_BENCHES["bert"] if name.startswith("bert-") else None)


def _gpu_of(file: RunFile, options: ImportOptions) -> str | None:
    """Return the card that the file is named after, which is all that says which it was."""
    words = re.split(r"[._]", file.path.stem)
    return next((gpu for word in words if (gpu := options.catalogue.resolve_gpu(word))), None)


def _draft(
    file: RunFile, bench: str, known: tuple[str, str, str], entry: dict[str, Any], gpu: str | None
) -> Draft:
    model, method, metric = known
    draft = Draft(environment={"framework": "milabench"})
    draft.observation["model_reported"] = bench
    draft.state("model_id", model, f"the bench {bench}")
    draft.state("method", method, f"the bench {bench}")
    draft.state("gpu_id", gpu, "the name of the file")
    draft.state("compute_dtype", _DTYPES.get(bench.partition("-")[2]), f"the bench {bench}")
    length = _LENGTHS.get(bench.partition("-")[0])
    if length is not None:
        draft.state("seq_len", length, f"the bench {bench}")
        draft.state("length_distribution", "full", f"the bench {bench}: made-up sequences")
        draft.state("weights", "random", f"the bench {bench}: a model from its configuration")
    draft.state("micro_batch_size", count_of(entry.get("batch_size")))
    is_single = not bench.endswith(("-gpus", "-nodes"))
    draft.state("n_gpus", 1 if is_single else None, "a bench of one card; it runs on each")
    draft.provenance["data_loader_workers"] = entry.get("cpu")
    begun = number_of(entry.get("time"))
    if begun is not None and 0 <= begun < _LAST_SECOND:
        begun_at = datetime.fromtimestamp(begun, tz=UTC)
        draft.observation |= {"observed_at": begun_at.isoformat(), "run_id": f"{bench} {begun:.0f}"}
    found = re.fullmatch(r"\s*([\d.]+)\s*MiB\s*", str(entry.get("memory")))
    if found:
        draft.measure(
            "peak_memory",
            float(found[1]) * _MEBIBYTE,
            kind="device",
            scope="max_gpu",
            raw=str(entry["memory"]),
            unit_reported="MiB",
            reason="what the monitor of the device showed at most",
        )
    rate = "perf of the file: mean of all readings of all processes"
    if is_single:
        draft.measure(metric, entry.get("perf"), statistic="mean", reason=rate)
    else:
        draft.missing.append(
            "no rate of benches on several cards: the number of cards is not stated"
        )
    if gpu is None:
        draft.lacks["gpu_id"] = "no card in the file's name"
    draft.cite(file, f"{bench}, batch {entry.get('batch_size')}, time {entry.get('time')}")
    return draft
