"""What every importer takes and gives: files of a run in, submissions and refusals out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from registry.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


#: Fewest entries of a tokenizer's vocabulary; no settings and no results are as many.
_MANY_WORDS: Final = 1000


@dataclass(frozen=True)
class RunFile:
    """One file as read: its content is parsed once, by what it holds and not by its name.

    ``kind`` is ``json`` (``document`` is the object), ``jsonl`` (a list of objects), ``csv`` (a
    list of rows by column), ``yaml`` (the object) or ``text`` (a list of lines). ``lines`` holds
    for each entry of a list the line of the file it stands in, from 1.
    """

    path: Path
    sha256: str
    kind: str
    document: Any
    lines: tuple[int, ...] = ()
    #: Where it lies in its source, for citations; its name where that is left out.
    place: str = ""

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the document; none where it is no object, or the words of a tokenizer."""
        is_object = isinstance(self.document, dict) and not _is_vocabulary(self.document)
        return frozenset(self.document if is_object else ())

    @property
    def name(self) -> str:
        """Name of the file, without the folders it lies in."""
        return self.path.name


def _is_vocabulary(document: Mapping[str, Any]) -> bool:
    """Return whether an object gives each of many words its number, and so may have any key.

    >>> _is_vocabulary({f"word {number}": number for number in range(1000)})
    True
    """
    return len(document) >= _MANY_WORDS and all(type(word) is int for word in document.values())


class Refusal(NamedTuple):
    """A file of which nothing was taken, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Imported:
    """The outcome of an import, for the caller to report.

    ``taken`` and ``missing`` are messages: what was recognized, and which figures or settings the
    files do not hold.
    """

    submissions: tuple[dict[str, Any], ...] = ()
    taken: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportOptions:
    """What the user says beside the files.

    ``overrides`` win over the files, ``defaults`` fill in what the files leave open; both map a
    column to its text. ``reason`` says where they are from. ``catalogue`` resolves names.
    ``mapping`` is the mapping file of a table of the user's own.
    """

    catalogue: Catalogue = field(default_factory=Catalogue)
    overrides: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    reason: str = "said at import"
    mapping: Path | None = None


class Importer(Protocol):
    """One producer's files to submissions.

    ``is_single_file`` means that each file is a run of its own; otherwise the files of a run are
    handed over together. ``expects`` says what a file is told by, for who named the kind.
    """

    name: str
    is_single_file: bool
    expects: str

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Return the files that figures come from, by their content; empty if there is no run."""

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return what the files hold; raise SubmissionError where nothing can be taken."""


def join_imported(parts: Iterable[Imported]) -> Imported:
    """Return several outcomes as one."""
    parts = list(parts)
    return Imported(
        submissions=tuple(item for part in parts for item in part.submissions),
        taken=tuple(item for part in parts for item in part.taken),
        refused=tuple(item for part in parts for item in part.refused),
        missing=tuple(item for part in parts for item in part.missing),
    )
