"""YAML from strangers is read strictly, and nothing in it grows beyond its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.reading import ReadingError, yaml_reader
from registry.reading.yaml_reader import LARGEST_YAML, find_lines, parse_yaml

RECORDS = Path(__file__).parents[3] / "records"

#: Each list holds the one before nine times: 490 million values in 200 characters.


def _merging(first: str, form: str, n_levels: int) -> str:
    """Return mappings each of which merges the one before several times."""
    levels = (f"m{level}: &m{level} {form.format(level - 1)}" for level in range(1, n_levels))
    return "\n".join((first, *levels))


_LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_yaml_is_read_with_its_types_and_aliases() -> None:
    text = "a: &a {x: 1, y: 1.5, z: 1:30}\nb: {<<: *a, y: [true, null, 0x10]}\n"
    a = {"x": 1, "y": 1.5, "z": 90}
    expected = {"a": a, "b": {"x": 1, "y": [True, None, 16], "z": 90}}
    assert parse_yaml(text, origin="a.yaml") == expected


@pytest.mark.parametrize(
    "path",
    [
        RECORDS / "catalogue" / "gpus.yaml",
        *sorted((RECORDS / "sources").glob("*/mapping.yaml"))[:9],
    ],
    ids=lambda path: path.parent.name,
)
def test_libyaml_and_pyyaml_read_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    both = []
    for start in (0, -1):
        monkeypatch.setattr(yaml_reader, "_STRICT", yaml_reader._STRICT[start:])
        monkeypatch.setattr(yaml_reader, "_TEXT_KEYS", yaml_reader._TEXT_KEYS[start:])
        values = [parse_yaml(text, origin="a", text_keys=as_text) for as_text in (True, False)]
        both.append((values, find_lines(text)))
    assert both[0] == both[1]


def test_what_libyaml_refuses_is_refused_in_the_words_of_pyyaml() -> None:
    with pytest.raises(ReadingError) as caught:
        parse_yaml("a: b: c", origin="a.yaml")
    message = "a.yaml, line 1, column 5: mapping values are not allowed here; expected YAML"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 900 + "]" * 900, ": nested too deeply; expected a few levels"),
        ("[" * 100_000, ": nested too deeply; expected a few levels"),
        ("- " * 5_000, ": nested too deeply; expected a few levels"),
        (
            "a: " + "9" * 5_000,
            (
                ", line 1, column 4: found a number of 5000 characters, expected at most 64; "
                "expected YAML"
            ),
        ),
        (
            "a: 1" + ":1" * 50_000,
            (
                ", line 1, column 4: found a number of 100001 characters, expected at most 64; "
                "expected YAML"
            ),
        ),
        (
            "a: 1" + ":1" * 3_000 + ".5",
            (
                ", line 1, column 4: found a number of 6003 characters, expected at most 64; "
                "expected YAML"
            ),
        ),
        (
            _LAUGHS,
            ": found 490329055 values with aliases written out, expected at most 100000",
        ),
        (
            _merging("m0: &m0 {k: 1}", "{{<<: [*m{0}, *m{0}, *m{0}, *m{0}]}}", 30),
            (
                ", line 10, column 10: found more than 100000 values with merges written out, "
                "expected fewer; expected YAML"
            ),
        ),
        ("a: &a {<<: *a}", ": nested too deeply; expected a few levels"),
        ("&a [*a]", ": found 100002 values with aliases written out, expected at most 100000"),
        (
            "x" * (LARGEST_YAML + 1),
            ": found 262145 characters of YAML, expected at most 262144",
        ),
        ("a: 1\na: 2", ", line 2, column 1: found key 'a' twice, expected it once; expected YAML"),
        ("? [a]\n: b", ", line 1, column 3: found unhashable key; expected YAML"),
        ("a: 2001-13-45", ": month must be in 1..12; expected YAML"),
        ("!!int ''", ": found a value that is not what its tag says; expected YAML"),
        ("!!bool x", ": found a value that is not what its tag says; expected YAML"),
        ("!!timestamp x", ": found a value that is not what its tag says; expected YAML"),
        (
            "\0",
            ": unacceptable character #x0000: special characters are not allowed; expected YAML",
        ),
        (
            "!!python/object:os.system 1",
            (
                ", line 1, column 1: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/object:os.system'; expected YAML"
            ),
        ),
    ],
)
def test_hostile_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReadingError) as caught:
        parse_yaml(text, origin="a.yaml")
    assert str(caught.value) == f"a.yaml{message}"


def test_lines_of_merges_that_multiply_are_found_in_time() -> None:
    text = _merging("m0: &m0 {}", "{{<<: *m{0}, <<: *m{0}, <<: *m{0}}}", 40)
    assert parse_yaml(text, origin="a.yaml")["m39"] == {}
    assert find_lines(text)["m0",] == 1
