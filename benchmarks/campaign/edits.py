"""Edits of a registry's files that nobody should make, and what the registry says of each."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.campaign.operations import locate
from benchmarks.campaign.truth import ask_query, build_document, judge
from registry.errors import RegistryError
from registry.store.add import add_submissions
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import create_registry, find_registry
from registry.store.ids import KnownIds
from registry.store.manifest import Manifest
from registry.store.read import read_dataset
from registry.store.renamed import write_renamed
from registry.store.repair import repair
from registry.store.state import read_state
from registry.submission.identity import canonical_json, document_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from registry.store.folder import Location

_FOLDED = (range(8), range(10, 16), range(20, 23))
_PENDING = range(30, 33)
MUST = {number for some in (*_FOLDED, _PENDING) for number in some}

#: Longest time that a check or a query may take before it counts as hanging.
_MOST_SECONDS = 60


def make_registry(path: Path) -> None:
    """Make the registry that is edited: three versions, three parts, and a journal."""
    create_registry(path, curated=False)
    for numbers in _FOLDED:
        _add(locate(path), numbers)
        fold(locate(path))
    _add(locate(path), _PENDING)
    ids = KnownIds([part.ids for part in read_state(locate(path).own).parts])
    write_renamed(locate(path).own, {"0" * 32: next(ids.keys("observations")).hex()})


def _add(location: Location, numbers: Iterable[int]) -> None:
    add_submissions(location, [(str(number), build_document(number)) for number in numbers])


@dataclass(frozen=True, slots=True)
class Edited:
    """The folder of a registry that is to be edited."""

    path: Path

    @property
    def manifest(self) -> Path:
        """The newest manifest."""
        return self.manifests[-1]

    @property
    def manifests(self) -> list[Path]:
        """All manifests, oldest first."""
        return sorted((self.path / "tables").glob("manifest-*.json"))

    @property
    def parts(self) -> list[Path]:
        """The folders of the parts, in the order of the newest manifest."""
        names = json.loads(self.manifest.read_text())["parts"]
        return [self.path / "tables" / "parts" / name for name in names]

    @property
    def entry(self) -> Path:
        """An entry of the journal."""
        return min((self.path / "journal").iterdir())


def _change_manifest(edited: Edited, *, hashed: bool = False, **changes: Any) -> None:
    """Change values of the newest manifest; with ``hashed`` its hash says so too."""
    document = {**json.loads(edited.manifest.read_text()), **changes}
    if hashed:
        manifest = Manifest(document["version"], tuple(document["parts"]), document["previous"])
        document["sha256"] = manifest.content_hash
    edited.manifest.write_text(json.dumps(document))


def _change_table(path: Path, column: str, change: Callable[[pa.ChunkedArray], Any]) -> None:
    """Rewrite a Parquet file with other values in a column."""
    table = pq.read_table(path, partitioning=None)
    place = table.schema.get_field_index(column)
    field = table.schema.field(place)
    changed = pa.array(change(table.column(column)).to_pylist(), field.type)
    pq.write_table(table.set_column(place, field, changed), path, compression="zstd")


def _add_one(values: pa.ChunkedArray) -> Any:
    return pc.add(values, 1.0)


def _change_document(values: pa.ChunkedArray) -> Any:
    return pc.replace_substring(values, '"seq_len":', '"seq_len":1')


def _nest(depth: int) -> str:
    return "[" * depth + "]" * depth


def _link(edited: Edited, path: Path) -> None:
    """Replace a file or folder by a link to where it was moved, outside of the registry."""
    elsewhere = edited.path.parent / path.name
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def _enter(edited: Edited, document: Any) -> None:
    text = canonical_json(document)
    (edited.path / "journal" / f"{document_id(text)}.json").write_text(text)


def _banana() -> Any:
    document = build_document(99)
    document["observations"][0]["outcome"] = "banana"
    return document


def _outside(edited: Edited) -> None:
    """Name a part that lies outside of the registry."""
    shutil.copytree(edited.parts[0], edited.path.parent / "outside", dirs_exist_ok=True)
    names = [part.name for part in edited.parts]
    _change_manifest(edited, hashed=True, parts=[*names, "../../../outside"])


def _twice(edited: Edited) -> None:
    names = [part.name for part in edited.parts]
    _change_manifest(edited, hashed=True, parts=[*names, names[0]])


def _left_out(edited: Edited, *, hashed: bool = False) -> None:
    names = [part.name for part in edited.parts]
    _change_manifest(edited, hashed=hashed, parts=names[1:])


def _older(edited: Edited, name: str) -> None:
    shutil.copy(edited.manifests[0], edited.manifest.with_name(name))


def _fifo(edited: Edited) -> None:
    path = edited.entry
    path.unlink()
    os.mkfifo(path)


def _folder(edited: Edited) -> None:
    path = edited.entry
    path.unlink()
    path.mkdir()


def _lock(edited: Edited) -> None:
    path = edited.path / "tables" / ".lock"
    path.unlink()
    (edited.path.parent / "target").write_text("precious")
    path.symlink_to(edited.path.parent / "target")


def _unlink(paths: Iterable[Path]) -> None:
    for path in list(paths):
        path.unlink()


def _edit_entry(edited: Edited) -> None:
    text = edited.entry.read_text()
    edited.entry.write_text(text.replace('"ok"', '"oom"'))


def _write(*names: str, text: str | bytes) -> Callable[[Edited], object]:
    """Return the edit that gives a file another content."""
    data = text.encode() if isinstance(text, str) else text
    return lambda edited: _place(edited, names).write_bytes(data)


def _place(edited: Edited, names: tuple[str, ...]) -> Path:
    known = {"manifest": edited.manifest, "entry": edited.entry, "part": edited.parts[0]}
    start = known.get(names[0], edited.path / names[0])
    return start.joinpath(*names[1:])


EDITS: dict[str, Callable[[Edited], object]] = {
    "newest manifest removed": lambda e: e.manifest.unlink(),
    "all manifests removed": lambda e: _unlink(e.manifests),
    "a manifest in between removed": lambda e: e.manifests[1].unlink(),
    "old manifest copied to a higher number": lambda e: _older(e, "manifest-000009.json"),
    "old manifest copied over the newest": lambda e: _older(e, e.manifest.name),
    "manifest: version edited": lambda e: _change_manifest(e, version=7),
    "manifest: format edited to 1": lambda e: _change_manifest(e, format=1),
    "manifest: format edited to 3": lambda e: _change_manifest(e, format=3),
    "manifest: part listed twice": _twice,
    "manifest: part left out": _left_out,
    "manifest: part left out, hash made right": lambda e: _left_out(e, hashed=True),
    "manifest: part named ../../../": _outside,
    "manifest truncated": lambda e: os.truncate(e.manifest, 100),
    "manifest emptied": lambda e: os.truncate(e.manifest, 0),
    "manifest: garbage": _write("manifest", text=bytes(range(256))),
    "manifest: nested 100,000 deep": _write("manifest", text=_nest(100_000)),
    "part.json edited": lambda e: (e.parts[0] / "part.json").write_text(
        (e.parts[0] / "part.json").read_text().replace('"rows":', '"rows":1')
    ),
    "part.json removed": lambda e: (e.parts[0] / "part.json").unlink(),
    "a part's folder removed": lambda e: shutil.rmtree(e.parts[0]),
    "a part's folder copied under another name": lambda e: shutil.copytree(
        e.parts[0], e.parts[0].with_name("0" * 24)
    ),
    "results replaced by another part's": lambda e: shutil.copy(
        e.parts[1] / "results.parquet", e.parts[0] / "results.parquet"
    ),
    "results edited in place": lambda e: _change_table(
        e.parts[0] / "results.parquet", "seconds_per_step", _add_one
    ),
    "measurements edited in place": lambda e: _change_table(
        e.parts[0] / "measurements.parquet", "value", _add_one
    ),
    "observations truncated": lambda e: os.truncate(e.parts[0] / "observations.parquet", 1000),
    "submissions removed": lambda e: (e.parts[0] / "submissions.parquet").unlink(),
    "submissions: a document edited": lambda e: _change_table(
        e.parts[0] / "submissions.parquet", "document", _change_document
    ),
    "measurements replaced by a link": lambda e: _link(e, e.parts[0] / "measurements.parquet"),
    "ids emptied": lambda e: os.truncate(e.parts[0] / "submissions.ids", 0),
    "ids removed": lambda e: (e.parts[0] / "observations.ids").unlink(),
    "ids replaced by another part's": lambda e: shutil.copy(
        e.parts[1] / "submissions.ids", e.parts[0] / "submissions.ids"
    ),
    "extra file in a part": _write("part", "extra.parquet", text="x"),
    "journal entry emptied": _write("entry", text=""),
    "journal entry edited": _edit_entry,
    "journal entry renamed": lambda e: e.entry.rename(e.entry.with_name("mine.json")),
    "journal entry a FIFO": _fifo,
    "journal entry a folder": _folder,
    "journal entry a link": lambda e: _link(e, e.entry),
    'journal entry with outcome "banana"': lambda e: _enter(e, _banana()),
    'journal entry {"a": 1}': lambda e: _enter(e, {"a": 1}),
    "the lock a link": _lock,
    "the journal a link": lambda e: _link(e, e.path / "journal"),
    "the folder of parts a link": lambda e: _link(e, e.path / "tables" / "parts"),
    "registry.json: garbage": _write("registry.json", text="{garbage"),
    "ids.csv: garbage": _write("ids.csv", text="no,such\ncolumns"),
}


#: Edits that destroy documents: the way out ends with handing these in again.
_DESTROYING = (
    "a part's folder removed",
    *(name for name in EDITS if name.startswith("journal entry")),
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a registry said of one edit."""

    name: str
    #: Whether `check` found something.
    is_named: bool
    #: right, refused, or silently wrong.
    answer: str
    #: Whether all was right again, and `check` found nothing, when its way out was taken.
    is_restored: bool
    message: str

    @property
    def is_good(self) -> bool:
        """Whether the edit was named, nobody misled, and the way out led out."""
        return self.is_named and self.is_restored and not self.answer.startswith("wrong")


