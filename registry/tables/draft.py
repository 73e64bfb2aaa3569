"""Draft a mapping of a document's tables: what is known is filled in, what is open is a ``?``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from registry.contract import vocabulary
from registry.tables.cell_reader import bare_text, footnote_of, is_absent
from registry.tables.column_spec import SHARED_METRICS
from registry.tables.guess import Guess, guess_columns
from registry.tables.inline import plain_text
from registry.tables.matching import TABLE_SUFFIXES
from registry.text import format_slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.tables.matching import TableDocument
    from registry.tables.raw_table import RawTable

#: What stands for what the drafter has to fill in.
OPEN: Final = "?"

#: Most distinct texts of a column that are listed with their meanings.
_MOST_TEXTS = 60

_METHODS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (r"q-?lora", {"method": "lora", "quant_bits": {"value": 4, "because": "QLoRA is 4-bit LoRA"}}),
    (r"full|sft|全量", {"method": "full"}),
    (r"freez", {"method": "freeze"}),
    (r"p-?tuning", {"method": "p_tuning"}),
    (r"\blora\b", {"method": "lora"}),
)
_CARDS = re.compile(
    r"(?P<n>[0-9]{1,5})\s*[xX*\u00d7]\s*(?P<gpu>.+)|(?P<first>.+?)\s*[xX*\u00d7]\s*(?P<last>[0-9]{1,5})"
)

#: Columns of the contract whose texts are listed one by one, with what each means.
_LISTED: Final = ("model_id", "gpu_id", "method", "compute_dtype")
_REQUIRED: Final = ("model_id", "method", "gpu_id", "n_gpus")


def draft_mapping(
    path: Path,
    document: TableDocument,
    catalogue: Catalogue,
    stated: Mapping[str, str | None] | None = None,
) -> str:
    """Return a mapping in YAML for the tables of a document in which something looks measured.

    ``stated`` are columns of the source: what it says is filled in, what it has no text for is
    open. Without it, the source has what the document itself tells.
    """
    tables = measured_tables(document)
    drafter = _Drafter(catalogue)
    body = [line for table in tables for line in drafter.draft_table(table, document)]
    lines = [
        f"# A draft of the mapping of {path.name}. Fill in what is {OPEN!r}, check the rest.",
        "source:",
        *_draft_source(path, document, stated),
        *_draft_common(tables),
        "tables:",
        *body,
    ]
    if not tables:
        lines.append(f"  - match: {{table: {OPEN!r}}}  # no column of any table looks measured")
    return "\n".join(line for line in lines if line) + "\n"


def _draft_source(
    path: Path, document: TableDocument, stated: Mapping[str, str | None] | None
) -> Iterator[str]:
    told: dict[str, str | None] = {"source_id": slug_of(path), "title": title_of(path, document)}
    is_copy = path.suffix.lower() in TABLE_SUFFIXES and stated is None
    told |= {"kind": "document"} | ({} if is_copy else {"sha256": document.sha256})
    yield from format_source({**told, **(stated or {})}, is_final=stated is not None)


def format_source(told: Mapping[str, str | None], *, is_final: bool) -> Iterator[str]:
    """Yield the lines below ``source:``, with what is to be filled in, and where more can be said.

    ``is_final`` says that whoever adds the source was asked for all of it.
    """
    for name, text in told.items():
        yield f"  {name}: {_yaml(OPEN if text is None else text)}"
    if not is_final:
        yield "  # and url, publisher, published_on, licence, revision where they are known"
    elif None in told.values():
        yield f"  # leave out a line with {OPEN!r} where nobody can know it"


def measured_tables(document: TableDocument) -> list[RawTable]:
    """Return the tables of a document in which something looks measured."""
    return [table for table in document.tables if _is_measured(table)]


def _is_measured(table: RawTable) -> bool:
    guesses = guess_columns(table).values() if table.problem is None and table.rows else ()
    return any(guess.metric is not None for guess in guesses)


def slug_of(path: Path) -> str:
    """Return an id of a source that is called as its document."""
    name = path.name if path.is_dir() else path.stem
    return format_slug(name, otherwise="source")


def title_of(path: Path, document: TableDocument) -> str:
    """Return the first heading of a document, else its file's name."""
    headings = (table.heading[0] for table in document.tables if table.heading)
    return next(headings, path.name)


def _draft_common(tables: list[RawTable]) -> Iterator[str]:
    """Yield what holds for all tables: footnote marks, and rows that say nothing."""
    marks = [
        mark
        for table in tables
        for text in (*table.columns, *(cell.text for row in table.rows for cell in row.cells))
        if (mark := footnote_of(text)) is not None
    ]
    for number, mark in enumerate(dict.fromkeys(marks)):
        if number == 0:
            yield "footnotes:  # what each mark says, as columns and values; {} for nothing"
        yield f"  {_yaml(mark)}: {OPEN!r}"
    if any(_has_empty_rows(table) for table in tables):
        yield "skip: [{empty: true}]"


def _has_empty_rows(table: RawTable) -> bool:
    places = [n for n, guess in enumerate(guess_columns(table).values()) if guess.metric]
    return any(all(is_absent(row.cells[n].text, ()) for n in places) for row in table.rows)


