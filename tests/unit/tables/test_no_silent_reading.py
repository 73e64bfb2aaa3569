"""What a document says beside its figures is understood, refused or told, and never dropped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.tables import ImportResult

    class Importer(Protocol):
        def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult: ...


HEAD = "source: {source_id: mine}\n"
ONE_CARD = "defaults: {model_id: qwen-7b, method: lora, gpu_id: a100-sxm4-80gb, n_gpus: 1}\n"
FOUR_CARDS = ONE_CARD.replace("n_gpus: 1", "n_gpus: 4")


def table(*rows: str) -> str:
    width = rows[0].count("|") - 1
    return "\n".join([rows[0], "|---" * width + "|", *rows[1:]])


def mapping(columns: str, *, defaults: str = ONE_CARD, more: str = "", top: str = "") -> str:
    return f"{HEAD}{defaults}{top}tables:\n  - match: {{}}\n    columns: {columns}\n{more}"


def one(result: ImportResult) -> dict[str, Any]:
    assert result.problems == ()
    (observation,) = result.submission["observations"]
    return dict(observation)


# lengths in K


@pytest.mark.parametrize(("k_is", "length"), [(1000, 8000), (1024, 8192)])
def test_a_length_in_k_is_read_as_stated(importer: Importer, k_is: int, length: int) -> None:
    columns = f"{{len: {{to: seq_len, k_is: {k_is}}}, mem: {{figure: {{metric: peak_memory}}}}}}"
    found = one(importer(table("|len|mem|", "|8K|20GiB|"), mapping(columns)))
    assert found["configuration"]["seq_len"] == length


def test_a_length_in_k_without_a_stated_reading_is_refused(importer: Importer) -> None:
    columns = "{len: {to: seq_len}, mem: {figure: {metric: peak_memory}}}"
    assert importer(table("|len|mem|", "|8K|20GiB|"), mapping(columns)).problems == (
        (
            "doc.md, table 1, row 1, column 'len': found '8K' as a length, expected to be told "
            "what K stands for; state `k_is: 1024` (8,192 tokens) or `k_is: 1000` (8,000 tokens) "
            "(m.yaml, line 5)"
        ),
    )


def test_the_label_of_a_pivot_in_k_is_no_exception(importer: Importer) -> None:
    pivot = "    pivot: {columns: '(.+K)', to: seq_len%s, cell: {figure: {metric: peak_memory}}}\n"
    document = table("|4K|8K|", "|20GiB|30GiB|")
    assert len(importer(document, mapping("{}", more=pivot % "")).problems) == 2
    read = importer(document, mapping("{}", more=pivot % ", k_is: 1024"))
    lengths = [o["configuration"]["seq_len"] for o in read.submission["observations"]]
    assert lengths == [4096, 8192]


def test_samples_in_k_are_thousands(importer: Importer) -> None:
    columns = "{n: {to: n_samples}, mem: {figure: {metric: peak_memory}}}"
    found = one(importer(table("|n|mem|", "|48.8k|20GiB|"), mapping(columns)))
    assert found["configuration"]["n_samples"] == 48800


# rows that differ where the mapping does not look

SEEDS = table("|seed|mem|", "|1|20GiB|", "|2|20GiB|")
SEED_COLUMNS = "{seed: {ignore: not a setting}, mem: {figure: {metric: peak_memory}}}"


def test_rows_that_differ_in_a_column_not_read_are_two_runs_and_listed(importer: Importer) -> None:
    result = importer(SEEDS, mapping(SEED_COLUMNS))
    assert [o["run_id"] for o in result.submission["observations"]] == ["1", "2"]
    assert result.notes == (
        (
            "table 1, row 1 and table 1, row 2 say the same but differ in 'seed': kept as two "
            "observations; if they are one run, name the column under `unite`, with the reason"
        ),
    )


def test_they_are_one_run_where_the_mapping_unites_them(importer: Importer) -> None:
    text = mapping(SEED_COLUMNS, top="unite: {seed: the column counts the lines}\n")
    found = one(importer(SEEDS, text))
    assert [citation["row"] for citation in found["citations"]] == [1, 2]


def test_a_column_left_out_with_rest_counts_too(importer: Importer) -> None:
    text = mapping("{mem: {figure: {metric: peak_memory}}}", more="    ignore: rest\n")
    result = importer(SEEDS, text)
    assert result.n_observations == 2
    assert result.notes[0] == "table 1: not read: 'seed'"


def test_rows_of_equal_settings_that_only_an_unread_text_tells_apart_are_told(
    importer: Importer,
) -> None:
    document = table("|how|seed|mem|", "|plain|1|20GiB|", "|compiled|2|18GiB|", "|packed|3|30GiB|")
    text = mapping("{mem: {figure: {metric: peak_memory}}}", more="    ignore: rest\n")
    result = importer(document, text)
    assert result.notes == (
        "table 1: not read: 'how', 'seed'",
        (
            "3 observations, table 1, row 1 to table 1, row 3, are recorded as runs of the same "
            "settings; they differ in 'how', not read: map the column that distinguishes them"
        ),
    )


def test_repeated_runs_without_a_text_of_their_own_need_no_word(importer: Importer) -> None:
    document = table("|seed|mem|", "|1|20GiB|", "|2|18GiB|")
    text = mapping("{mem: {figure: {metric: peak_memory}}}", more="    ignore: rest\n")
    assert importer(document, text).notes == ("table 1: not read: 'seed'",)


def test_two_names_of_one_table_with_one_meaning_are_two_runs(importer: Importer) -> None:
    columns = (
        "{how: {values: {LoRA: {method: lora}, LoRA v2: {method: lora}}}, "
        "mem: {figure: {metric: peak_memory}}}"
    )
    document = table("|how|mem|", "|LoRA|20GiB|", "|LoRA v2|20GiB|")
    assert importer(document, mapping(columns)).n_observations == 2


def test_a_row_written_twice_is_one_observation(importer: Importer) -> None:
    document = table("|seed|mem|", "|1|20GiB|", "|1|20GiB|")
    assert importer(document, mapping(SEED_COLUMNS)).n_observations == 1


# figures of nothing


@pytest.mark.parametrize("text", ["0", "0.0"])
@pytest.mark.parametrize(
    ("metric", "unit"), [("peak_memory", "MB"), ("total_time", "s"), ("step_time", "ms")]
)
def test_none_of_what_every_run_takes_is_no_figure(
    importer: Importer, metric: str, unit: str, text: str
) -> None:
    columns = f"{{it: {{figure: {{metric: {metric}, unit: {unit}}}}}}}"
    (problem,) = importer(table("|it|", f"|{text}|"), mapping(columns)).problems
    assert f"found '{text}', expected more than 0 of {metric}" in problem
    assert f"`absent: ['{text}']`" in problem


def test_a_nought_that_the_mapping_calls_absent_is_no_figure(importer: Importer) -> None:
    columns = (
        "{mem: {figure: {metric: peak_memory, unit: MB}, absent: ['0.0']}, "
        "time: {figure: {metric: total_time, unit: s}}}"
    )
    found = one(importer(table("|mem|time|", "|0.0|567.2|"), mapping(columns)))
    assert [figure["metric"] for figure in found["measurements"]] == ["total_time"]


# cells that are empty below the card that holds for them


def test_a_row_without_a_card_below_one_that_names_it_is_told(importer: Importer) -> None:
    columns = (
        "{gpu: {values: {A: {gpu_id: rtx-3090}, B: {gpu_id: rtx-4090}}}, how: {to: lora_rank}, "
        "mem: {figure: {metric: peak_memory}}}"
    )
    defaults = "defaults: {model_id: qwen-7b, method: lora, n_gpus: 1}\n"
    document = table("|gpu|how|mem|", "|A|8|20GiB|", "||16|21GiB|", "|B|8|20GiB|", "|-|16|21GiB|")
    result = importer(document, mapping(columns, defaults=defaults))
    assert [note for note in result.notes if "without a card" in note] == [
        (
            "table 1, row 2: without a card, as 'gpu' is empty there; if 'A' above holds for it "
            "too, write it into the cell"
        )
    ]


def test_a_row_whose_card_nobody_knows_is_not(importer: Importer) -> None:
    columns = (
        "{how: {to: lora_rank}, gpu: {values: {A: {gpu_id: rtx-3090}}}, "
        "mem: {figure: {metric: peak_memory}}}"
    )
    defaults = "defaults: {model_id: qwen-7b, method: lora, n_gpus: 1}\n"
    document = table("|how|gpu|mem|", "|8|A|20GiB|", "|16||21GiB|")
    result = importer(document, mapping(columns, defaults=defaults))
    assert not any("without a card" in note for note in result.notes)


# estimates where the mapping does not look


@pytest.mark.parametrize("ignored", ["", "note: {ignore: free text}, "])
@pytest.mark.parametrize("text", ["estimated", "theoretical", "est. from a formula", "估算"])
def test_an_estimate_in_a_column_not_read_is_told_by_row(
    importer: Importer, ignored: str, text: str
) -> None:
    columns = f"{{{ignored}mem: {{figure: {{metric: peak_memory}}}}}}"
    document = table("|mem|note|", "|20GiB|measured, not estimated|", f"|60GiB|{text}|")
    result = importer(document, mapping(columns, more="    ignore: rest\n"))
    told = [note for note in result.notes if "recorded as measured" in note]
    assert told == [
        (
            "table 1, row 2: recorded as measured, but 'note', which is not read, says "
            f"{text!r}; if nobody measured these figures, say so under `values` of the column "
            "(`evidence: estimated`); if it is about something else, no change is needed"
        )
    ]


def test_an_estimate_that_the_mapping_reads_is_told_no_more(importer: Importer) -> None:
    columns = (
        "{mem: {figure: {metric: peak_memory}}, "
        "note: {values: {estimated: {evidence: estimated}, computed: {}}}}"
    )
    document = table("|mem|note|", "|20GiB|estimated|", "|30GiB|computed|")
    result = importer(document, mapping(columns))
    assert [o.get("evidence", "measured") for o in result.submission["observations"]] == [
        "estimated",
        "measured",
    ]
    assert not any("recorded as measured" in note for note in result.notes)


# failures where the mapping does not look


@pytest.mark.parametrize("ignored", ["", "note: {ignore: free text}, "])
@pytest.mark.parametrize("text", ["OOM", "crashed", "OOM at step 3"])
def test_a_failure_in_a_column_not_read_is_told_by_row(
    importer: Importer, ignored: str, text: str
) -> None:
    columns = f"{{{ignored}mem: {{figure: {{metric: peak_memory}}}}}}"
    document = table("|mem|note|", "|20GiB|fits, no OOM|", f"|79GiB|{text}|")
    result = importer(document, mapping(columns, more="    ignore: rest\n"))
    told = [note for note in result.notes if "did not fail" in note]
    assert told == [
        (
            "table 1, row 2: recorded as a run that did not fail, but 'note', which is not "
            f"read, says {text!r}; if this run failed, say so under `values` of the column "
            "(`outcome: oom`); if another one did, such as one of a larger batch, no change "
            "is needed"
        )
    ]


def test_a_failure_that_the_row_states_elsewhere_needs_no_word(importer: Importer) -> None:
    columns = "{mem: {figure: {metric: peak_memory}}}"
    result = importer(
        table("|mem|note|", "|OOM|crashed|"), mapping(columns, more="    ignore: rest\n")
    )
    assert result.notes == ("table 1: not read: 'note'",)


# words with a remark in the place of a figure


def test_a_remark_behind_oom_means_what_it_means_behind_a_figure(importer: Importer) -> None:
    columns = "{mem: {figure: {metric: peak_memory}%s}}"
    remark = ", remarks: [{pattern: '[0-9.]+ GiB', set: {}}, {pattern: step 3, set: {n_nodes: 1}}]"
    document = table("|mem|", "|OOM (8.4 GiB)|", "|OOM (step 3)|", "|OOM|")
    observations = importer(document, mapping(columns % remark)).submission["observations"]
    assert [observation["outcome"] for observation in observations] == ["oom", "oom"]
    assert [len(observation["citations"]) for observation in observations] == [2, 1]
    words = f", words: {{OOM: {{outcome: error}}}}{remark}"
    named = importer(document, mapping(columns % words)).submission["observations"]
    assert {observation["outcome"] for observation in named} == {"error"}


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        (
            "OOM (8.4 GiB)",
            (
                "found the remark '8.4 GiB' behind 'OOM', expected its meaning under `remarks` of "
                "the column; write `set: {}` there if it changes nothing"
            ),
        ),
        (
            "OOM @ 8.4 GiB",
            (
                "found 'OOM @ 8.4 GiB', expected an amount of memory such as '36.6G', '20822MiB' "
                "or '144 GB+'; a text in the place of a figure has its meaning under `words` of "
                "the column: `words: {'OOM @ 8.4 GiB': {outcome: oom}}`"
            ),
        ),
    ],
)
def test_a_word_with_more_beside_it_is_refused_with_what_works(
    importer: Importer, cell: str, found: str
) -> None:
    (problem,) = importer(table("|mem|", f"|{cell}|"), mapping(MEMORY)).problems
    assert problem == f"doc.md, table 1, row 1, column 'mem': {found} (m.yaml, line 5)"


# footnotes

MARKS = table("|mem|", "|20GiB*|", "|21GiB|")
MEMORY = "{mem: {figure: {metric: peak_memory}}}"


def test_a_footnote_mark_without_a_meaning_is_told(importer: Importer) -> None:
    result = importer(MARKS, mapping(MEMORY))
    assert result.problems == ()
    assert result.notes == (
        (
            "table 1, row 1, column 'mem': the mapping gives the footnote mark '*' no meaning; the "
            "figure is read without it; add it under `footnotes`"
        ),
    )


@pytest.mark.parametrize(
    "mark", ["*", "**", "\\*", "†", "<sup>1</sup>", "[^1]", "\u00b2"], ids=repr
)
def test_a_footnote_mark_says_what_the_mapping_says(importer: Importer, mark: str) -> None:
    plain = {"\\*": "*", "<sup>1</sup>": "[^1]"}.get(mark, mark)
    top = f"footnotes: {{'{plain}': {{evidence: extrapolated}}}}\n"
    result = importer(MARKS.replace("*", mark), mapping(MEMORY, top=top))
    evidence = [o.get("evidence") for o in result.submission["observations"]]
    assert (evidence, result.notes, result.problems) == (["extrapolated", None], (), ())


@pytest.mark.parametrize("mark", ["*", "<sup>1</sup>"])
@pytest.mark.parametrize(("word", "time"), [("OOM", ""), ("-", "2h"), ("no OOM", "2h")])
def test_a_mark_behind_a_word_is_one_too(
    importer: Importer, word: str, time: str, mark: str
) -> None:
    document = table("|mem|time|", f"|{word}{mark}|{time}|")
    columns = "{mem: {figure: {metric: peak_memory}}, time: {figure: {metric: total_time}}}"
    told = importer(document, mapping(columns)).notes
    assert any("column 'mem': the mapping gives the footnote mark" in note for note in told)
    plain = mark.replace("<sup>1</sup>", "[^1]")
    top = f"footnotes: {{'{plain}': {{offload: optimizer}}}}\n"
    result = importer(document, mapping(columns, top=top))
    (observation,) = result.submission["observations"]
    assert (observation["configuration"]["offload"], result.notes) == ("optimizer", ())


def test_a_mark_in_a_header_holds_for_words_below_it_and_not_for_empty_cells(
    importer: Importer,
) -> None:
    document = table("|a*|b|", "|OOM||", "|-|20GiB|")
    columns = "{a*: {figure: {metric: peak_memory}}, b: {figure: {metric: peak_memory}}}"
    top = "footnotes: {'*': {offload: optimizer}}\n"
    result = importer(document, mapping(columns, top=top))
    found = [o["configuration"].get("offload") for o in result.submission["observations"]]
    assert (found, result.problems) == (["optimizer", None], ())


def test_a_mark_in_the_header_of_settings_is_one_too(importer: Importer) -> None:
    document = table("|bs†|mem|", "|4|20GiB|", "|-|21GiB|")
    columns = "{bs†: {to: micro_batch_size}, mem: {figure: {metric: peak_memory}}}"
    (note,) = importer(document, mapping(columns)).notes
    assert "row 1, column 'bs†': the mapping gives the footnote mark '†' no meaning" in note
    top = "footnotes: {'†': {offload: optimizer}}\n"
    result = importer(document, mapping(columns, top=top))
    found = [o["configuration"].get("offload") for o in result.submission["observations"]]
    assert (found, result.notes) == (["optimizer", None], ())


def test_a_mark_of_a_section_holds_for_the_rows_below_it(importer: Importer) -> None:
    document = table("|x|mem|", "|QLoRA*||", "|1|20GiB|", "|full||", "|1|21GiB|")
    columns = "{x: {to: micro_batch_size}, mem: {figure: {metric: peak_memory}}}"
    more = "    sections: {values: {QLoRA: {method: lora, quant_bits: 4}, full: {method: full}}}\n"
    (note,) = importer(document, mapping(columns, more=more)).notes
    assert "row 1, column 'x': the mapping gives the footnote mark '*' no meaning" in note
    top = "footnotes: {'*': {offload: optimizer}}\n"
    result = importer(document, mapping(columns, more=more, top=top))
    found = [o["configuration"].get("offload") for o in result.submission["observations"]]
    assert (found, result.problems, result.notes) == (["optimizer", None], (), ())


def test_a_word_that_is_named_with_its_mark_has_none(importer: Importer) -> None:
    columns = "{mem: {figure: {metric: peak_memory}, words: {'OOM*': {outcome: error}}}}"
    result = importer(table("|mem|", "|OOM*|"), mapping(columns))
    assert (result.submission["observations"][0]["outcome"], result.notes) == ("error", ())


def test_a_rule_matches_a_cell_with_its_mark(importer: Importer) -> None:
    rules = "    rules: [{when: {mem: '20GiB*'}, set: {evidence: estimated}}]\n"
    result = importer(MARKS, mapping(MEMORY, more=rules))
    assert result.submission["observations"][0]["evidence"] == "estimated"


def test_a_power_of_ten_is_no_footnote(importer: Importer) -> None:
    columns = "{n: {figure: {metric: n_tokens}}, mem: {figure: {metric: peak_memory}}}"
    document = table("|n|mem|", "|10<sup>6</sup>|20GiB|")
    (problem,) = importer(document, mapping(columns)).problems
    assert "found '10^6', expected a count" in problem


def test_a_figure_struck_out_is_refused(importer: Importer) -> None:
    (problem,) = importer(table("|mem|", "|~~20GiB~~|"), mapping(MEMORY)).problems
    assert "found '~~20GiB~~'" in problem


# remarks

RATE = "{speed: {figure: {metric: samples_per_second}%s}}"


def test_a_remark_that_nobody_explains_is_refused(importer: Importer) -> None:
    document = table("|speed|", "|0.59 samples/s (2*A100)|")
    assert importer(document, mapping(RATE % "")).problems == (
        (
            "doc.md, table 1, row 1, column 'speed': found the remark '2*A100' behind a figure, "
            "expected its meaning under `remarks` of the column; write `set: {}` there if it "
            "changes nothing (m.yaml, line 5)"
        ),
    )


def test_a_remark_says_the_number_of_cards(importer: Importer) -> None:
    remarks = ", remarks: [{pattern: '([0-9]+)\\*A100', set: {n_gpus: '\\1'}}]"
    columns = (RATE % remarks).replace("samples_per_second", "samples_per_second, scope: total")
    found = one(importer(table("|speed|", "|0.59 samples/s (2*A100)|"), mapping(columns)))
    assert found["configuration"]["n_gpus"] == 2


def figures(observation: dict[str, Any]) -> dict[str, float]:
    return {entry["metric"]: entry["value"] for entry in observation["measurements"]}


def test_totals_in_a_remark_are_figures(importer: Importer) -> None:
    document = table("|speed|", "|0.95(87543 samples/91974.29 seconds)|")
    assert figures(one(importer(document, mapping(RATE % "")))) == {
        "samples_per_second": 0.95,
        "n_samples": 87543,
        "total_time": 91974.29,
    }


def test_totals_that_contradict_their_rate_are_flagged(importer: Importer) -> None:
    document = table("|speed|", "|1.05 samples/s(87543 samples/91974.29 seconds)|")
    assert one(importer(document, mapping(RATE % "")))["flags"] == ["figures_disagree"]


def test_a_total_time_in_a_remark_is_a_figure(importer: Importer) -> None:
    columns = "{speed: {figure: {metric: steps_per_second}}}"
    document = table("|speed|", "|0.45iter/s(3h total)|")
    assert figures(one(importer(document, mapping(columns)))) == {
        "steps_per_second": 0.45,
        "total_time": 10800,
    }


# the header against the mapping


@pytest.mark.parametrize(
    ("header", "figure", "cell", "found"),
    [
        (
            "Memory (GiB)",
            "metric: peak_memory, unit: GB",
            "20",
            "unit 'GB' in the mapping and 'GiB' in the header",
        ),
        (
            "Speed [samples/s]",
            "metric: samples_per_second, unit: sample/s/gpu",
            "20",
            "unit 'sample/s/gpu' in the mapping and 'sample/s' in the header",
        ),
        (
            "Time (h:mm)",
            "metric: total_time",
            "1:30",
            "the clock h:mm in the header and no `read_as: h:mm`",
        ),
        (
            "Time (dd:hh:mm)",
            "metric: total_time",
            "1:12:30",
            "the clock d:hh:mm in the header and no `read_as: d:hh:mm`",
        ),
        (
            "tokens/s (K)",
            "metric: tokens_per_second, unit: token/s",
            "20",
            "(K) in the header and no `multiply_by`",
        ),
        (
            "Throughput (k tokens/s)",
            "metric: tokens_per_second, unit: token/s",
            "3.2",
            "k in the header and no `multiply_by`",
        ),
        (
            "tokens per day",
            "metric: tokens_per_second, unit: token/s",
            "20",
            "a rate per day in the header and no `divide_by` (86400 seconds)",
        ),
        ("Time (min)", "metric: total_time, unit: h", "20", "unit 'h' in the mapping and 'min'"),
        (
            "Tokens/s (T4)",
            "metric: steps_per_second",
            "0.5 it/s",
            "steps_per_second in the mapping and 'token/s' in the header",
        ),
        *[
            (header, "metric: step_time, unit: s", "1500", f"unit 's' in the mapping and {unit}")
            for header, unit in [
                ("ms/step", "'ms'"),
                ("ms per iter", "'ms'"),
                ("毫秒/步", "'ms'"),
                ("min/epoch", "'min'"),
            ]
        ],
        (
            "s / 100 steps",
            "metric: step_time, unit: s",
            "150",
            "a time of 100 in the header and no `divide_by`",
        ),
        (
            "steps/min",
            "metric: step_time, unit: step/s",
            "30",
            "a rate per min in the header and no `divide_by`",
        ),
        *[
            (
                header,
                "metric: total_time, unit: h",
                "6",
                f"{text!r} in the header, the time of all cards together, and no `divide_by`",
            )
            for header, text in [
                ("GPU hours", "GPU hours"),
                ("time (GPU-h)", "GPU-h"),
                ("GPU·h", "GPU·h"),
                ("A100 hours", "A100 hours"),
                ("卡时", "卡时"),
            ]
        ],
        *[
            (header, f"metric: {metric}", "45", f"{text!r} in the header, expected amounts")
            for header, metric, text in [
                ("mem (% of 80GB)", "peak_memory, unit: GB", "%"),
                ("relative mem", "peak_memory, unit: GB", "relative"),
                ("tokens/s vs baseline", "tokens_per_second, unit: token/s", "vs baseline"),
                ("Speedup", "tokens_per_second, unit: token/s", "Speedup"),
            ]
        ],
        (
            "allocated (GB)",
            "metric: peak_memory, kind: reserved, unit: GB",
            "15",
            "allocated in the header and `kind: reserved`",
        ),
        (
            "CPU mem (GB)",
            "metric: peak_memory, kind: device, unit: GB",
            "15",
            "the memory of the host in the header and no `kind: host_rss`",
        ),
    ],
)
def test_a_header_that_says_otherwise_is_a_problem(
    importer: Importer, header: str, figure: str, cell: str, found: str
) -> None:
    columns = f"{{'{header}': {{figure: {{{figure}}}}}}}"
    (problem,) = importer(table(f"|{header}|", f"|{cell}|"), mapping(columns)).problems
    assert problem.startswith(f"doc.md, table 1, column '{header}': found {found}")
    columns = f"{{'{header}': {{figure: {{{figure}, despite_header: a misprint}}}}}}"
    assert importer(table(f"|{header}|", f"|{cell}|"), mapping(columns)).problems == ()


def test_a_unit_that_the_header_does_not_give_is_not_said_to_be_its(importer: Importer) -> None:
    reasons = {
        "": "the column's header gives the unit",
        ", despite_header: a misprint": "a misprint",
    }
    for said, reason in reasons.items():
        columns = f"{{'Time (s)': {{figure: {{metric: step_time, unit: s{said}}}}}}}"
        (row,) = one(importer(table("|Time (s)|", "|15|"), mapping(columns)))["measurements"]
        assert row["reason"] == reason


@pytest.mark.parametrize(
    ("header", "figure", "way_out"),
    [
        ("train_hours", "", "`unit: h`, which makes it h:mm, or `read_as` (one of `mm:ss`, `h:mm`"),
        ("Hours to train", "", "`unit: h`, which makes it h:mm, or `read_as`"),
        ("Training time (days)", "", "state `read_as` (one of `mm:ss`, `h:mm`, `d:hh`)"),
        ("Training time (days)", ", unit: day", "`read_as: h:mm` or `read_as: d:hh`"),
    ],
)
def test_a_clock_below_hours_or_days_is_not_taken_for_minutes(
    importer: Importer, header: str, figure: str, way_out: str
) -> None:
    columns = f"{{'{header}': {{figure: {{metric: total_time{figure}%s}}}}}}"
    document = table(f"|{header}|", "|1:12|")
    (problem,) = importer(document, mapping(columns % "")).problems
    assert way_out in problem
    found = one(importer(document, mapping(columns % ", read_as: h:mm, reason: so")))
    assert figures(found) == {"total_time": 4320}


def test_hours_are_numbers_and_clocks_alike(importer: Importer) -> None:
    columns = "{'Time (h)': {figure: {metric: total_time, unit: h}}}"
    result = importer(table("|Time (h)|", "|6.5|", "|2:30|"), mapping(columns))
    assert [figures(o)["total_time"] for o in result.submission["observations"]] == [23400, 9000]


@pytest.mark.parametrize(
    "header",
    [
        "Time on 8 GPUs (h)",
        "8xA100 (h)",
        "train time (8 GPU, h)",
        "time per GPU (h)",
        "h, all cards",
    ],
)
def test_hours_beside_the_word_gpu_are_hours_of_a_clock(importer: Importer, header: str) -> None:
    columns = f"{{'{header}': {{figure: {{metric: total_time, unit: h}}}}}}"
    assert figures(one(importer(table(f"|{header}|", "|6|"), mapping(columns)))) == {
        "total_time": 21600
    }


@pytest.mark.parametrize("name", ["unit", "Units", "单位"])
def test_a_column_of_units_is_held_against_the_mapping(importer: Importer, name: str) -> None:
    by = (
        "{peak: {metric: peak_memory, unit: GB}, step: {metric: step_time, unit: s}, "
        "rate: {metric: tokens_per_second, unit: token/s}}"
    )
    columns = (
        f"{{metric: {{ignore: the kind}}, {name}: {{ignore: the unit}}, "
        f"value: {{figures_by: {{column: metric, figures: {by}}}}}}}"
    )
    document = table(
        f"|metric|{name}|value|",
        *("|peak|GB|15.1|", "|peak|GiB|9|", "|rate|tokens/s|1234|", "|step|ms|123|", "|step|s|1|"),
    )
    found = importer(document, mapping(columns)).problems
    assert [text.split("found ")[1].split(",")[0] for text in found] == [
        f"unit 'GB' in the mapping and 'GiB' in column {name!r}",
        f"unit 's' in the mapping and 'ms' in column {name!r}",
    ]


def test_hours_of_cards_are_divided_by_their_number(importer: Importer) -> None:
    columns = "{GPU hours: {figure: {metric: total_time, unit: h, divide_by: 4, because: 4 cards}}}"
    result = importer(table("|GPU hours|", "|6|"), mapping(columns))
    assert figures(one(result)) == {"total_time": 5400}


def test_a_list_of_cards_is_as_long_as_their_stated_number(importer: Importer) -> None:
    columns = (
        "{GPUs: {to: n_gpus}, "
        "mem: {figure: {metric: peak_memory, kind: allocated}, card_list: true}}"
    )
    document = table("|GPUs|mem|", "|2|61GB+73GB|", "|4|61GB+73GB|", "|1|9GB+8GB|", "|2|70GB|")
    told = [problem.split("found ")[1] for problem in importer(document, mapping(columns)).problems]
    assert [text.split(";")[0].split(" (m.yaml")[0] for text in told] == [
        "'61GB+73GB', a list of 2, of a run on 4 cards",
        "n_gpus 2 beside a figure and 1 elsewhere in the row, expected one for the row",
        "'70GB', a list of 1, of a run on 2 cards",
    ]
    found = one(importer(table("|GPUs|mem|", "|2|61GB+73GB|"), mapping(columns)))
    assert [figure["value"] for figure in found["measurements"]][:2] == [61 * 10**9, 73 * 10**9]


def test_a_pattern_fills_in_texts_however_deep(importer: Importer) -> None:
    columns = (
        "{commit: {patterns: [{pattern: '(.+)', set: {provenance: {label: '\\1', of: ['\\1']}}}]}, "
        "mem (GB): {figure: {metric: peak_memory, unit: GB}}}"
    )
    document = table("|commit|mem (GB)|", "|c1|15|", "|c2|16|")
    found = importer(document, mapping(columns)).submission["observations"]
    assert [(o["provenance"]["label"], o["provenance"]["of"]) for o in found] == [
        ("c1", ["c1"]),
        ("c2", ["c2"]),
    ]


def test_a_unit_in_thousands_is_no_unit_of_a_mapping(importer: Importer) -> None:
    columns = "{speed: {figure: {metric: tokens_per_second, unit: k tokens/s}}}"
    (problem,) = importer(table("|speed|", "|3.2|"), mapping(columns)).problems
    assert "found unit 'k tokens/s', expected a unit of speed" in problem


def test_a_count_in_millions_is_read_by_its_unit(importer: Importer) -> None:
    columns = "{'Trainable (M)': {figure: {metric: trainable_params%s}}}"
    (problem,) = importer(table("|Trainable (M)|", "|18|"), mapping(columns % "")).problems
    assert "found (M) in the header and no `multiply_by`" in problem
    found = one(importer(table("|Trainable (M)|", "|17.8913|"), mapping(columns % ", unit: M")))
    assert figures(found) == {"trainable_params": 17_891_300}


def test_a_share_of_one_card_is_not_the_total(importer: Importer) -> None:
    columns = "{'Peak memory per GPU': {figure: {metric: peak_memory, scope: %s}}}"
    document = table("|Peak memory per GPU|", "|20GiB|")
    (problem,) = importer(document, mapping(columns % "total", defaults=FOUR_CARDS)).problems
    assert "found one card's share in the header and scope total" in problem
    one_card = importer(document, mapping(columns % "total"))
    assert one_card.problems == ()
    fullest = one(importer(document, mapping(columns % "max_gpu", defaults=FOUR_CARDS)))
    assert fullest["measurements"][0]["scope"] == "max_gpu"


# scope


def test_a_figure_of_several_cards_needs_its_scope(importer: Importer) -> None:
    (problem,) = importer(table("|mem|", "|20GiB|"), mapping(MEMORY, defaults=FOUR_CARDS)).problems
    assert problem == (
        "doc.md, table 1, row 1, column 'mem': found a figure of 4 cards without scope, expected "
        "`scope: total` (all cards together), `mean_gpu` (each card's, or their mean) or `max_gpu` "
        "(the fullest card) (m.yaml, line 5)"
    )


def test_a_rate_that_says_per_gpu_is_the_mean_of_the_cards(importer: Importer) -> None:
    columns = "{speed: {figure: {metric: tokens_per_second}}}"
    document = table("|speed|", "|1200 tokens/s/gpu|")
    found = one(importer(document, mapping(columns, defaults=FOUR_CARDS)))
    assert found["measurements"][0]["scope"] == "mean_gpu"


def test_a_figure_of_who_knows_how_many_cards_is_told(importer: Importer) -> None:
    defaults = ONE_CARD.replace(", n_gpus: 1", "")
    result = importer(table("|mem|", "|20GiB|"), mapping(MEMORY, defaults=defaults))
    assert result.notes == (
        (
            "table 1, row 1, column 'mem': taken as the figure of all cards; their number is not "
            "stated; state `n_gpus`, or `scope`"
        ),
    )


def test_a_single_figure_of_no_stated_card_is_refused_where_the_mapping_is_read(
    importer: Importer,
) -> None:
    columns = "{mem: {figure: {metric: peak_memory, scope: per_gpu}}}"
    with pytest.raises(
        Exception, match="found scope per_gpu for a single figure; expected max_gpu"
    ):
        importer(table("|mem|", "|20GiB|"), mapping(columns))
    numbered = columns.replace("per_gpu", "per_gpu, device_index: 1")
    found = one(importer(table("|mem|", "|20GiB|"), mapping(numbered, defaults=FOUR_CARDS)))
    assert found["measurements"][0]["device_index"] == 1


# what fits and has no figure, and what was never run


def test_no_oom_is_knowledge_that_it_fits(importer: Importer, catalogue: Catalogue) -> None:
    result = importer(table("|mem|", "|No OOM|"), mapping(MEMORY))
    found = one(result)
    assert (found["outcome"], found["outcome_detail"]) == (
        "ok",
        "it fits; the source gives no figure",
    )
    assert prepare_submission(result.submission, catalogue, origin="x").document


def test_no_oom_beside_a_figure_is_just_a_run(importer: Importer) -> None:
    columns = "{mem: {figure: {metric: peak_memory}}, time: {figure: {metric: total_time}}}"
    found = one(importer(table("|mem|time|", "|No OOM|3h|"), mapping(columns)))
    assert (found["outcome"], "outcome_detail" in found) == ("ok", False)


def test_parameters_alone_do_not_show_that_it_ran(importer: Importer) -> None:
    columns = "{n: {figure: {metric: trainable_params}}}"
    result = importer(table("|n|", "|4.19M|"), mapping(columns))
    assert one(result)["outcome"] == "unknown"
    assert result.notes == (
        (
            "table 1, row 1: only parameters are counted, which does not show that it ran: outcome "
            "unknown"
        ),
    )


# the document itself


def test_a_stated_hash_is_held_against_the_document(importer: Importer) -> None:
    text = mapping(MEMORY).replace("{source_id: mine}", f"{{source_id: mine, sha256: {'a' * 64}}}")
    (problem,) = importer(table("|mem|", "|20GiB|"), text).problems
    assert problem.startswith("doc.md: found a document with sha256 ")
    assert problem.endswith("then correct or remove sha256 (m.yaml, line 1)")


def test_a_problem_of_many_rows_is_one_problem(importer: Importer) -> None:
    rows = [f"|nobody-7b|{number}GiB|" for number in range(10, 19)]
    columns = "{model: {to: model_id}, mem: {figure: {metric: peak_memory}}}"
    (problem,) = importer(table("|model|mem|", *rows), mapping(columns)).problems
    assert problem.startswith("doc.md, table 1, rows 1, 2, 3, 4, 5 and 4 more: unknown model 'nobo")


def test_only_the_tables_that_the_mapping_names_have_to_be_readable(importer: Importer) -> None:
    broken = "<table><tr><td>a<td>b<tr><td>1<td rowspan=2>x<tr><td colspan=2>y</table>"
    document = f"{table('|mem|', '|20GiB|')}\n\n{broken}\n"
    text = mapping(MEMORY).replace("match: {}", "match: {table: %s}")
    assert importer(document, text % 1).problems == ()
    (problem,) = importer(document, text % 2).problems[:1]
    assert problem.startswith("doc.md, table 2: line 5: the spans of 'x' and of 'y' overlap")


@pytest.mark.parametrize("unit", ["TGS", "tokens/s/device", "token/s/gpu", "Tokens / sec / GPU"])
def test_a_unit_of_speed_may_be_said_as_headers_say_it(importer: Importer, unit: str) -> None:
    figure = f"{{metric: tokens_per_second, scope: mean_gpu, unit: {unit}}}"
    document = table(f"|{unit}|", "|3314|")
    found = one(
        importer(document, mapping(f"{{{unit}: {{figure: {figure}}}}}", defaults=FOUR_CARDS))
    )
    (measured,) = found["measurements"]
    assert (measured["value"], measured["scope"]) == (3314.0, "mean_gpu")


# ranges, bounds and thousands


@pytest.mark.parametrize("form", ["", ", form: '(?P<value>.+)'"])
@pytest.mark.parametrize("text", ["18\u201320 GB", "40+/-2 GB", "~20 GB"])
def test_a_range_is_recorded_as_one_with_a_form_and_without(
    importer: Importer, form: str, text: str
) -> None:
    columns = f"{{mem: {{figure: {{metric: peak_memory, unit: GB{form}}}}}}}"
    (figure,) = one(importer(table("|mem|", f"|{text}|"), mapping(columns)))["measurements"]
    assert figure["raw"] == text
    assert "in the source" in figure["reason"]
    assert figure.get("low", figure["value"]) <= figure["value"] < figure["high"]


@pytest.mark.parametrize(
    ("text", "form", "taken"),
    [
        ("18\u201320 GB", "(?P<value>[0-9]+).*(?P<unit>GB)", "18"),
        ("18\u201320 GB", ".*[^0-9](?P<value>[0-9]+) (?P<unit>GB)", "20"),
        ("40+/-2 GB", "(?P<value>[0-9]+).* (?P<unit>GB)", "40"),
        ("~20 GB", "~(?P<value>[0-9]+) (?P<unit>GB)", "20"),
        ("20 GB or more", "(?P<value>[0-9]+) (?P<unit>GB).*", "20"),
        ("61.3+73.0 GB", "(?P<value>[0-9.]+).* (?P<unit>GB)", "61.3"),
    ],
)
def test_a_form_that_takes_a_part_of_a_figure_is_refused(
    importer: Importer, text: str, form: str, taken: str
) -> None:
    columns = f"{{mem: {{figure: {{metric: peak_memory, form: '{form}'}}}}}}"
    assert importer(table("|mem|", f"|{text}|"), mapping(columns)).problems == (
        (
            f"doc.md, table 1, row 1, column 'mem': found {text!r}, of which the form takes "
            f"{taken!r} and drops the rest of a range, a sum or a bound; expected all of it in the "
            "part `value`, such as `(?P<value>.+)` (m.yaml, line 5)"
        ),
    )


def test_rates_in_thousands_stand_beside_plain_ones(importer: Importer) -> None:
    columns = (
        "{n: {to: micro_batch_size}, speed: {figure: {metric: tokens_per_second, unit: token/s}}}"
    )
    rows = ("|1|2.1k|", "|2|950|", "|3|1.2K tok/s|", "|4|1.5万|")
    found = importer(table("|n|speed|", *rows), mapping(columns))
    assert found.problems == ()
    assert [o["measurements"][0]["value"] for o in found.submission["observations"]] == [
        2100,
        950,
        1200,
        15000,
    ]


def test_thousands_are_not_multiplied_twice(importer: Importer) -> None:
    figure = "metric: tokens_per_second, unit: token/s, multiply_by: 1000, because: the header"
    columns = f"{{speed (k): {{figure: {{{figure}}}}}}}"
    assert importer(table("|speed (k)|", "|2.1k|"), mapping(columns)).problems == (
        (
            "doc.md, table 1, row 1, column 'speed (k)': found '2.1k' and `multiply_by: 1000`, "
            "expected one of them to say thousands; leave `multiply_by` out if k says it, or take "
            "the number alone with `form` (m.yaml, line 5)"
        ),
    )


def test_a_length_in_k_of_no_whole_number_is_refused_with_a_way_out(importer: Importer) -> None:
    spec = "to: seq_len, k_is: 1024"
    columns = f"{{len: {{{spec}}}, mem: {{figure: {{metric: peak_memory}}}}}}"
    assert importer(table("|len|mem|", "|2.1k|20GiB|"), mapping(columns)).problems == (
        (
            "doc.md, table 1, row 1, column 'len': found '2.1k' as a length, with `k_is: 1024` "
            "2,150.40 tokens, expected a whole number of them; state `k_is: 1000`, or this text's "
            "length under `patterns`: `{pattern: '2\\.1k', set: {seq_len: …}}` (m.yaml, line 5)"
        ),
    )
    said = columns.replace(spec, spec + r", patterns: [{pattern: '2\.1k', set: {seq_len: 2048}}]")
    document = table("|len|mem|", "|2.1k|20GiB|")
    assert one(importer(document, mapping(said)))["configuration"]["seq_len"] == 2048


# columns that state one setting


def test_two_columns_that_contradict_each_other_are_refused(importer: Importer) -> None:
    columns = (
        "{bits: {to: quant_bits}, "
        "method: {values: {QLoRA: {method: lora, quant_bits: 4}}}, "
        "mem: {figure: {metric: peak_memory}}}"
    )
    document = table("|bits|method|mem|", "|8|QLoRA|20GiB|", "|4|QLoRA|10GiB|")
    (problem,) = importer(document, mapping(columns)).problems
    assert problem.startswith(
        "doc.md, table 1, row 1: found quant_bits = 8 in column 'bits' and 4 in column 'method', "
        "expected one of them"
    )


# cells of several figures, of one card's share, in the place of a setting


PARTS = "{both: {separator: /, parts: [{metric: peak_memory}, {metric: step_time}]}}"


@pytest.mark.parametrize(
    ("cell", "outcome", "metrics"),
    [
        ("23.1GB / 1.2 s/it", "ok", ["peak_memory", "step_time"]),
        ("23.1GB / -", "ok", ["peak_memory"]),
        ("OOM / -", "oom", []),
        ("78.1GB / OOM", "oom", ["peak_memory"]),
    ],
)
def test_each_part_of_a_cell_may_be_a_word(
    importer: Importer, cell: str, outcome: str, metrics: list[str]
) -> None:
    found = one(importer(table("|both|", f"|{cell}|"), mapping(PARTS)))
    assert found["outcome"] == outcome
    assert [figure["metric"] for figure in found["measurements"]] == metrics


def test_a_text_in_a_part_can_be_given_a_meaning(importer: Importer) -> None:
    words = PARTS[:-2] + ", words: {killed: {outcome: error}}}}"
    found = one(importer(table("|both|", "|20GB / killed|"), mapping(words)))
    assert found["outcome"] == "error"


@pytest.mark.parametrize("cell", ["16 GB/GPU", "16GB per card", "16GB/卡"])
def test_memory_of_each_card_is_read_as_that(importer: Importer, cell: str) -> None:
    document, columns = table("|mem|", f"|{cell}|"), "{mem: {figure: {metric: peak_memory}}}"
    found = one(importer(document, mapping(columns, defaults=FOUR_CARDS)))
    (figure,) = found["measurements"]
    assert (figure["value"], figure["scope"], figure["raw"]) == (16 * 10**9, "mean_gpu", cell)
    total = "{mem: {figure: {metric: peak_memory, scope: total}}}"
    (problem,) = importer(document, mapping(total, defaults=FOUR_CARDS)).problems
    assert f"found '{cell}', one card's share, expected `scope: mean_gpu`" in problem


def test_an_outcome_in_the_place_of_a_setting_is_refused_with_the_way_out_which_works(
    importer: Importer,
) -> None:
    document = table("|batch|mem|", "|CUDA OOM|-|")
    batch = "batch: {to: micro_batch_size"
    (problem,) = importer(
        document, mapping(f"{{{batch}}}, mem: {{figure: {{metric: peak_memory}}}}}}")
    ).problems
    way_out = problem.partition("how the row's run ended: `")[2].partition("`")[0]
    assert way_out.startswith("patterns: [{pattern: ")
    found = one(
        importer(
            document, mapping(f"{{{batch}, {way_out}}}, mem: {{figure: {{metric: peak_memory}}}}}}")
        )
    )
    assert found["outcome"] == "oom"
    assert "micro_batch_size" not in found["configuration"]


def test_labels_of_a_pivot_with_one_meaning_are_told(importer: Importer) -> None:
    document = table("|model|LoRA|PiSSA|full|", "|7B|20GB|21GB|70GB|")
    pivot = (
        "    pivot:\n      - columns: (LoRA|PiSSA|full)\n"
        "        values: {LoRA: {method: lora}, PiSSA: {method: lora}, full: {method: full}}\n"
        "        cell: {figure: {metric: peak_memory}}\n"
    )
    defaults = ONE_CARD.replace("method: lora, ", "")
    result = importer(document, mapping("{model: {ignore: one}}", defaults=defaults, more=pivot))
    assert result.problems == ()
    assert any("'LoRA', 'PiSSA' have the same meaning" in note for note in result.notes)


@pytest.mark.parametrize(
    ("metric", "cell", "remark"),
    [
        ("peak_memory", "20GB total", "total"),
        ("peak_memory", "20 GB RAM", "RAM"),
        ("total_time", "5 h each", "each"),
        ("tokens_per_second", "950 tok/s steady", "steady"),
    ],
)
def test_words_behind_a_unit_are_a_remark_with_a_way_out_which_works(
    importer: Importer, metric: str, cell: str, remark: str
) -> None:
    figure = f"figure: {{metric: {metric}}}"
    (problem,) = importer(table("|x|", f"|{cell}|"), mapping(f"{{x: {{{figure}}}}}")).problems
    assert f"found the remark {remark!r} behind a figure" in problem
    said = f"{{x: {{{figure}, remarks: [{{pattern: {remark}, set: {{}}}}]}}}}"
    assert len(one(importer(table("|x|", f"|{cell}|"), mapping(said)))["measurements"]) == 1


@pytest.mark.parametrize("cell", ["20 GB VRAM", "20GB GPU memory", "20 ГБ видеопамяти"])
def test_words_that_call_memory_the_cards_say_nothing_else(importer: Importer, cell: str) -> None:
    columns = mapping("{mem: {figure: {metric: peak_memory}}}")
    (figure,) = one(importer(table("|mem|", f"|{cell}|"), columns))["measurements"]
    assert figure["value"] == 20_000_000_000


@pytest.mark.parametrize("cell", ["8+ it/s", "8 it/s+"])
def test_a_rate_with_a_plus_is_a_lower_bound(importer: Importer, cell: str) -> None:
    columns = mapping("{speed: {figure: {metric: steps_per_second}}}")
    (figure,) = one(importer(table("|speed|", f"|{cell}|"), columns))["measurements"]
    assert (figure["value"], figure["reason"]) == (8, "a lower bound")


def test_a_text_in_the_place_of_a_figure_is_refused_with_the_way_out_which_works(
    importer: Importer,
) -> None:
    document = table("|mem|time|", "|does not fit on 2x24|5 h|")
    columns = (
        "{{mem: {{figure: {{metric: peak_memory}}{}}}, time: {{figure: {{metric: total_time}}}}}}"
    )
    (problem,) = importer(document, mapping(columns.format(""))).problems
    way_out = problem.partition("`words` of the column: `")[2].partition("`")[0]
    found = one(importer(document, mapping(columns.format(f", {way_out}"))))
    assert [figure["metric"] for figure in found["measurements"]] == ["total_time"]


def test_an_unknown_unit_is_refused_with_a_form_that_reads_it(importer: Importer) -> None:
    document = table("| memory |", "| 23.4Gb |")
    (problem,) = importer(document, mapping("{memory: {figure: {metric: peak_memory}}}")).problems
    form = re.search(r"`form: (.+?)` of the figure", problem)
    assert form is not None
    figure = f"metric: peak_memory, form: {form[1]}, default_unit: GB, default_reason: no bits"
    result = importer(document, mapping(f"{{memory: {{figure: {{{figure}}}}}}}"))
    assert not result.problems
    assert one(result)["measurements"][0]["value"] == 23.4e9


def test_a_peak_above_the_cards_is_not_said_to_be_in_another_unit(importer: Importer) -> None:
    defaults = "defaults: {model_id: qwen-7b, method: lora, n_gpus: 1, gpu_id: rtx-4090}\n"
    columns = "{memory: {figure: {metric: peak_memory}}}"
    result = importer(table("| memory |", "| 42 GB |"), mapping(columns, defaults=defaults))
    (problem,) = result.problems
    assert "expected at most the" in problem
    assert "another unit" not in problem