def run_edits(folder: Path, names: Iterable[str] = EDITS) -> Iterator[Report]:
    """Make each edit in a registry of its own, and yield what came of it."""
    shutil.rmtree(folder, ignore_errors=True)
    make_registry(folder / "made")
    signal.signal(signal.SIGALRM, _hang)
    for number, name in enumerate(names):
        place = folder / str(number) / "registry"
        shutil.copytree(folder / "made", place)
        EDITS[name](Edited(place))
        signal.alarm(_MOST_SECONDS)
        try:
            report = _report(name, place)
        except Exception as error:  # noqa: BLE001 - a command would show it as its own fault
            message = f"{type(error).__name__}: {error}"
            report = Report(name, False, "wrong: unexpected error", False, message)  # noqa: FBT003
        finally:
            signal.alarm(0)
        yield report


def _hang(*_: object) -> None:
    raise RuntimeError(f"no answer within {_MOST_SECONDS} seconds")


def _report(name: str, place: Path) -> Report:
    messages = _check(place)
    answer = _ask(place)
    message = (messages or [answer])[0]
    _take_way_out(message, place)
    if name in _DESTROYING:
        _add(find_registry(place), MUST)
        fold(find_registry(place))
    is_restored = _ask(place) == "right" and not _check(place)
    return Report(name, bool(messages), answer, is_restored, message)


