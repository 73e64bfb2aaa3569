"""Write ``docs/mapping.md``: the keys of the mapping language, each with an example that runs.

Run ``python -m registry.tables.mapping_page`` in a checkout; with ``--check`` it only compares.
"""

from __future__ import annotations

import re
import sys
import tempfile
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from registry.sources.logs import import_source
from registry.sources.packed import pack_files
from registry.tables.curated import load_curated_catalogue
from registry.tables.mapping import SourceMapping
from registry.tables.mapping_reader import parse_mapping
from registry.tables.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.catalogue import Catalogue
    from registry.tables.apply import ImportResult

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mapping.md"
EXAMPLES = ROOT / "tests" / "examples" / "mapping"

_INTRODUCTION = """# Mappings

A mapping says what the columns of somebody's tables mean. `registry import DOC` lists the tables of
a document, `registry import DOC --draft > mapping.yaml` drafts a mapping for them, and `registry
import DOC --mapping mapping.yaml --dry-run` shows what it makes of each cell.

This page is generated from the model of the language (`registry/tables/mapping.py`,
`column_spec.py`) and from the examples in `tests/examples/mapping`, which a test runs: change
those, then run `python -m registry.tables.mapping_page`. Columns of the contract, metrics, kinds of
memory and scopes are in the [data dictionary](data-dictionary.md).

An import refuses what it cannot read with certainty, and reports what it left out. Every problem
names the table, the rows, the column and the line of the mapping to change. Regular expressions are
[RE2](https://github.com/google/re2/wiki/Syntax)'s. A value that the document does not state
outright is written `{value: 4, because: why}`, and the reason is kept with the observation.
"""

Key = tuple[str, str]

#: What the examples show of an observation beside its outcome, configuration and figures.
_SHOWN = ("model_reported", "flags", "evidence", "outcome_detail", "run_id")


def collect_keys(spec: type[Spec] = SourceMapping) -> dict[str, type[Spec]]:
    """Return the classes of the language by name, in the order in which they are met."""
    found: dict[str, type[Spec]] = {spec.__name__: spec}
    for field in spec.model_fields.values():
        for inner in _specs_in(field.annotation):
            if inner.__name__ not in found:
                found |= {k: v for k, v in collect_keys(inner).items() if k not in found}
    return found


def _specs_in(annotation: Any) -> Iterator[type[Spec]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, Spec):
            yield annotation
        return
    for inner in typing.get_args(annotation):
        yield from _specs_in(inner)


def used_keys(value: Any) -> Iterator[Key]:
    """Yield the keys that a mapping uses, each with the class that has it."""
    if isinstance(value, Spec):
        for name in value.model_fields_set:
            yield type(value).__name__, name
            yield from used_keys(getattr(value, name))
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from used_keys(inner)


def read_examples() -> dict[str, dict[str, str]]:
    """Return the examples by name: title, document, mapping, and what they give."""
    return {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(EXAMPLES.glob("*.yaml"))
    }


def run_example(example: dict[str, str], catalogue: Catalogue) -> str:
    """Return what an example gives: a line for each observation, figure and note, or problem."""
    mapping = parse_mapping(example["mapping"], origin="mapping.yaml")
    with tempfile.TemporaryDirectory() as folder:
        path, text = Path(folder) / "example.md", example["document"]
        if mapping.logs:
            path = Path(folder) / "files.jsonl"
            (text,) = pack_files({"run-1/result.txt": text})
        path.write_text(text, encoding="utf-8")
        result = import_source(path.parent if mapping.logs else path, mapping, catalogue)
    if result.problems:
        return "".join(f"{problem}\n" for problem in result.problems)
    return "".join(f"{line}\n" for line in _format_result(result, mapping))


