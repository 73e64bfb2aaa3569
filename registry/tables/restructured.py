"""Tables of reStructuredText: grid, simple, list and CSV tables, read by docutils.

Directives and roles that docutils does not know are Sphinx's most often: what they hold is read as
if they were not there. Nothing is included from files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.tables.raw_table import DraftCell, DraftRow, DraftTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes

#: Longest text, in characters: docutils takes some seconds for as much.
_LONGEST = 256 * 2**10

#: Deepest indentation of nested blocks, and most directives and roles that are unknown.
_DEEPEST_INDENT = 200
_MOST_UNKNOWN = 200

#: Most substitutions (`|name|`) of a text, those inside of others written out: a few lines can
#: double each other without end.
_MOST_SUBSTITUTED = 10_000

_DIRECTIVE = re.compile(r"^\s*\.\. ([A-Za-z][\w:-]{0,40})::", re.MULTILINE)
_ROLE = re.compile(r":([A-Za-z][\w:-]{0,40}):`")
_FOOTNOTE = re.compile(r"\[#?([\w-]+)\]_")
_MOST_PARAGRAPHS, _LONGEST_PARAGRAPH = 2, 600
_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "_disable_config": True,
    "line_length_limit": 10_000,
    "smart_quotes": False,
    "doctitle_xform": False,
}


def read_restructured(text: str) -> list[DraftTable]:
    """Return the document's tables in order; raise SourceError where it is too long or too deep."""
    if len(text) > _LONGEST:
        raise SourceError(
            f"found {len(text)} characters, expected at most {_LONGEST} of reStructuredText; split "
            "the document"
        )
    deep = next((n for n, line in enumerate(text.split("\n"), 1) if _indent(line)), None)
    if deep is not None:
        raise SourceError(
            f"line {deep}: found an indentation above {_DEEPEST_INDENT}, expected text for people"
        )
    return [_draft(table) for table in _parse(text)]


def _indent(line: str) -> bool:
    return len(line) - len(line.lstrip()) > _DEEPEST_INDENT


def _parse(text: str) -> list[nodes.table]:
    from docutils import nodes  # noqa: PLC0415 - takes a tenth of a second
    from docutils.core import publish_doctree  # noqa: PLC0415

    _know_names(text)
    try:
        document = publish_doctree(text, reader=_reader(), settings_overrides=_SETTINGS)
    except SourceError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever hostile text makes of docutils
        raise SourceError(
            f"found text that docutils cannot read ({str(error)[:80]}), expected reStructuredText"
        ) from None
    return list(document.findall(nodes.table))


def _reader() -> Any:
    """Return a reader that looks at what substitutions come to before they are carried out."""
    from docutils import nodes  # noqa: PLC0415
    from docutils.readers.standalone import Reader  # noqa: PLC0415
    from docutils.transforms import Transform  # noqa: PLC0415
    from docutils.transforms.references import Substitutions  # noqa: PLC0415

    class Bounded(Transform):  # type: ignore[misc]
        """Refuses substitutions that multiply, or go round in circles."""

        default_priority = Substitutions.default_priority - 1

        def apply(self) -> None:
            defined, names = self.document.substitution_defs, self.document.substitution_names
            counted: dict[str, int] = {}

            def count(node: Any) -> int:
                if len(counted) > _MOST_SUBSTITUTED:
                    return _MOST_SUBSTITUTED
                total = 0
                for reference in node.findall(nodes.substitution_reference):
                    name = reference["refname"]
                    key = name if name in defined else names.get(name.lower())
                    if key is not None and key not in counted:
                        counted[key] = _MOST_SUBSTITUTED  # until it is known: of an endless one
                        counted[key] = count(defined[key])
                    total += 1 + (counted[key] if key is not None else 0)
                return total

            if count(self.document) > _MOST_SUBSTITUTED:
                raise SourceError(
                    f"found more than {_MOST_SUBSTITUTED} substitutions once written out, expected "
                    "fewer, none inside itself"
                )

    class Looking(Reader):  # type: ignore[misc]
        def get_transforms(self) -> list[Any]:
            return [*super().get_transforms(), Bounded]

    return Looking()