class _Drafter:
    """Writes the parts of a mapping for single tables."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def draft_table(self, table: RawTable, document: TableDocument) -> Iterator[str]:
        """Yield the lines of one table's entry."""
        guesses = guess_columns(table)
        file = f"  # {document.files[table.index - 1]}" if document.files else ""
        yield f"  - match: {{table: {table.index}}}{file}"
        if table.heading:
            yield f"    title: {_yaml(table.heading[-1])}"
        yield from self._draft_defaults(table, guesses)
        yield "    columns:"
        taken: set[str] = set()
        repeated = []
        for place, (name, guess) in enumerate(guesses.items()):
            texts = list(dict.fromkeys(row.cells[place].text for row in table.rows))
            if guess.metric is not None:
                yield f"      {_yaml(name)}: {self._draft_figure(guess)}"
            elif guess.to is not None and guess.to not in taken:
                taken.add(guess.to)
                yield from self._draft_values(name, guess.to, texts)
            elif guess.to is not None:
                repeated.append(name)
        left = [n for n, g in guesses.items() if g.metric is None and g.to not in taken]
        rest = [n for n in guesses if n in left or n in repeated]
        yield "    ignore: rest" + (f"  # {', '.join(map(repr, rest))}" if rest else "")

    def _draft_defaults(self, table: RawTable, guesses: dict[str, Guess]) -> Iterator[str]:
        """Yield what the rows do not state: what every observation needs, and its cards."""
        stated = {guess.to for guess in guesses.values()}
        if "gpu_id" in stated and self._names_numbers(table, guesses):
            stated.add("n_gpus")
        missing = [name for name in _REQUIRED if name not in stated]
        if missing:
            yield "    defaults:"
        for name in missing:
            optional = name in ("gpu_id", "n_gpus")
            hint = "  # leave the line out where the document does not say" if optional else ""
            yield f"      {name}: {OPEN!r}{hint}"

    def _names_numbers(self, table: RawTable, guesses: dict[str, Guess]) -> bool:
        place = next(n for n, guess in enumerate(guesses.values()) if guess.to == "gpu_id")
        return all(_CARDS.fullmatch(bare_text(row.cells[place].text)) for row in table.rows)

    def _draft_figure(self, guess: Guess) -> str:
        figure: dict[str, Any] = {"metric": guess.metric}
        if guess.metric in SHARED_METRICS:
            is_share = guess.header.per_gpu and guess.metric != "peak_memory"
            figure["scope"] = "mean_gpu" if is_share else OPEN
        figure |= {"kind": guess.kind} if guess.kind and guess.metric == "peak_memory" else {}
        figure |= {"statistic": guess.statistic} if guess.statistic else {}
        figure |= {"unit": guess.unit} if guess.unit else {}
        if guess.header.clock == "h:mm":
            figure |= {"read_as": "h:mm", "reason": "the header says h:mm"}
        hint = "" if figure.get("scope") != OPEN else "  # total, or "
        hint += "max_gpu or mean_gpu" if hint else ""
        return f"{_yaml({'figure': figure})}{hint}"

    def _draft_values(self, name: str, to: str, texts: list[str]) -> Iterator[str]:
        said = [text for text in texts if not is_absent(text, ())]
        is_long = any(re.fullmatch(r"[0-9.]+\s*[kKM]", bare_text(text)) for text in said)
        if to == "seq_len" and is_long:
            yield f"      {_yaml(name)}: {{to: seq_len, k_is: {OPEN!r}}}  # 1000 or 1024"
        elif to not in _LISTED or len(said) > _MOST_TEXTS:
            yield f"      {_yaml(name)}: {{to: {to}}}"
        else:
            yield f"      {_yaml(name)}:"
            yield "        values:"
            for text in said:
                yield f"          {_yaml(plain_text(text))}: {self._draft_value(to, text)}"

    def _draft_value(self, to: str, text: str) -> str:
        bare = bare_text(text)
        if to == "model_id":
            return _yaml({to: self._catalogue.resolve_model(bare) or OPEN})
        if to == "gpu_id":
            return _yaml(self._gpu(bare))
        if to == "method":
            return _yaml(_method(bare))
        return _yaml({to: bare.lower() if bare.lower() in vocabulary("dtype") else OPEN})

    def _gpu(self, text: str) -> dict[str, Any]:
        found = _CARDS.fullmatch(text)
        if found is None or self._catalogue.resolve_gpu(text) is not None:
            return {"gpu_id": self._catalogue.resolve_gpu(text) or OPEN}
        gpu, n_gpus = found["gpu"] or found["first"], found["n"] or found["last"]
        return {"gpu_id": self._catalogue.resolve_gpu(gpu) or OPEN, "n_gpus": int(n_gpus)}


def _method(text: str) -> dict[str, Any]:
    lowered = text.lower()
    if lowered in vocabulary("method"):
        return {"method": lowered}
    found = next((said for pattern, said in _METHODS if re.search(pattern, lowered)), None)
    return found or {"method": OPEN}


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=10**9, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
