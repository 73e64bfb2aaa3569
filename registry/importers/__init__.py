"""Import what training frameworks write: their logs, results and benchmark tables.

``IMPORTERS`` is the list of all that can be read; ``auto`` asks each of them in turn and goes by
the content of the files, never by their names alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from registry.errors import SubmissionError, did_you_mean
from registry.importers.axolotl import AxolotlImporter
from registry.importers.base import (
    Imported,
    Importer,
    ImportOptions,
    Refusal,
    RunFile,
    join_imported,
)
from registry.importers.deeplearning_examples import DeeplearningExamplesImporter
from registry.importers.deepspeed import DeepspeedImporter
from registry.importers.doubles import ReadRun, leave_out_doubles
from registry.importers.fms_acceleration import FmsAccelerationImporter
from registry.importers.hf_trainer import HfTrainerImporter
from registry.importers.litgpt import LitgptImporter
from registry.importers.llama_factory import LlamaFactoryImporter
from registry.importers.llama_recipes import LlamaRecipesImporter
from registry.importers.mapped import MappedTableImporter
from registry.importers.maxtext import MaxtextImporter
from registry.importers.megatron import MegatronImporter
from registry.importers.milabench import MilabenchImporter
from registry.importers.mlperf import MlperfImporter
from registry.importers.mlx_lm import MlxLmImporter
from registry.importers.ms_swift import MsSwiftImporter
from registry.importers.nanotron import NanotronImporter
from registry.importers.notebook import NotebookImporter, as_console
from registry.importers.optimum_benchmark import OptimumBenchmarkImporter
from registry.importers.optimum_habana import OptimumHabanaImporter
from registry.importers.paddlenlp import PaddlenlpImporter
from registry.importers.peft_comparison import PeftComparisonImporter
from registry.importers.shared.explain import UNKNOWN, explain_refusal
from registry.importers.shared.grouping import group_runs
from registry.importers.shared.loading import collect_files
from registry.importers.shared.monitor import add_monitors
from registry.importers.shared.overrides import parse_overrides, validate_overrides
from registry.importers.torchtitan import TorchtitanImporter
from registry.importers.torchtune import TorchtuneImporter
from registry.importers.trainer_log import TrainerLogImporter
from registry.importers.verl import VerlImporter
from registry.importers.xtuner import XtunerImporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "IMPORTERS",
    "ImportOptions",
    "Imported",
    "Importer",
    "Refusal",
    "RunFile",
    "parse_overrides",
    "read_as",
    "read_files",
]

#: All importers by name, the most specific first: ``auto`` takes the first that recognizes a run.
IMPORTERS: Final[dict[str, Importer]] = {
    importer.name: importer
    for importer in (
        PeftComparisonImporter(),
        FmsAccelerationImporter(),
        OptimumBenchmarkImporter(),
        OptimumHabanaImporter(),
        MilabenchImporter(),
        NotebookImporter(),
        MlperfImporter(),
        MsSwiftImporter(),
        LlamaFactoryImporter(),
        AxolotlImporter(),
        TorchtuneImporter(),
        MlxLmImporter(),
        LitgptImporter(),
        LlamaRecipesImporter(),
        DeeplearningExamplesImporter(),
        NanotronImporter(),
        TorchtitanImporter(),
        MaxtextImporter(),
        VerlImporter(),
        XtunerImporter(),
        PaddlenlpImporter(),
        MegatronImporter(),
        DeepspeedImporter(),
        HfTrainerImporter(),
        TrainerLogImporter(),
        MappedTableImporter(),
    )
}

#: What to do with a file that no importer knows.
_WAY_OUT: Final = (
    "expected what one of them writes (`registry add FILE --from NAME` says what that is), a "
    "submission (docs/submission.schema.json) or a table (`registry import FILE`); "
    "docs/importers.md shows how to read another framework"
)


def read_files(
    paths: Iterable[Path], kind: str = "auto", *, options: ImportOptions | None = None
) -> Imported:
    """Return what files and folders hold, as submissions, with what was refused and why.

    ``kind`` is a name of ``IMPORTERS`` or ``auto``. Raises SubmissionError where the kind is not
    known, a path does not exist or a setting names no column; a file that is no training run is a
    refusal, not an error.
    """
    importers = _chosen(kind)
    options = options or ImportOptions()
    validate_overrides(options.overrides)
    files, unreadable = collect_files(paths)
    outcomes = leave_out_doubles(list(_read_all(files, importers, options)))
    return join_imported([*outcomes, Imported(refused=tuple(unreadable))])


def read_as(name: str, named: Mapping[str, Path], options: ImportOptions) -> Imported:
    """Return what an importer of ``IMPORTERS`` takes from files that are all of one source.

    ``named`` are the files by what citations call them. Files that lie in several folders are
    handed to the importer together, unless each is a run of its own.
    """
    importer = IMPORTERS[name]
    places = {path: place for place, path in named.items()}
    found, unreadable = collect_files(places)
    files = [replace(file, place=places[file.path]) for file in found]
    runs = [[file] for file in files] if importer.is_single_file else [files]
    outcomes = [
        _read_run(run, importer, options)
        if importer.main_files(run)
        else Imported(
            refused=tuple(Refusal(file.path, _explain_one(file, importer)) for file in run)
        )
        for run in runs
    ]
    return join_imported([*outcomes, Imported(refused=tuple(unreadable))])


def _chosen(kind: str) -> Sequence[Importer]:
    if kind == "auto":
        return list(IMPORTERS.values())
    if kind not in IMPORTERS:
        raise SubmissionError(
            f"unknown kind {kind!r}{did_you_mean(kind, IMPORTERS)}; expected auto or one of "
            f"{', '.join(IMPORTERS)}",
            origin="import",
        )
    return [IMPORTERS[kind]]


def _read_all(
    files: list[RunFile], importers: Sequence[Importer], options: ImportOptions
) -> Iterator[ReadRun]:
    """Read files that stand for themselves, then the runs that the others form."""
    together = []
    alone = [one for one in importers if one.is_single_file]
    of_runs = [one for one in importers if not one.is_single_file]
    # the Trainer's totals, which frameworks print too, tell less than their own lines
    of_trainer = [one for one in of_runs if one.name == TrainerLogImporter.name]
    of_frameworks = [one for one in of_runs if one not in of_trainer]
    for file in files:
        console = as_console(file)
        choices = [(file, alone)]
        if console is not None:
            choices = [(console, of_frameworks), (file, alone), (console, of_trainer)]
        found = ((run, _recognizing([run], known, options)) for run, known in choices)
        run, importer = next((one for one in found if one[1] is not None), (file, None))
        if importer is None:
            together.append(file)
        else:
            yield ReadRun(importer, [run], _read_run([run], importer, options))
    yield from _read_runs(together, importers, options)


def _read_runs(
    files: list[RunFile], importers: Sequence[Importer], options: ImportOptions
) -> Iterator[ReadRun]:
    of_runs = [importer for importer in importers if not importer.is_single_file]
    runs = group_runs(files)
    found = {run: _recognizing(members, of_runs, options) for run, members in runs.items()}
    main = [run for run, importer in found.items() if importer is not None]
    for run, members in runs.items():
        importer = found[run]
        if importer is not None:
            # settings that bear another prefix are those of the only run beside them
            others = [name for name in runs if found[name] is None and len(main) == 1]
            beside = [file for name in others for file in runs[name] if _is_settings(file)]
            together = [*members, *beside]
            yield ReadRun(importer, together, _read_run(together, importer, options))
        else:
            unused = [file for file in members if len(main) != 1 or not _is_settings(file)]
            refusals = (Refusal(file.path, _explain(file, importers)) for file in unused)
            yield ReadRun(None, members, Imported(refused=tuple(refusals)))


def _explain(file: RunFile, importers: Sequence[Importer]) -> str:
    """Return why nothing is taken of a file; of one that nobody knows, what was looked for."""
    if len(importers) == 1:
        way_out = "; leave out --from where another framework wrote it"
        return _explain_one(file, importers[0], way_out)
    reason = explain_refusal(file)
    known = [name for name in IMPORTERS if name != MappedTableImporter.name]
    return f"{reason} ({', '.join(known)}); {_WAY_OUT}" if reason == UNKNOWN else reason


def _explain_one(file: RunFile, importer: Importer, way_out: str = "") -> str:
    """Return why an importer takes nothing of a file."""
    reason = explain_refusal(file)
    if reason != UNKNOWN:
        return reason
    return f"not recognized as {importer.name}; expected {importer.expects}{way_out}"


def _is_settings(file: RunFile) -> bool:
    return file.kind in ("yaml", "json") and isinstance(file.document, dict)


def _recognizing(
    files: Sequence[RunFile], importers: Sequence[Importer], options: ImportOptions
) -> Importer | None:
    for importer in importers:
        if importer.name == MappedTableImporter.name and options.mapping is None:
            continue
        if importer.main_files(files):
            return importer
    return None


def _read_run(files: Sequence[RunFile], importer: Importer, options: ImportOptions) -> Imported:
    try:
        found = importer.read(files, options)
    except SubmissionError as error:
        reason = "; ".join(error.problems)
        main = importer.main_files(files) or files
        return Imported(refused=tuple(Refusal(file.path, reason) for file in main))
    found = add_monitors(found, files, options)
    return join_imported([found, Imported(taken=tuple(_unneeded(files, found)))])


def _unneeded(files: Sequence[RunFile], found: Imported) -> Iterator[str]:
    """Yield a message on the files of a run of which nothing was needed."""
    said = " ".join([*found.taken, *found.missing])
    refused = {refusal.path for refusal in found.refused}
    rest = [file.name for file in files if file.name not in said and file.path not in refused]
    if rest and found.taken:
        yield f"(nothing further needed of {', '.join(dict.fromkeys(rest))})"