def _know_names(text: str) -> None:
    """Make docutils read what unknown directives and roles hold."""
    from docutils import nodes  # noqa: PLC0415
    from docutils.parsers.rst import Directive, directives, roles  # noqa: PLC0415

    class Transparent(Directive):  # type: ignore[misc]
        """A directive of which only the content counts."""

        has_content = True
        optional_arguments = 100
        final_argument_whitespace = True
        option_spec = _AnyOption()

        def run(self) -> list[Any]:
            container = nodes.container()
            self.state.nested_parse(self.content, self.content_offset, container)
            return [container]

    def plain(_name: str, _raw: str, text: str, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
        return [nodes.inline(text, text.partition("<")[0].strip() or text)], []

    names = [name for name in dict.fromkeys(_DIRECTIVE.findall(text)) if not _is_known(name)]
    for name in names[:_MOST_UNKNOWN]:
        directives.register_directive(name, Transparent)
    for name in [*dict.fromkeys(_ROLE.findall(text))][:_MOST_UNKNOWN]:
        if name.lower() not in _role_names():
            roles.register_local_role(name, plain)


class _AnyOption(dict[str, Any]):
    """Takes every option of a directive, as text."""

    def __missing__(self, _key: str) -> Any:
        return str

    def __bool__(self) -> bool:
        return True


def _is_known(name: str) -> bool:
    from docutils.parsers.rst import directives  # noqa: PLC0415
    from docutils.parsers.rst.languages import en  # noqa: PLC0415

    return name.lower() in en.directives or name in directives._directives  # noqa: SLF001 - no other way to ask


def _role_names() -> set[str]:
    from docutils.parsers.rst.languages import en  # noqa: PLC0415

    return set(en.roles)


def _draft(table: nodes.table) -> DraftTable:
    from docutils import nodes  # noqa: PLC0415

    rows: list[DraftRow] = []
    n_header = 0
    line = _line_of(table)
    for group_number, group in enumerate(table.findall(_is_row_group)):
        for row in group.children:
            cells = tuple(_cell(entry, is_header=isinstance(group, nodes.thead)) for entry in row)
            rows.append(DraftRow(_line_of(row, line), cells, group_number))
        n_header += len(group.children) if isinstance(group, nodes.thead) else 0
    headings, prose = tuple(_headings(table)), tuple(_prose(table))
    return DraftTable(headings, tuple(rows), line, n_header or 1, pads=True, prose=prose)


def _is_row_group(node: Any) -> bool:
    from docutils import nodes  # noqa: PLC0415

    return isinstance(node, nodes.thead | nodes.tbody)


def _cell(entry: Any, *, is_header: bool) -> DraftCell:
    return DraftCell(
        _text(entry),
        is_header=is_header,
        rowspan=entry.get("morerows", 0) + 1,
        colspan=entry.get("morecols", 0) + 1,
    )


def _text(node: Any) -> str:
    """Return the text of a cell, with references to footnotes as marks."""
    from docutils import nodes  # noqa: PLC0415

    if isinstance(node, nodes.footnote_reference):
        return f"[^{node.astext() or node.get('refname', '')}]"
    if isinstance(node, nodes.problematic):  # a reference to a footnote that is not there
        return _FOOTNOTE.sub(r"[^\1]", node.astext())
    if isinstance(node, nodes.Text):
        return str(node.astext())  # without the marks of what is escaped
    if isinstance(node, nodes.system_message):
        return ""
    parts = [_text(child) for child in node.children]
    between = "\n" if isinstance(node, nodes.entry) else ""
    return between.join(part for part in parts if part).strip(" " if between == "" else None)


def _headings(table: nodes.table) -> Iterator[str]:
    """Yield the titles of the sections around a table, the outermost first, and its own."""
    from docutils import nodes  # noqa: PLC0415

    above = []
    node: Any = table.parent
    while node is not None:
        titles = [child for child in node.children if isinstance(child, nodes.title)]
        above += [title.astext() for title in titles[:1]]
        node = node.parent
    yield from reversed(above)
    yield from (child.astext() for child in table.children if isinstance(child, nodes.title))


def _prose(table: nodes.table) -> list[str]:
    """Return the paragraphs right above a table, since the heading or the table before."""
    from docutils import nodes  # noqa: PLC0415

    found: list[str] = []
    for node in table.parent.children[: table.parent.index(table)]:
        is_prose = isinstance(node, nodes.paragraph)
        is_end = isinstance(node, nodes.table | nodes.title | nodes.section)
        found = [] if is_end else [*found, *([node.astext()] if is_prose else [])]
    return [" ".join(text.split())[:_LONGEST_PARAGRAPH] for text in found[-_MOST_PARAGRAPHS:]]


def _line_of(node: Any, default: int = 1) -> int:
    inner = [node, *node.findall()]
    return next((found.line for found in inner if getattr(found, "line", None)), default)
