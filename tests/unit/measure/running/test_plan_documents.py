"""Reference, JSON Schema and template of plans: all of them say what the model of a plan says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from registry.errors import SourceError
from registry.measure.running.plan import parse_plan
from registry.measure.running.plan_model import PLAN_KEYS, TRIAL_KEYS
from registry.measure.running.plan_reference import format_plan_reference
from registry.measure.running.plan_schema import plan_schema
from registry.measure.running.plan_template import MATRIX, STATED, format_template, format_value
from registry.measure.running.trials import expand_trials
from registry.measure.trial_settings import DEFAULTS

PLANS = Path(__file__).parents[4] / "records" / "plans"


def is_valid(document: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(plan_schema()).is_valid(document))


def is_read(document: dict[str, Any]) -> bool:
    try:
        parse_plan(document, origin="p")
    except SourceError:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(plan_schema())


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.toml")), ids=lambda path: path.name)
def test_plans_of_the_package_meet_the_schema(path: Path) -> None:
    assert is_valid(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"lora_target_modules": "q_proj"}, True),
        ({"matrix": {"lora_target_modules": [["q_proj"], ["q_proj", "v_proj"]]}}, True),
        ({"lora_alpha": 16}, True),
        ({"peft": {"bias": "none"}}, True),
        ({"memory_limit": "2 GiB"}, True),
        ({"models": {"x": {"model_type": "llama"}}}, True),
        ({"seq_len": 0}, False),
        ({"seq_len": "8"}, False),
        ({"seq_len": True}, False),
        ({"method": "lroa"}, False),
        ({"matrix": {"seq_len": []}}, False),
        ({"matrix": {"seq_len": 8}}, False),
        ({"matrix": {"optimizer": ["adam"]}}, False),
        ({"exclude": {"seq_len": 8}}, False),
        ({"include": [{"sede": 8}]}, False),
        ({"repeats": 0}, False),
        ({"repeat": 2}, False),
        ({"memory_limit": 5}, False),
        ({"memory_limit_bytes": 5}, False),
        ({"models": {"x": {"hidden_size": 8}}}, False),
    ],
)
def test_the_schema_and_the_reader_agree(document: dict[str, Any], *, expected: bool) -> None:
    stated = {"model": "m", **document}
    assert (is_valid(stated), is_read(stated)) == (expected, expected)


def test_the_template_is_valid_as_it_is_and_with_every_comment_taken_away() -> None:
    text = format_template()
    document = tomllib.loads(text)
    assert is_valid(document)
    assert len(expand_trials(parse_plan(document, origin="p"))) == 4
    full = "\n".join(
        line.removeprefix("# ") if line.startswith("# ") and is_toml(line[2:]) else line
        for line in text.splitlines()
    )
    stated = tomllib.loads(full)
    assert set(stated) | set(MATRIX) == {*TRIAL_KEYS, *PLAN_KEYS}
    assert is_valid(stated)
    assert is_read(stated)


def is_toml(line: str) -> bool:
    name = line.split(" = ", maxsplit=1)[0].strip("[]")
    return name in (*TRIAL_KEYS, *PLAN_KEYS)


def test_the_template_shows_the_default_of_what_it_does_not_state() -> None:
    text = format_template()
    for name, default in DEFAULTS.items():
        if name in TRIAL_KEYS and name not in {**STATED, **MATRIX} and default not in (None, {}):
            assert f"\n# {name} = {format_value(default)}\n" in text


def test_the_reference_names_every_key() -> None:
    text = format_plan_reference()
    assert all(f"\n| `{name}` | " in text for name in (*TRIAL_KEYS, *PLAN_KEYS))


def test_the_examples_of_the_reference_are_plans() -> None:
    blocks = format_plan_reference().split("```toml\n")[1:]
    for block in blocks:
        document = tomllib.loads(block.split("```")[0])
        assert len(expand_trials(parse_plan(document, origin="p"))) == 4
