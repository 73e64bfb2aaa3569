"""Sources whose figures stand in logs: the packed files, read by the importer of their producer."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SourceError, did_you_mean
from registry.importers import IMPORTERS, ImportOptions, read_as
from registry.reading.patterns import compile_pattern
from registry.sources.packed import PACKED, unpack_files
from registry.tables import MOST_OF_A_SOURCE, ImportResult, import_document
from registry.tables.notes import format_condition
from registry.tables.values import target_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.catalogue import Catalogue
    from registry.importers import Imported
    from registry.tables import SourceMapping
    from registry.tables.mapping import LogRule, Logs
    from registry.tables.values import Stated

Row = dict[str, Any]

#: What importers cannot do without: it is told them before they read.
_NEEDED: Final = ("model_id", "method")

_SAID: Final = "said of all files"

#: Parts of an observation in which a rule may look and set.
_PARTS: Final = ("configuration", "environment", "observation")


def import_source(folder: Path, mapping: SourceMapping, catalogue: Catalogue) -> ImportResult:
    """Return what a document, a folder of CSV files or one of packed logs says under a mapping.

    Raises:
        SourceError: it cannot be read.
    """
    if not mapping.logs:
        return import_document(folder, mapping, catalogue, most=MOST_OF_A_SOURCE)
    known = catalogue.extended(mapping.models, mapping.gpus)
    observations: list[Row] = []
    described = {row["model_id"]: row for row in mapping.models}
    problems: list[str] = []
    notes: list[str] = []
    with TemporaryDirectory(prefix="registry-logs-") as temporary:
        paths = {
            path.relative_to(temporary).as_posix(): path
            for path in unpack_files(folder, Path(temporary))
        }
        if not paths:
            raise SourceError(f"{folder}: found no {PACKED}, expected the logs that are read")
        for logs in mapping.logs:
            matched: list[LogRule] = []
            taken = _choose(paths, logs, folder)
            imported = _shown_without(_read(taken, logs, known), Path(temporary))
            problems += [f"{refusal.path}: {refusal.reason}" for refusal in imported.refused]
            notes += imported.missing
            for submission in imported.submissions:
                described |= {row["model_id"]: row for row in submission.get("models", ())}
                finished = (_finished(row, logs, matched) for row in submission["observations"])
                observations += [row for row in finished if row is not None]
            notes += _find_unmatched(logs, matched)
    return ImportResult(
        submission=_format_submission(mapping, described, observations),
        problems=tuple(f"{folder}: {problem}" for problem in problems),
        notes=tuple(dict.fromkeys(notes)),
        n_tables=0,
        n_rows=len(paths),
        n_reports=sum(len(row.get("citations", ())) for row in observations),
        n_observations=len(observations),
        skipped_tables=(),
    )


def _choose(paths: Mapping[str, Path], logs: Logs, folder: Path) -> dict[str, Path]:
    chosen = {
        name: path
        for name, path in paths.items()
        if fnmatchcase(name, logs.files) and not any(fnmatchcase(name, p) for p in logs.skip)
    }
    if not chosen:
        raise SourceError(f"{folder}: logs of {logs.importer}: no file is named {logs.files!r}")
    return chosen


def _read(named: Mapping[str, Path], logs: Logs, catalogue: Catalogue) -> Imported:
    if logs.importer not in IMPORTERS:
        raise SourceError(
            f"logs: unknown importer {logs.importer!r}{did_you_mean(logs.importer, IMPORTERS)}; "
            f"expected one of {', '.join(IMPORTERS)}"
        )
    options = ImportOptions(
        catalogue=catalogue,
        overrides={name: str(logs.set[name].value) for name in _NEEDED if name in logs.set},
        defaults={
            name: str(logs.defaults[name].value) for name in _NEEDED if name in logs.defaults
        },
        reason=_SAID,
    )
    return read_as(logs.importer, named, options)


def _shown_without(imported: Imported, temporary: Path) -> Imported:
    """Return an import that names its files as they are packed."""
    refused = tuple(
        refusal._replace(path=refusal.path.relative_to(temporary)) for refusal in imported.refused
    )
    return replace(imported, refused=refused)


def _find_unmatched(logs: Logs, matched: list[LogRule]) -> Iterator[str]:
    """Yield a note for each rule that matched no run: most likely its condition is misspelt."""
    for rule in logs.rules:
        if rule not in matched:
            condition = format_condition(rule.when)
            yield f"logs of {logs.importer}: the rule for {condition} matched no run"


def _finished(row: Row, logs: Logs, matched: list[LogRule]) -> Row | None:
    """Return an observation with what the mapping says of it, None where a rule leaves it out.

    The rules that match it are added to ``matched``.
    """
    parts = {name: {**row.get(name, {})} for name in ("configuration", "environment")}
    parts["observation"] = {k: v for k, v in row.items() if k not in parts}
    inferences = {**row.get("inferences", {})}
    for name, stated in logs.defaults.items():
        is_open = parts[target_columns()[name][0]].get(name) is None
        if is_open or inferences.get(name) == _SAID:
            _state(parts, inferences, name, stated)
    for name, stated in logs.set.items():
        _state(parts, inferences, name, stated)
    for rule in logs.rules:
        if _holds(rule, parts):
            matched.append(rule)
            if rule.leave_out is not None:
                return None
            for name, stated in rule.set.items():
                _state(parts, inferences, name, stated)
    provenance = {k: v for k, v in row.get("provenance", {}).items() if k != "files"}
    finished = {
        **parts["observation"],
        "configuration": parts["configuration"],
        "environment": parts["environment"],
        "inferences": inferences,
        "provenance": provenance,  # hashes of files would be those of what is packed
    }
    return {key: value for key, value in finished.items() if value not in ({}, [], None)}


def _state(parts: Mapping[str, Row], inferences: dict[str, str], name: str, stated: Stated) -> None:
    part = parts[target_columns()[name][0]]
    if stated.value is None:
        part.pop(name, None)
        inferences.pop(name, None)
        return
    part[name] = sorted({*part.get(name, ()), *stated.value}) if name == "flags" else stated.value
    if stated.because is not None:
        inferences[name] = stated.because
    else:
        inferences.pop(name, None)


def _holds(rule: LogRule, parts: Mapping[str, Row]) -> bool:
    return all(
        compile_pattern(pattern).fullmatch(text) is not None
        for name, pattern in rule.when.items()
        for text in [_text_of(name, parts)]
    )


def _text_of(name: str, parts: Mapping[str, Row]) -> str:
    if name == "file":
        citations = parts["observation"].get("citations") or [{}]
        return str(citations[0].get("locator", ""))
    value = next((parts[part][name] for part in _PARTS if name in parts[part]), None)
    return "" if value is None else str(value)


def _format_submission(
    mapping: SourceMapping, described: Mapping[str, Row], observations: list[Row]
) -> Row:
    source = mapping.source.model_dump(exclude_none=True)
    used = {row["configuration"]["model_id"] for row in observations}
    models = [row for key, row in described.items() if key in used]
    return {
        "schema_version": 1,
        "source": {"kind": "benchmark", **source},
        **({"models": models} if models else {}),
        **({"gpus": mapping.gpus} if mapping.gpus else {}),
        "observations": observations,
    }
