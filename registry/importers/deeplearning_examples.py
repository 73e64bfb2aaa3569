"""NVIDIA's DeepLearningExamples: BERT on SQuAD and Transformer-XL, as Lambda's benchmark runs them.

A text may bundle several files, each after a line ``##### FILE name``; a monitor of nvidia-smi is
``NAME_monitor.csv`` beside ``NAME.txt``. Rates are those of all GPUs, first steps included. The
batch that BERT's script takes is one process's, Transformer-XL's that of all.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from registry.importers.deeplearning_figures import count_in, has_rate, measure_bert, measure_xl
from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.logs import OUT_OF_MEMORY
from registry.importers.shared.monitor import Monitor, measure_monitor, parse_monitor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.catalogue import Catalogue
    from registry.importers.base import Imported, ImportOptions, RunFile

_FILE: Final = re.compile(r"##### FILE (?P<name>\S+)")
_ARGUMENT: Final = re.compile(r"\b(?P<key>[a-z_0-9]+)=(?P<value>'[^']*'|[\w.+-]+)")
_PROCESSES: Final = re.compile(r"--nproc_per_node=(?P<count>\d{1,15})")
_SYSTEM: Final = re.compile(r"^(?P<count>\d{1,15})x(?=[A-Z\d])")
#: Folders of a name that has the system: system, task, log.
_DEEP: Final = 2


class DeeplearningExamplesImporter:
    """Reads the logs, alone or bundled by system."""

    name = "deeplearning-examples"
    is_single_file = False
    expects = (
        "a console log of NVIDIA's DeepLearningExamples with the line of its speed at the end of "
        "a training"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize the line with which a training of the two ends."""
        return [file for file in files if file.kind == "text" and any(map(has_rate, file.document))]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log, with the monitor that a bundle has beside it."""
        logs = self.main_files(files)
        drafts: list[Draft] = []
        for log in logs:
            drafts += _read_log(log, options)
        what = "logs of DeepLearningExamples"
        return import_drafts(self.name, what, logs, drafts, options, kind="benchmark")


def _read_log(log: RunFile, options: ImportOptions) -> Iterator[Draft]:
    parts = dict(_split(log))
    for name, lines in parts.items():
        monitor = parts.get(name.replace(".txt", "_monitor.csv"))
        if any(has_rate(line) or OUT_OF_MEMORY.search(line) for line in lines):
            draft = _draft(name, lines, options)
            if monitor and (found := parse_monitor([line.split(",") for line in monitor])):
                _measure_monitor(draft, found)
            draft.provenance["files"] = {log.name: log.sha256}
            draft.cite(log, name if len(parts) > 1 else None)
            yield draft


def _measure_monitor(draft: Draft, monitor: Monitor) -> None:
    if draft.observation.get("outcome") != "oom":
        measure_monitor(draft, monitor)


def _split(log: RunFile) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of a bundle; a log that is none is one, named by its last folders."""
    lines: list[str] = []
    name = "/".join(log.path.parts[-3:])
    for line in log.document:
        found = _FILE.match(line)
        if found:
            if lines:
                yield name, lines
            name, lines = found["name"], []
        else:
            lines.append(line)
    yield name, lines


def _draft(name: str, lines: Sequence[str], options: ImportOptions) -> Draft:
    draft = Draft(environment={"framework": "deeplearning-examples"})
    draft.observation["run_id"] = "/".join(PurePath(name).parts[-2:])
    printed = next((line for line in lines if "Namespace(" in line), "")
    said = {found["key"]: found["value"].strip("'") for found in _ARGUMENT.finditer(printed)}
    command = next((line for line in lines if _PROCESSES.search(line)), "")
    _state_hardware(draft, name, command, options.catalogue)
    draft.state("method", "full", "NVIDIA's script trains all parameters")
    draft.state("compute_dtype", "fp16" if said.get("fp16") == "True" else None)
    draft.state("n_steps", count_in(said, "max_steps") or count_in(said, "max_step"))
    if not any(map(has_rate, lines)):  # what ran out of memory before is of an earlier attempt
        draft.observation["outcome"] = "oom"
    is_bert = "max_seq_length" in said or "squad" in name
    (measure_bert if is_bert else measure_xl)(draft, said, [name, *lines])
    return draft


def _state_hardware(draft: Draft, name: str, command: str, catalogue: Catalogue) -> None:
    """State the card by the longest part of the system's name that is one, and how many."""
    system = PurePath(name).parts[-3] if len(PurePath(name).parts) > _DEEP else ""
    words = (
        re.sub(r"(?<=[a-z])(?=RTX)", " ", system)
        .replace("PCIe5", "PCIe")
        .replace("NVlink", "")
        .split("_")
    )
    counts = [int(found["count"]) for word in words if (found := _SYSTEM.match(word))]
    parts = [_SYSTEM.sub("", word) for word in words]
    spans = [parts[i:j] for i in range(len(parts)) for j in range(len(parts), i, -1)]
    spans.sort(key=len, reverse=True)
    gpu = next((gpu for span in spans if (gpu := catalogue.resolve_gpu(" ".join(span)))), None)
    draft.state("gpu_id", gpu, f"the system {system}")
    processes = _PROCESSES.search(command)
    draft.state("n_gpus", int(processes["count"]) if processes else None)
    if gpu:
        draft.state("n_gpus", counts[0] if counts else 1, f"the system {system}")
    if gpu is None:
        draft.lacks["gpu_id"] = f"no card of the catalogue in {system!r}"