def _check(place: Path) -> list[str]:
    try:
        return [str(problem) for problem in check_registry(find_registry(place)).problems]
    except RegistryError as error:
        return [str(error)]


def _ask(place: Path) -> str:
    """Say whether a query is right, refused, or wrong.

    It is right to leave out a journal entry that is named as one that is left out.
    """
    try:
        location = find_registry(place)
        _, left_out = read_dataset(location)
        answer = ask_query(location)
    except RegistryError as error:
        return f"refused: {error}"
    must = MUST - set(_PENDING) if left_out else MUST
    return "right" if judge(answer, must).is_right else "wrong"


def _take_way_out(message: str, place: Path) -> None:
    """Do what a message says."""
    found = re.search(r"(?:^|\s)(/\S+?): ", message)
    path = Path(found[1]) if found else place
    if "move it away" in message or "; remove it" in message:
        path.rename(place.parent / "moved-away")
    if "remove the link, and move" in message:
        target = path.readlink()
        path.unlink()
        shutil.move(target, path)
    if "`registry repair`" in message:
        repair(find_registry(place))
    if "`registry fold`" in message:
        fold(find_registry(place))
    if "write that" in message:
        path.write_text('{"format": 2, "curated": false}')
    if "upgrade with" in message:  # the newer release that the message speaks of is not there
        made = place.parents[1] / "made" / "tables"
        for path_made in made.glob("manifest-*.json"):
            shutil.copy(path_made, place / "tables" / path_made.name)
    if "restore the file" in message:
        shutil.copy(place.parents[1] / "made" / path.name, path)
