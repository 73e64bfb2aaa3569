"""Words that a statement compares a column with and that no row can hold: `0` is no answer then."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.contract import vocabulary
from registry.contract.descriptions import describe_column
from registry.contract.methods import QUANTIZED
from registry.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from registry.catalogue import Catalogue

#: A column, `=` or `in (`, and the texts or parameters that it is compared with.
_TEXT = r"'(?:[^']|'')*'|\$\w+"
_COMPARED = re.compile(
    rf"\b(\w+)\"?\s*(?:==?|in\s*\()\s*((?:{_TEXT})(?:\s*,\s*(?:{_TEXT}))*)", re.IGNORECASE
)
_EACH = re.compile(_TEXT)


def explain_unmatched(sql: str, params: Mapping[str, Any], catalogue: Catalogue) -> Iterator[str]:
    """Yield what is wrong with each word that no row of the column can hold, and the way out.

    Only columns of a vocabulary, the ids of models and cards, and the families and types of models
    are looked at. For a person beside an answer that has no rows: the statement is not parsed, so a
    comment may be taken for a part.
    """
    for column, texts in _COMPARED.findall(sql):
        for text in _EACH.findall(texts):
            word = params.get(text[1:]) if text[0] == "$" else text[1:-1].replace("''", "'")
            found = _explain(column.lower(), word, catalogue) if isinstance(word, str) else None
            if found:
                yield f"{column} {word!r}: {found}"


def _explain(column: str, word: str, catalogue: Catalogue) -> str | None:
    match column:
        case "gpu_id":
            return _explain_gpu(word, catalogue)
        case "model_id":
            known = catalogue.resolve_model(word)
            return _explain_id(word, known, catalogue.nearest_model, "registry models")
        case "model_type" | "family":
            words = {row[column] for row in catalogue.models.values() if row.get(column)}
            return None if word in words else f"no known model has it{did_you_mean(word, words)}"
    return _explain_word(column, word)


def _explain_word(column: str, word: str) -> str | None:
    described = describe_column("results", column)
    if described is None or described.vocabulary is None:
        return None
    words = vocabulary(described.vocabulary)
    if word in words:
        return None
    if column == "method" and word.lower() in QUANTIZED:
        method, bits = QUANTIZED[word.lower()]
        return f"expected method = '{method}' and quant_bits = {bits}"
    return f"none of the column's words{did_you_mean(word, words)}; see registry query --schema"


def _explain_gpu(word: str, catalogue: Catalogue) -> str | None:
    known = catalogue.resolve_gpu(word)
    kinds = sorted({*catalogue.kinds_of(word)} - {word}) if known == word else []
    if kinds:
        ids = ", ".join(f"'{kind}'" for kind in kinds)
        return f"a family of cards, whose ids are in ({ids})"
    return _explain_id(word, known, catalogue.nearest_gpu, "registry gpus")


def _explain_id(
    word: str, known: str | None, nearest: Callable[[str], str], command: str
) -> str | None:
    if known is not None:
        return None if known == word else f"its id is '{known}'"
    return f"not known{nearest(word)}; `{command}` lists those that are"