def _format_result(result: ImportResult, mapping: SourceMapping) -> Iterator[str]:
    common = {name: stated.value for name, stated in mapping.defaults.items()}
    for observation in result.submission["observations"]:
        places = "; ".join(citation["locator"] for citation in observation["citations"])
        said = {name: observation[name] for name in _SHOWN if name in observation}
        said |= {k: v for k, v in observation["configuration"].items() if common.get(k) != v}
        yield ", ".join(
            [f"{places}: {observation['outcome']}", *(f"{k}={v}" for k, v in said.items())]
        )
        for figure in observation.get("measurements", ()):
            device = figure.get("device_index")
            whose = figure.get("scope", "total") if device is None else f"card {device}"
            words = [figure.get("statistic"), whose, figure.get("kind")]
            named = ", ".join(word for word in words if word and word != "value")
            yield f"  {figure['metric']} = {figure['value']:.12g} ({named}){_bounds(figure)}"
    yield from (f"note: {note}" for note in result.notes)


def _bounds(figure: Mapping[str, Any]) -> str:
    """Return between what a figure lies, where its text says so."""
    reason = figure.get("reason", "")
    if "in the source" not in reason and "bound" not in reason:
        return ""
    ends = [f"{figure.get(end, figure['value']):.12g}" for end in ("low", "high")]
    between = f", {ends[0]} to {ends[1]}" if ends[0] != ends[1] else ""
    return f"{between}: {reason}"


def format_page(examples: dict[str, dict[str, str]]) -> str:
    """Return the page: the keys of each part of the language, then the examples."""
    shown: dict[Key, str] = {}
    for name, example in examples.items():
        mapping = parse_mapping(example["mapping"], origin="mapping.yaml")
        for key in used_keys(mapping):
            shown.setdefault(key, name)
    parts = [_INTRODUCTION]
    parts += [_format_class(spec, shown, examples) for spec in collect_keys().values()]
    parts += ["## Examples\n"]
    parts += [_format_example(example) for example in examples.values()]
    return "\n".join(parts)


def _format_class(
    spec: type[Spec], shown: dict[Key, str], examples: dict[str, dict[str, str]]
) -> str:
    lines = [f"## {_title(spec)}", "", (spec.__doc__ or "").strip().split("\n")[0], ""]
    lines += ["| key | meaning | example |", "| --- | --- | --- |"]
    for name, field in spec.model_fields.items():
        example = shown.get((spec.__name__, name))
        link = _link(examples[example]["title"]) if example else ""
        inner = next(_specs_in(field.annotation), None)
        see = f" See [{_title(inner)}](#{_anchor(_title(inner))})." if inner else ""
        required = " Required." if field.is_required() else ""
        meaning = str(field.description).replace("|", r"\|")
        lines.append(f"| `{name}` | {meaning}{required}{see} | {link} |")
    return "\n".join(lines) + "\n"


def _title(spec: type[Spec]) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", spec.__name__.removesuffix("Spec")).lower()
    return words.capitalize()


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def _link(title: str) -> str:
    return f"[{title}](#{_anchor(title)})"


def _format_example(example: dict[str, str]) -> str:
    document = _fence(example.get("language", "markdown"), example["document"])
    return (
        f"### {example['title']}\n\n{document}\n"
        f"{_fence('yaml', example['mapping'])}\n{_fence('text', example['gives'])}"
    )


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def main(arguments: list[str]) -> int:
    """Write the page and what the examples give, or compare them; return the exit status."""
    examples = read_examples()
    catalogue = load_curated_catalogue(ROOT / "records")
    wrong = [name for name, e in examples.items() if run_example(e, catalogue) != e["gives"]]
    page = format_page(examples)
    is_same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
    if "--check" not in arguments:
        PAGE.write_text(page, encoding="utf-8")
        is_same = True
    for name in wrong:
        sys.stderr.write(f"{EXAMPLES.name}/{name}.yaml gives:\n")
        sys.stderr.write(run_example(examples[name], catalogue))
    if not is_same:
        sys.stderr.write("docs/mapping.md differs: run python -m registry.tables.mapping_page\n")
    return 1 if wrong or not is_same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
