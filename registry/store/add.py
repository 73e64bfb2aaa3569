"""Record submissions: validate, then write one journal entry each.

Nothing heavy is loaded and nothing but the journal is written, so that the cost of a submission
does not depend on what the registry holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.errors import SubmissionError, excerpt
from registry.store.catalogue_files import with_parts
from registry.store.curated import read_built, read_curated
from registry.store.derive_tables import with_described
from registry.store.folder import ensure_writable
from registry.store.ids import ERASED, KnownIds, row_key
from registry.store.journal import entry_name, is_recorded, read_entries, validate_entries
from registry.store.legacy import read_legacy
from registry.store.state import State, read_state
from registry.submission.identity import observation_id
from registry.submission.messages import format_observation_path
from registry.submission.prepare import Prepared, prepare_submission, raise_problems
from registry.tracking import track

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.catalogue import Catalogue
    from registry.store.curated import Curated
    from registry.store.folder import Location


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding one submission."""

    submission_id: str
    observation_ids: tuple[str, ...]
    #: False if the registry already held it.
    is_new: bool
    origin: str
    #: Observations that it withdraws: of any source, also of others.
    withdrawn: tuple[str, ...] = ()
    #: Whether the curated records that are read beside the registry hold it too.
    is_curated: bool = False
    #: The source of the curated records that a new one's observations join, if it is one of them:
    #: what the document says of the source itself is not shown.
    joins: str | None = None
    #: Whether it does nothing but erase, which is asked of each registry anew.
    is_left_out: bool = False
    #: In a dry run what would be recorded, without the samples of steps; else empty.
    observations: tuple[dict[str, Any], ...] = ()


