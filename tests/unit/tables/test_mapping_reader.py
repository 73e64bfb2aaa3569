"""Mistakes in a mapping are found where it is read, each with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.errors import SourceError
from registry.tables import parse_mapping, read_mapping

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "source: {source_id: mine}\n"


def error_of(text: str) -> str:
    with pytest.raises(SourceError) as raised:
        parse_mapping(text, origin="m.yaml")
    return str(raised.value)


def in_column(column: str) -> str:
    return f"{HEAD}tables: [{{match: {{table: 1}}, columns: {{memory: {column}}}}}]\n"


def test_a_year_needs_no_quotes() -> None:
    text = "source: {source_id: mine, published_on: 2025}\ntables: [{match: {table: 1}}]\n"
    assert parse_mapping(text, origin="m.yaml").source.published_on == "2025"
    wrong = error_of(text.replace("2025", "[2025]"))
    assert wrong.startswith("m.yaml, line 1: source.published_on: found [2025]; expected")


def test_defaults_whose_lines_were_all_deleted_are_none() -> None:
    text = HEAD + "defaults:\ntables:\n  - match: {table: 1}\n    defaults:\n    columns: {}\n"
    mapping = parse_mapping(text, origin="m.yaml")
    assert (mapping.defaults, mapping.tables[0].defaults) == ({}, {})
    wrong = error_of(text.replace("    defaults:", "    defaults: 3"))
    assert wrong.endswith("found 3, expected columns and their values")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "m.yaml, line 1, column 6: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\na: 2", "m.yaml, line 2, column 1: found key 'a' twice, expected it once"),
        ("a: !!python/object:os.system x", "m.yaml, line 1, column 4: could not determine"),
        ("- 1", "m.yaml: found list, expected a mapping with the keys source, models, gpus"),
        ("", "m.yaml: found NoneType, expected a mapping with the keys source"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused(text: str, message: str) -> None:
    assert error_of(text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tables: [{match: {table: 1}}]",
            "m.yaml, line 1: source: missing; expected a value",
        ),
        (
            f"{HEAD}tables: []",
            ("m.yaml, line 1: the mapping: found neither of tables and logs; expected one of them"),
        ),
        (
            f"{HEAD}table: 1\ntables: [{{match: {{}}}}]",
            (
                "m.yaml, line 1: the mapping: unknown key 'table'; did you mean 'tables'?; "
                "expected one of "
                "source, models, gpus, defaults, absent, columns, model_reported, ignore, skip, "
                "footnotes, rules, tables, logs, "
                "claims, unite, related"
            ),
        ),
        (
            "source: {source_id: mine, titel: x}\ntables: [{match: {}}]",
            "m.yaml, line 1: source.titel: unknown key; did you mean 'title'?",
        ),
        (
            f"{HEAD}defaults: {{quant_bit: 4}}\ntables: [{{match: {{}}}}]",
            (
                "m.yaml, line 2: defaults: unknown column 'quant_bit'; did you mean 'quant_bits'?; "
                "expected a column of configurations, environments or observations"
            ),
        ),
        (
            f"{HEAD}defaults: {{quant_bits: four}}\ntables: [{{match: {{}}}}]",
            "m.yaml, line 2: defaults: quant_bits: found 'four'; expected int64",
        ),
        (
            f"{HEAD}defaults: {{quant_bits: 99}}\ntables: [{{match: {{}}}}]",
            "m.yaml, line 2: defaults: quant_bits: found 99; expected at most 8",
        ),
        (
            f"{HEAD}defaults: {{gradient_checkpointing: 1}}\ntables: [{{match: {{}}}}]",
            "m.yaml, line 2: defaults: gradient_checkpointing: found 1; expected bool",
        ),
        (
            f"{HEAD}defaults: {{quant_bits: {{value: 4, because: ''}}}}\ntables: [{{match: {{}}}}]",
            "m.yaml, line 2: defaults: quant_bits: found because '', expected a reason",
        ),
        (
            f"{HEAD}defaults: {{n_samples: '\\1'}}\ntables: [{{match: {{}}}}]",
            "m.yaml, line 2: defaults: n_samples: found '\\\\1'; expected int64",
        ),
        (
            f"{HEAD}tables: [{{match: {{heading: '('}}}}]",
            (
                "m.yaml, line 2: tables[0].match.heading: found pattern '(', expected a "
                "regular expression (missing ): (); lookarounds and references back are not "
                "supported"
            ),
        ),
    ],
)
def test_a_mistake_names_its_place_and_the_way_out(text: str, message: str) -> None:
    assert error_of(text) == message


def test_an_unknown_method_lists_the_vocabulary() -> None:
    text = f"{HEAD}defaults: {{method: lorra}}\ntables: [{{match: {{}}}}]"
    assert error_of(text).startswith(
        "m.yaml, line 2: defaults: method: found 'lorra'; did you mean 'lora'?; expected one "
        "of full, "
    )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            "{}",
            (
                "found no meaning, expected one of: to, values or patterns; figure; parts; "
                "figures_by; ignore"
            ),
        ),
        (
            "{to: seq_len, ignore: x}",
            (
                "found to, values or patterns and ignore, expected one of: to, values or patterns; "
                "figure; parts; figures_by; ignore"
            ),
        ),
        (
            "{to: seqlen}",
            (
                "unknown column 'seqlen'; did you mean 'seq_len'?; expected a column of "
                "configurations, environments or observations"
            ),
        ),
        (
            "{values: {a: 1}}",
            "values['a']: found 1, expected columns and their values, or `to`",
        ),
        (
            "{values: {a: {quant_bitz: 1}}}",
            (
                "values['a']: unknown column 'quant_bitz'; did you mean 'quant_bits'?; expected a "
                "column of configurations, environments or observations"
            ),
        ),
    ],
)
def test_a_column_has_exactly_one_meaning(column: str, message: str) -> None:
    found = error_of(in_column(column))
    place, _, rest = found.partition("memory")
    assert place == "m.yaml, line 2: tables[0].columns."
    assert rest.removeprefix(".to").removeprefix(": ") == message


def test_a_pattern_refers_to_groups_that_it_has() -> None:
    assert error_of(in_column("{patterns: [{pattern: '(a)b', set: {run_id: '\\2'}}]}")) == (
        "m.yaml, line 2: tables[0].columns.memory.patterns[0]: run_id: found \\2, expected a "
        "group of the "
        "pattern, which has 1"
    )


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        (
            "{metrc: peak_memory}",
            (
                "figure: unknown key 'metrc'; did you mean 'metric'?; expected one of metric, "
                "statistic, scope, device_index, kind, unit, default_unit, default_reason, "
                "read_as, reason, decimal, because, form, divide_by, multiply_by, despite_header"
            ),
        ),
        (
            "{metric: peak_memory, read_as: MiB}",
            "figure: found read_as without reason, expected both",
        ),
        (
            "{metric: peak_memory, default_unit: MiB}",
            "figure: found default_unit without default_reason, expected both",
        ),
        (
            "{metric: peak_memory, unit: MB, default_unit: MiB, default_reason: x}",
            "figure: found unit and default_unit, expected one of them",
        ),
        (
            "{metric: peak_memory, scope: totl}",
            (
                "figure.scope: unknown scope 'totl'; did you mean 'total'?; expected one of total, "
                "per_gpu, max_gpu, mean_gpu"
            ),
        ),
    ],
)
def test_a_figure_says_its_metric_and_gives_reasons(figure: str, message: str) -> None:
    found = error_of(in_column(f"{{figure: {figure}}}"))
    assert found == f"m.yaml, line 2: tables[0].columns.memory.{message}"


def test_an_unknown_metric_lists_the_vocabulary() -> None:
    assert error_of(in_column("{figure: {metric: peak_mem}}")).startswith(
        "m.yaml, line 2: tables[0].columns.memory.figure.metric: unknown metric 'peak_mem'; "
        "did you mean "
        "'peak_memory'?; expected one of peak_memory, memory, step_time, "
    )


def test_all_mistakes_are_reported_together() -> None:
    text = f"{HEAD}defaults: {{a: 1}}\nabsent: {{b: c}}\ntables: [{{match: {{}}}}]"
    assert [line.split(": ")[1] for line in error_of(text).splitlines()] == [
        "defaults",
        "absent[0]",
    ]


def test_numbers_need_no_quotes_as_names_of_values() -> None:
    mapping = parse_mapping(in_column("{values: {4090: {gpu_id: rtx-4090}}}"), origin="m.yaml")
    assert mapping.tables[0].columns["memory"].value_of("4090")["gpu_id"].value == "rtx-4090"


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        read_mapping(tmp_path / "none.yaml")
    assert str(raised.value) == (
        f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory; expected a readable "
        "file"
    )
