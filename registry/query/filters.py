"""Which observations are meant: the filters of lists and pictures, bound to a statement."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from registry.contract import vocabulary
from registry.errors import FilterError, did_you_mean
from registry.store.ids import row_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from registry.catalogue import Catalogue
    from registry.query.model import Read
    from registry.store.snapshot import Snapshot

#: Where a statement wants the condition. Without it, the statement reads all observations.
_PLACE = "/* filters */"


@dataclass(frozen=True)
class Filters:
    """Observations that meet all that is stated, in the words of the user."""

    model: str | None = None
    gpu: str | None = None
    method: str | None = None
    source: str | None = None
    outcome: str | None = None
    seq_len: int | None = None

    def __str__(self) -> str:
        """Return what is stated, as a heading has it."""
        stated = self.stated()
        if length := stated.pop("seq_len", None):
            stated["length"] = f"length {length}"
        return ", ".join(map(str, stated.values()))

    def stated(self) -> dict[str, Any]:
        """Return what is stated, by the names of the filters."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def split_filters(options: Mapping[str, Any]) -> tuple[Filters, dict[str, Any]]:
    """Return the filters among some options, and the others."""
    names = [field.name for field in fields(Filters)]
    chosen = Filters(**{name: options[name] for name in names if name in options})
    return chosen, {name: value for name, value in options.items() if name not in names}


def put_filters(sql: str) -> str:
    """Return a statement with the condition of the filters where it says ``/* filters */``.

    It has the parameters that `bind_filters` returns.
    """
    condition = (files("registry.query") / "filters.sql").read_text(encoding="utf-8")
    return sql.replace(_PLACE, condition)


def bind_filters(filters: Filters, snapshot: Snapshot, read: Read) -> dict[str, Any]:
    """Return the parameters of a filtered statement.

    A card stands for all of its family. Raises FilterError for a word that the snapshot does not
    know; ``read`` is asked only about words that are not known without the engine.
    """
    return {
        "model": _find_model(filters.model, snapshot.catalogue),
        "gpus": _find_gpus(filters.gpu, snapshot.catalogue),
        "method": _find_method(filters.method, read),
        "source": find_source(filters.source, snapshot, read),
        "outcome": find_word("outcome", filters.outcome, vocabulary("outcome")),
        "seq_len": filters.seq_len,
    }


def _find_model(name: str | None, catalogue: Catalogue) -> str | None:
    if name is None:
        return None
    found = catalogue.resolve_model(name)
    if found is None:
        raise _unknown("model", name, catalogue.nearest_model(name), "registry models")
    return found


def _find_gpus(names: str | None, catalogue: Catalogue) -> str | None:
    """Return the ids of cards (with commas between, as they are named) and of their families."""
    if names is None:
        return None
    ids: dict[str, None] = {}
    for name in names.split(","):
        found = catalogue.resolve_gpu(name)
        if found is None:
            raise _unknown("gpu", name, catalogue.nearest_gpu(name), "registry gpus")
        ids |= dict.fromkeys(catalogue.kinds_of(found))
    return ",".join(ids)


def _find_method(name: str | None, read: Read) -> str | None:
    """Return a method, or a customary label of one."""
    if name is None or name.lower() in vocabulary("method"):
        return name
    listed = "select distinct method_label from results"
    rows = read(f"{listed} where method_label is not null", {})
    known = {*vocabulary("method"), *(row["method_label"].lower() for row in rows)}
    if name.lower() in known:
        return name
    raise _unknown("method", name, did_you_mean(name, known), f"registry query '{listed}'")


def find_source(name: str | None, snapshot: Snapshot, read: Read) -> str | None:
    """Return a source's id; raise FilterError for an unknown one.

    The ids beside the tables are asked first, and the engine only about what they do not have.
    """
    if name is None or snapshot.known.contains("sources", row_key("sources", {"source_id": name})):
        return name
    known = [row["source_id"] for row in read("select source_id from sources", {})]
    if name in known:
        return name
    raise _unknown("source", name, did_you_mean(name, known), "registry sources")


def find_word(kind: str, name: str | None, known: Iterable[str]) -> str | None:
    """Return a word in the case in which it is known; raise FilterError for an unknown one."""
    words = {word.lower(): word for word in known}
    if name is None or name.lower() in words:
        return name and words[name.lower()]
    expected = f"expected one of {', '.join(sorted(words.values()))}"
    raise FilterError(f"{kind} {name!r} is not known{did_you_mean(name, words)}; {expected}")


def _unknown(kind: str, name: str, near: str, command: str) -> FilterError:
    return FilterError(f"{kind} {name!r} is not known{near}; `{command}` lists those that are")