class Door:
    """Validates documents one after another, each against what was there before it.

    The curated tables alone can say that a document is valid and new. In a checkout, the sources
    may say more than their tables; they are read only where the tables do not suffice.
    """

    def __init__(self, location: Location, *, leaves_curated: bool = False) -> None:
        self._leaves_curated = leaves_curated
        self._own = location.own
        self._records = location.catalogue_folder
        self._shows_curated = location.shows_curated
        built = read_built(self._records)
        self._own.pull(light=True, journal=False)
        is_live = self._own.is_registry and not self._own.is_curated
        self._state: State | None = read_state(self._own) if is_live else None
        parts = self._state.parts if self._state else ()
        self._catalogue = with_parts(built.catalogue, self._own, parts)
        self._known, self._curated = self._own_ids(built), self._ids_beside(built)
        self._knows_sources = self._knows_pending = False
        self._seen: set[str] = set()
        #: Documents of the curated records beside it that are not in their tables yet.
        self._pending_beside: set[str] = set()

    def _own_ids(self, curated: Curated) -> KnownIds:
        """Return the ids of all that is folded in the registry that is written to.

        What only the curated records hold is new: a later version of them may lack it.
        """
        parts = self._state.parts if self._state else ()
        built = (curated.part,) if curated.part and self._own.is_curated else ()
        return KnownIds([part.ids for part in (*parts, *built)])

    def _ids_beside(self, curated: Curated) -> KnownIds:
        """Return the ids of the curated records that are read beside it."""
        is_beside = self._shows_curated and not self._own.is_curated
        return KnownIds([curated.part.ids] if curated.part and is_beside else [])

    def _learn_sources(self) -> bool:
        """Take up the sources that the tables lack or hold otherwise; return whether any was new.

        They are looked at once, however many documents ask for it.
        """
        if self._knows_sources:
            return False
        self._knows_sources = True
        curated = read_curated(self._records)
        if not curated.pending_sources:
            return False
        described = (self._catalogue.rows("models"), self._catalogue.rows("gpus"))
        self._catalogue = curated.catalogue.extended(*described)
        self._known, self._curated = self._own_ids(curated), self._ids_beside(curated)
        if self._shows_curated and not self._own.is_curated:
            self._pending_beside = {document.submission_id for document in curated.pending}
        return True

    def prepare(self, document: Any, origin: str) -> Prepared:
        """Return the valid form of a document. Raises SubmissionError with all its problems."""
        self._learn_pending(document)
        try:
            ready = self._prepare(document, origin)
        except SubmissionError:
            if not self._learn_sources():
                raise
            ready = self._prepare(document, origin)
        plain = ready.document
        self._catalogue = self._catalogue.extended(plain.get("models", ()), plain.get("gpus", ()))
        return ready

    def _prepare(self, document: Any, origin: str) -> Prepared:
        document = _named_as_known(document, self._catalogue)
        return prepare_submission(document, self._catalogue, origin=origin)

    def judge(self, ready: Prepared, origin: str, *, may_erase: bool) -> Added:
        """Return what becomes of a valid document.

        Raises SubmissionError for what was erased, and for what erases though it must not.
        """
        identity = ready.submission_id
        if not may_erase and _only_erases(ready.document):
            return Added(identity, (), is_new=False, origin=origin, is_left_out=True)
        if not may_erase:
            _refuse_erasures(ready.document, origin)
        key = bytes.fromhex(identity[:32])
        if self._leaves_curated:
            self._learn_sources()
        is_curated = self._is_curated(key) or identity in self._pending_beside
        is_new = (
            identity not in self._seen
            and not (self._leaves_curated and is_curated)
            and not self._holds(key)
            and not is_recorded(self._own, identity)
        )
        self._seen.add(identity)
        withdrawn = tuple(row["observation_id"] for row in ready.document.get("retractions", ()))
        ids = self._observation_ids(ready, origin)
        joins = self._curated_source(ready) if is_new and not is_curated else None
        return Added(identity, ids, is_new, origin, withdrawn, is_curated, joins)

    def _holds(self, key: bytes) -> bool:
        """Return whether a document is folded, or in curated records as their sources are now."""
        if self._own.is_curated and self._known.contains("submissions", key):
            self._learn_sources()
        return self._known.contains("submissions", key)

    def _is_curated(self, key: bytes) -> bool:
        """Return whether the curated records beside hold a document, as their sources are now."""
        if self._curated.contains("submissions", key):
            self._learn_sources()
        return self._curated.contains("submissions", key)

    def _curated_source(self, ready: Prepared) -> str | None:
        """Return the id of a document's source, if the curated records beside describe it too."""
        source = ready.document.get("source")
        if not source or not self._curated.contains("sources", row_key("sources", source)):
            return None
        return str(source["source_id"])

    def _observation_ids(self, ready: Prepared, origin: str) -> tuple[str, ...]:
        observations = ready.document.get("observations", ())
        if not observations:
            return ()
        _require_run_of_labels(observations, origin)
        source_id = ready.document["source"]["source_id"]
        ids = tuple(observation_id(source_id, observation) for observation in observations)
        erased = [one for one in ids if self._known.contains(ERASED, bytes.fromhex(one))]
        if erased:
            raise SubmissionError(
                f"observation {erased[0][:12]} was erased from this registry; expected other "
                "observations; leave it out",
                origin=origin,
            )
        return ids

    def _learn_pending(self, document: Any) -> None:
        """Take up models and GPUs of pending and old submissions, where the document needs them."""
        if self._knows_pending or _refers_only_to(self._catalogue, document):
            return
        self._learn_sources()
        if self._state and self._state.is_legacy:
            legacy = read_legacy(self._own, self._state.manifest.version)
            self._catalogue = with_described(self._catalogue, legacy)
        self._own.pull(light=True)
        journal = validate_entries(read_entries(self._own))
        self._catalogue = with_described(self._catalogue, journal.entries)
        self._knows_pending = True


def _named_as_known(document: Any, catalogue: Catalogue) -> Any:
    """Name the models and GPUs that a run describes as the catalogue does, where it has them."""
    source = document.get("source") if isinstance(document, dict) else None
    if not isinstance(source, dict) or source.get("kind") != "run":
        return document
    from registry.measure.matching import match_to_catalogue  # noqa: PLC0415 - only for runs

    try:
        return match_to_catalogue(document, catalogue)
    except (AttributeError, KeyError, TypeError):
        return document  # not in the form of a submission: validation says how


