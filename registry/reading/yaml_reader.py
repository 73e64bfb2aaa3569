"""Read YAML that somebody else wrote: no key twice, and nothing that grows when it is expanded."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor

from registry.reading.bounded_file import ReadingError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Largest YAML text that is read, in characters: sixty times the longest mapping of the records.
LARGEST_YAML: Final = 256 * 2**10

#: Most values that a document may hold once its aliases are written out.
_MOST_VALUES: Final = 100_000

#: Longest number: Python takes time that grows with the square of a number's digits.
_LONGEST_NUMBER: Final = 64


_MERGE: Final = "tag:yaml.org,2002:merge"


class _StrictConstructor(SafeConstructor):
    """A safe constructor that refuses repeated keys, endless numbers and merges that multiply."""

    _n_merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Write out what `<<` brings, after a look at how much that is in the document."""
        for key, value in node.value:
            if key.tag == _MERGE:
                for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    self._add_merged(part, key)
        super().flatten_mapping(node)

    def _add_merged(self, part: yaml.Node, key: yaml.Node) -> None:
        if isinstance(part, yaml.MappingNode):
            self.flatten_mapping(part)
            self._n_merged += 1 + len(part.value)
        if self._n_merged > _MOST_VALUES:
            problem = f"found more than {_MOST_VALUES} values with merges written out"
            raise yaml.constructor.ConstructorError(
                None, None, f"{problem}, expected fewer", key.start_mark
            )

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else key_node
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"found key {key!r} twice, expected it once", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Return an integer or a float; its text is bounded before it is read."""
        if len(node.value) > _LONGEST_NUMBER:
            problem = f"found a number of {len(node.value)} characters"
            raise yaml.constructor.ConstructorError(
                None, None, f"{problem}, expected at most {_LONGEST_NUMBER}", node.start_mark
            )
        is_integer = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if is_integer else self.construct_yaml_float(node)


for _tag in ("int", "float"):
    _StrictConstructor.add_constructor(  # type: ignore[type-var] # the stub asks for a loader
        f"tag:yaml.org,2002:{_tag}", _StrictConstructor.construct_number
    )


class _TextKeyConstructor(_StrictConstructor):
    """A strict constructor whose keys are the texts as written, and whose dates are texts."""

    def construct_date(self, node: yaml.ScalarNode) -> str:
        """Return a date as it is written."""
        return str(node.value)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag in _PLAIN_TAGS:
                key_node.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep=deep)


_PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{tag}" for tag in ("int", "float", "bool", "null")}
_TextKeyConstructor.add_constructor(  # type: ignore[type-var] # as above
    "tag:yaml.org,2002:timestamp", _TextKeyConstructor.construct_date
)


def _make_loaders(constructor: type[_StrictConstructor]) -> tuple[Any, ...]:
    """Return the loaders with a constructor: libyaml's parser where it is there, then PyYAML's.

    The first takes a fifth of the time, the second has the messages that are shown. The nodes are
    composed by PyYAML for both: libyaml ends the process where lists are nested 100,000 deep.
    """
    name = constructor.__name__.removesuffix("Constructor")
    plain = type(f"{name}Loader", (constructor, yaml.SafeLoader), {})
    if not yaml.__with_libyaml__:
        return (plain,)

    def begin(loader: Any, stream: bytes | str) -> None:
        yaml.CSafeLoader.__init__(loader, stream)
        Composer.__init__(loader)

    parts = (Composer, constructor, yaml.CSafeLoader)
    return type(f"{name}QuickLoader", parts, {"__init__": begin}), plain


_STRICT: Final = _make_loaders(_StrictConstructor)
_TEXT_KEYS: Final = _make_loaders(_TextKeyConstructor)


def _load(data: bytes | str, loaders: tuple[Any, ...]) -> Any:
    *quick, plain = loaders
    for loader in quick:
        with suppress(yaml.YAMLError):
            return yaml.load(data, Loader=loader)  # noqa: S506 - a safe loader
    return yaml.load(data, Loader=plain)  # noqa: S506 - a safe loader


Path = tuple[str | int, ...]


def parse_yaml(
    data: bytes | str, *, origin: str, text_keys: bool = False, limit: int = LARGEST_YAML
) -> Any:
    """Return the document in a YAML text.

    With ``text_keys``, ``yes``, ``4090`` or ``1.5`` as a key are these texts, and a date is a text.

    Raises:
        ReadingError: the text is too long or no YAML, a key stands twice in one mapping, a number
            has too many digits, or the document is nested too deep or too large with its aliases
            written out.
    """
    if len(data) > limit:
        raise ReadingError(
            origin, f"found {len(data)} characters of YAML, expected at most {limit}"
        )
    try:
        document = _load(data, _TEXT_KEYS if text_keys else _STRICT)
        n_values = _count_values(document, {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{origin}, line {mark.line + 1}, column {mark.column + 1}" if mark else origin
        raise ReadingError(place, f"{error.problem}; expected YAML") from None
    except RecursionError:
        raise ReadingError(origin, "nested too deeply; expected a few levels") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ReadingError(origin, f"{str(error).splitlines()[0]}; expected YAML") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):
        # what PyYAML raises for a text that its tag does not fit: `!!int ''`, `!!bool x`
        raise ReadingError(
            origin, "found a value that is not what its tag says; expected YAML"
        ) from None
    if n_values > _MOST_VALUES:
        raise ReadingError(
            origin,
            f"found {n_values} values with aliases written out, expected at most {_MOST_VALUES}",
        )
    return document


def _count_values(value: Any, counted: dict[int, int]) -> int:
    """Count the values below one, each alias as often as it stands; one inside itself never ends.

    ``counted`` holds what each list and mapping came to, so that each is walked through once.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counted:
        counted[id(value)] = _MOST_VALUES + 1  # until it is known: what an endless one comes to
        inner = value.values() if isinstance(value, dict) else value
        counted[id(value)] = 1 + sum(_count_values(item, counted) for item in inner)
    return counted[id(value)]


def find_lines(data: bytes | str) -> dict[Path, int]:
    """Return the line, from 1, on which each part of a valid YAML text stands, by its path.

    What an alias brings stands where its anchor is.
    """
    lines: dict[Path, int] = {}
    root = yaml.compose(data, Loader=_TEXT_KEYS[0])
    todo: list[tuple[Path, yaml.Node]] = [((), root)] if root else []
    for _ in range(_MOST_VALUES):  # aliases may make it endless
        if not todo:
            break
        path, node = todo.pop()
        lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            todo += [((*path, place), item) for place, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                lines[inner] = key.start_mark.line + 1
                todo.append((path if key.value == "<<" else inner, value))
    return lines


def nearest_line(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of a part of a document, or of the nearest part around it."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)
