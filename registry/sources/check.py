"""What a reviewer looks at in a new source: what was read, how, and what looks wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.api import Registry
from registry.catalogue import Catalogue
from registry.errors import SourceError, did_you_mean
from registry.predict.answer.prediction import predict_memory
from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.calibration.runs import read_observations
from registry.reading import read_bytes
from registry.reading.yaml_reader import LARGEST_YAML, parse_yaml
from registry.sources.logs import import_source
from registry.sources.new import ASKED
from registry.sources.review import (
    REPEATED,
    Review,
    find_contradictions,
    format_finding,
    read_decisions,
    read_statement,
)
from registry.sources.review_page import list_open
from registry.store.derive_tables import with_described
from registry.store.folder import Location
from registry.store.snapshot import load_catalogue
from registry.tables.curated import (
    MAPPING_NAME,
    load_curated_catalogue,
    read_source_documents,
    stated_row,
)
from registry.tables.mapping_reader import read_mapping
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from registry.predict.calibration.mixture import Interval
    from registry.predict.calibration.runs import ObservedRun
    from registry.store.derive_tables import Document
    from registry.store.folder import Folder
    from registry.tables.apply import ImportResult


@dataclass(frozen=True)
class Section:
    """What was looked for, and what was found: one line each, none where there is nothing."""

    title: str
    lines: tuple[str, ...]


def check_source(folder: Folder, source_id: str) -> tuple[Section, ...]:
    """Return what is to be seen in one source of curated records, text by text.

    Raises:
        SourceError: there is no such source, or its tables cannot be read as its mapping says; all
            that is wrong together.
        SubmissionError: what it states is not valid.
    """
    _validate_there(folder, source_id)
    catalogue = load_curated_catalogue(folder.path)
    known = load_catalogue(Location(folder))
    read = _read_tables(folder, source_id, catalogue, known)
    documents = list(
        read_source_documents(folder.path, catalogue, only=[source_id], described=known)
    )
    observations = [
        seen for document in documents for seen in document.plain.get("observations", ())
    ]
    withdrawn = [
        f"{row['observation_id'][:12]} is withdrawn: {row['reason']}"
        for document in documents
        for row in document.plain.get("retractions", ())
    ]
    registry = Registry(Location(folder))
    return (
        Section("Read", tuple(_format_read(read, observations))),
        Section("How figures were read", tuple(_format_readings(observations))),
        Section("Notes", read.notes if read else ()),
        Section("Observations withdrawn", tuple(withdrawn)),
        Section("Gaps", tuple(_find_gaps(documents, observations, catalogue))),
        Section(
            "Models and cards described twice",
            tuple(find_described_twice(folder.path, catalogue, source_id)),
        ),
        Section("Peaks far from `registry estimate`", tuple(_compare(registry, source_id))),
        Section(
            "Figures that contradict",
            tuple(_find_contradictions(registry, folder.path, source_id)),
        ),
        Section("The same figures in other sources", tuple(_find_repeated(registry, source_id))),
    )


def _validate_there(folder: Folder, source_id: str) -> None:
    sources = folder.path / "sources"
    known = sorted(path.name for path in sources.iterdir() if path.is_dir())
    if source_id not in known:
        raise SourceError(
            f"{sources}: found no source {source_id!r}{did_you_mean(source_id, known)}; expected "
            f"one of {', '.join(known)}; write a new one with `registry source new DOC`"
        )


def _read_tables(
    folder: Folder, source_id: str, catalogue: Catalogue, known: Catalogue
) -> ImportResult | None:
    """Return what a source's tables or logs say; None where it holds submissions alone.

    ``known`` is the catalogue with what other sources describe, which a source may name.
    """
    path = folder.path / "sources" / source_id
    if not (path / MAPPING_NAME).is_file():
        return None
    mapping = read_mapping(path / MAPPING_NAME)
    read = import_source(path, mapping, catalogue)
    return import_source(path, mapping, known) if read.problems else read


def _format_read(
    read: ImportResult | None, observations: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if read:
        things = f"tables: {read.n_tables}; rows" if read.n_tables else "files"
        yield f"{things}: {read.n_rows}; reported places: {read.n_reports}"
        for number in read.skipped_tables:
            yield f"table {number} is not read: no entry of the mapping matches it"
    outcomes = Counter(observation["outcome"] for observation in observations)
    listed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    yield f"observations: {len(observations)}" + (f" ({listed})" if listed else "")


def _format_readings(observations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each way in which figures were read, with the first as an example."""
    said: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for observation in observations:
        for figure in observation.get("measurements", ()):
            if figure.get("origin", "reported") == "reported":
                said.setdefault(_way_of(figure), []).append(figure)
    for (metric, *rest), figures in sorted(said.items()):
        first = figures[0]
        yield (
            f"{metric} ({', '.join(filter(None, rest))}), figures: {len(figures)}, the first: "
            f"{first.get('raw')!r} is {_format_value(first)}"
        )


def _format_value(figure: Mapping[str, Any]) -> str:
    value = figure["value"]
    return format_memory(int(value)) if figure.get("kind") else f"{value:.10g}"


def _way_of(figure: Mapping[str, Any]) -> tuple[str, ...]:
    unit = figure.get("unit_reported")
    shown = [figure.get(name) or "" for name in ("kind", "statistic", "scope")]
    return (figure["metric"], *shown, f"in {unit}" if unit else "", figure.get("reason") or "")