def _refers_only_to(catalogue: Catalogue, document: Any) -> bool:
    """Return whether a catalogue has all that a document is of, or describes."""
    if not isinstance(document, dict):
        return True
    for part in ("models", "gpus"):
        key, rows = catalogue.by_id(part)
        described = document.get(part)
        for row in described if isinstance(described, list) else ():
            if isinstance(row, dict) and row.get(key) not in rows:
                return False
    observations = document.get("observations")
    for observation in observations if isinstance(observations, list) else ():
        configuration = observation.get("configuration") if isinstance(observation, dict) else None
        if not isinstance(configuration, dict):
            continue
        model, gpu = configuration.get("model_id"), configuration.get("gpu_id")
        if isinstance(model, str) and catalogue.resolve_model(model) is None:
            return False
        if isinstance(gpu, str) and catalogue.resolve_gpu(gpu) is None:
            return False
    return True


def add_submissions(
    location: Location,
    documents: Iterable[tuple[str, Any]],
    *,
    dry_run: bool = False,
    may_erase: bool = False,
    leaves_curated: bool = False,
) -> list[Added]:
    """Record documents, given as (origin, document): all of them, or none where one is not valid.

    They are written as they come, so that memory does not grow with their number, and get their
    names together at the end. With ``dry_run`` nothing is written. A document that erases is not
    valid unless it ``may_erase``: somebody else's would remove what one's own registry holds.
    With ``leaves_curated`` what the curated records beside hold is not written: an export is of
    both. Raises SubmissionError, and StoreError where the registry cannot be written.
    """
    door = Door(location, leaves_curated=leaves_curated)
    folder = location.own if dry_run else ensure_writable(location)
    added: dict[int, Added] = {}
    with folder.storage.writing() as batch:

        def take(given: Iterable[_Given]) -> list[tuple[_Given, SubmissionError]]:
            """Add documents; return those that are not valid beside what was there before them."""
            refused = []
            for one in given:
                number, (origin, document) = one
                try:
                    ready = door.prepare(document, origin)
                    result = door.judge(ready, origin, may_erase=may_erase)
                except SubmissionError as error:
                    refused.append((one, error))
                    continue
                added[number] = replace(result, observations=_to_show(ready)) if dry_run else result
                if result.is_new and not dry_run:
                    batch.add(entry_name(ready.submission_id), ready.text.encode())
            return refused

        refused = take(enumerate(track(documents, "adding")))
        # a later one may describe a model or card that an earlier one is of
        while refused and len(again := take([one for one, _ in refused])) < len(refused):
            refused = again
        if refused:
            errors = [error for _, error in refused]
            problems = [f"{e.origin}: {problem}" for e in errors for problem in e.problems]
            raise SubmissionError(problems, origin="")
        batch.commit()
    return [added[number] for number in sorted(added)]


def _to_show(ready: Prepared) -> tuple[dict[str, Any], ...]:
    return tuple(
        {name: value for name, value in row.items() if name != "samples"}
        for row in ready.document.get("observations", ())
    )


#: A document with its place among those that are added, and where it is from.
_Given = tuple[int, tuple[str, Any]]


def _only_erases(document: dict[str, Any]) -> bool:
    """Return whether a document holds erasures and nothing else, as an export does."""
    retractions = document.get("retractions", ())
    erases = bool(retractions) and all(row.get("erased") for row in retractions)
    return erases and not document.get("observations")


def _require_run_of_labels(observations: Sequence[dict[str, Any]], origin: str) -> None:
    """Raise SubmissionError for a labelled run that nothing tells from an equal one of another."""
    unnamed = [
        f"{format_observation_path(number, row)}: found the label {excerpt(label)} and neither "
        "run_id nor observed_at; expected one of them: without, equal figures of two labels or of "
        "two runs would count as one; state the run_id, such as the commit and the number of the "
        "run"
        for number, row in enumerate(observations)
        if (label := row.get("provenance", {}).get("label")) is not None
        and row.get("run_id") is None
        and row.get("observed_at") is None
    ]
    raise_problems(unnamed, origin)


def _refuse_erasures(document: dict[str, Any], origin: str) -> None:
    for number, row in enumerate(document.get("retractions", ())):
        if row.get("erased"):
            named = row["observation_id"][:12]
            raise SubmissionError(
                f"retractions[{number}]: found an erasure of {named}; expected none in a document "
                "that is added; leave it out, and erase with `registry retract "
                f"{named} --erase --reason REASON`",
                origin=origin,
            )