def _find_gaps(
    documents: Sequence[Document],
    observations: Sequence[Mapping[str, Any]],
    catalogue: Catalogue,
) -> Iterator[str]:
    """Yield what the source and the catalogue leave open of what the observations name."""
    stated = documents[0].plain.get("source") or {}
    for name in ASKED:
        if stated.get(name) is None:
            yield f"the source does not state its {name}"
    settings = [observation["configuration"] for observation in observations]
    described = with_described(Catalogue(), documents)
    for table, key in (("models", "model_id"), ("gpus", "gpu_id")):
        named = Counter(setting.get(key) for setting in settings)
        if named[None]:
            yield f"{named[None]} observations state no {key}"
        rows = {row[key]: row for row in catalogue.rows(table)}
        own = {row[key] for row in described.rows(table)}
        for name in sorted(filter(None, named)):
            if name not in rows:
                who = "the source itself" if name in own else "another source"
                yield f"{name}: described by {who}; the catalogue has no such {key}"
            elif rows[name].get("verified") is False:
                yield (
                    f"{name}: the catalogue's figures were not checked against a source "
                    "(verified: false)"
                )


def _compare(registry: Registry, source_id: str) -> Iterator[str]:
    """Yield the measured peaks that lie outside of the interval of the shipped calibration."""
    runs = read_observations(registry, source_id)
    measured = [run for run in runs if run.measured_memory]
    calibration = read_calibration()
    far = []
    for run in measured:
        figure = predict_memory(run.learned, calibration).figure
        if not figure.low <= float(run.peak_bytes or 0) <= figure.high:
            far.append((run, figure))
    if measured:
        yield (
            f"{len(far)} of {len(measured)} measured peaks lie outside the 90 % interval; for "
            "settings that are not stated, the estimate's assumptions are used"
        )
    else:
        yield (
            "nothing to compare: no measured peak with a length, a batch, a model whose shape the "
            "catalogue knows, and a method and an optimizer that are computed"
        )
    yield from (_format_far(run, figure) for run, figure in far)


def _format_far(run: ObservedRun, figure: Interval) -> str:
    question = run.question
    low, expected, high = (
        format_memory(int(value)) for value in (figure.low, figure.value, figure.high)
    )
    return (
        f"{run.observation_id[:12]} ({question.model.model_id}, {question.label}, seq_len "
        f"{question.seq_len}, batch {question.micro_batch_size}, {question.n_gpus} GPUs): found "
        f"{format_memory(int(run.peak_bytes or 0))} per device, expected about {expected} "
        f"({low} to {high})"
    )


def _find_contradictions(registry: Registry, records: Path, source_id: str) -> Iterator[str]:
    """Yield what is found, open findings first, and decisions about what is not found."""
    decisions = [
        decision
        for decision in read_decisions(records, source_id).get(source_id, ())
        if not decision.kind.startswith(REPEATED)
    ]
    found = find_contradictions(registry, source_id)
    review = Review(tuple(found), {source_id: tuple(decisions)})
    yield from (line for _, line in list_open(review))
    for finding in found:
        if decision := review.decision(finding):
            yield f"{format_finding(finding)}; kept: {decision.because}"


def _find_repeated(registry: Registry, source_id: str) -> Iterator[str]:
    for row in registry.query(read_statement("repeated"), source_id=source_id).rows():
        yield (
            f"{row['source_id']} has {row['n']} of them: the same model, card, length and batch, "
            f"and an equal figure; first {row['mine'][:12]} and {row['other'][:12]}"
        )


# Models and cards that more than one place describes; each belongs in one.

Row = dict[str, Any]

_CATALOGUE = "the catalogue"


def find_described_twice(
    records: Path, catalogue: Catalogue, source_id: str | None = None
) -> Iterator[str]:
    """Yield a line for each model and card that two mappings, or one and the catalogue, describe.

    ``source_id`` asks for what one source describes alone.

    Raises:
        ReadingError: a mapping cannot be read.
    """
    for (table, key), rows in sorted(_collect_described(records, catalogue).items()):
        if len(rows) > 1 and (source_id is None or source_id in rows):
            yield (
                f"{key}: described by {' and '.join(rows)}{_format_difference(rows)}; describe it "
                f"once, in one mapping or in records/catalogue/{table}.yaml, and leave it out of "
                "the others, which may name it all the same"
            )


def _collect_described(
    records: Path, catalogue: Catalogue
) -> dict[tuple[str, str], dict[str, Row]]:
    """Return the descriptions by table and id, each with who gives it."""
    found: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for path in sorted((records / "sources").glob(f"*/{MAPPING_NAME}")):
        data = read_bytes(path, limit=LARGEST_YAML, what="a mapping")
        mapping = parse_yaml(data, origin=str(path), text_keys=True)
        for table, key in (("models", "model_id"), ("gpus", "gpu_id")):
            for row in mapping.get(table) or ():
                found[table, row[key]][path.parent.name] = stated_row(row)
    for table, known in (("models", catalogue.models), ("gpus", catalogue.gpus)):
        for key in {key for named, key in found if named == table} & known.keys():
            found[table, key][_CATALOGUE] = stated_row(known[key])
    return found


def _format_difference(rows: Mapping[str, Row]) -> str:
    """Return in which columns descriptions contradict each other."""
    names = sorted({name for row in rows.values() for name in row})
    differ = [
        name for name in names if len({repr(row[name]) for row in rows.values() if name in row}) > 1
    ]
    return f", which differ in {', '.join(differ)}" if differ else ""
