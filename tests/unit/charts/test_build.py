"""What the pictures show, as Vega draws it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from registry.charts import CHOICES, COLUMNS, KINDS, MOST_PANELS, build_chart
from registry.charts.history import LINE
from registry.errors import ChartError, MissingExtraError
from tests.unit.charts.drawn import OOM, RUN, collect_labels, collect_marks, read_words
from tests.unit.charts.fields import find_unknown

if TYPE_CHECKING:
    from registry.charts.layers import Row

SCALING: list[Row] = [
    {
        "setting": "a", "source_id": "s", "model_id": "m", "gpu_id": "g", "method_label": "LoRA",
        "n_gpus": n,
        "samples_per_second": speed, "base_n_gpus": 1, "base_samples_per_second": 10.0,
        "speedup": speed / 10, "efficiency": speed / 10 / n, "n_observations": 1,
    }
    for n, speed in ((1, 10.0), (2, 19.0), (4, 34.0))
]  # fmt: skip
HISTORY: list[Row] = [
    {**RUN, "series": "c|peft", "configuration": "LoRA", "release": release, "release_order": place,
     "seconds_per_step": seconds, "outcome": outcome}
    for place, (release, seconds, outcome) in enumerate(
        [("peft 0.9", 2.0, "ok"), ("peft 0.10", 1.5, "ok"), ("peft 0.11", None, "oom")]
    )
]  # fmt: skip
COMPARED: list[Row] = [
    {"configuration": "one", "measure": "time", "ratio": 1.2, "low": 1.1, "high": 1.3},
    {"configuration": "one", "measure": "memory", "ratio": 1.0},
    {"configuration": "two", "measure": "time", "regression": "was ok, is oom"},
]
RESIDUALS: list[Row] = [
    {"source_id": "s", "held_back": held, "measured_bytes": 10 * 2**30, "low_bytes": low * 2**30,
     "predicted_bytes": 12 * 2**30, "high_bytes": 15 * 2**30}
    for held, low in ((False, 9), (True, 11))
]  # fmt: skip
ROWS = {
    "memory": [RUN, OOM],
    "speed": [RUN, OOM],
    "fits": [RUN, OOM],
    "pareto": [RUN],
    "scaling": SCALING,
    "history": HISTORY,
    "compare": COMPARED,
    "residuals": RESIDUALS,
}


def points(kind: str, rows: list[Row], **options: Any) -> list[dict[str, Any]]:
    return collect_marks(build_chart(kind, rows, **options), "symbol")


def rings(marks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [mark for mark in marks if mark["fill"] == "transparent"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_kind_draws_its_rows_which_stand_in_one_place(kind: str, theme: str) -> None:
    chart = build_chart(kind, ROWS[kind], theme=theme)
    marks = [mark for of in ("symbol", "text") for mark in collect_marks(chart, of)]
    assert marks
    specification = chart.to_dict()
    assert specification["data"]["name"] == "rows"
    assert len(specification["data"]["values"]) == len(ROWS[kind])
    assert json.dumps(specification).count('"values": [{') == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_gives_its_rows_to_the_specification_without_any(kind: str) -> None:
    specification = build_chart(kind, width=600, methods=["LoRA"]).to_dict()
    assert specification["data"] == {"name": "rows"}
    given = build_chart(kind, ROWS[kind], width=600, methods=["LoRA"]).to_dict()
    layers = [each.get("spec", each)["layer"] for each in (specification, given)]
    assert [layer["mark"] for layer in layers[0]] == [layer["mark"] for layer in layers[1]]
    assert specification["transform"] == given["transform"]


@pytest.mark.parametrize(
    ("kind", "x", "y"),
    [
        (kind, x, y)
        for kind in KINDS
        for x in CHOICES.get(kind, {}).get("x", (None,))
        for y in CHOICES.get(kind, {}).get("y", (None,))
    ],
)
def test_every_field_of_a_chart_is_a_column_or_computed(
    kind: str, x: str | None, y: str | None
) -> None:
    specification = build_chart(kind, x=x, y=y, methods=["LoRA"]).to_dict()
    assert find_unknown(specification, COLUMNS[kind]) == set()
    assert find_unknown(specification, ()), "the test sees fields"


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_does_not_depend_on_the_order_of_rows(kind: str) -> None:
    rows = [{**row, "method_label": f"method {n}"} for row in ROWS[kind] for n in range(12)]
    orders = rows, rows[::-1], rows[7:] + rows[:7]
    specifications = [build_chart(kind, order).to_dict() for order in orders]
    for specification in specifications:
        del specification["data"]
    assert specifications[1:] == specifications[:1] * 2


def test_a_heading_counts_observations_not_their_medians() -> None:
    rows = [{**row, "n_observations": 20} for row in SCALING]
    heading = build_chart("scaling", rows).to_dict()["title"]["subtitle"]
    assert heading[0].startswith("3 medians of 60 observations of 1 source.")
    heading = build_chart("scaling", SCALING).to_dict()["title"]["subtitle"]
    assert heading[0].startswith("3 observations of 1 source.")


def test_an_unknown_option_is_an_error_with_a_hint() -> None:
    with pytest.raises(ChartError) as caught:
        build_chart("memory", [RUN], them="dark")
    assert str(caught.value) == (
        "memory: no option 'them'; did you mean 'theme'?; expected some of methods, theme, title, "
        "width, x, y"
    )


def test_a_peak_is_in_gib_on_an_axis_that_says_so() -> None:
    (dot,) = [mark for mark in points("memory", [RUN]) if mark["fill"] != "transparent"]
    assert float(read_words(dot)["peak memory of the fullest card (GiB)"]) == 20


def test_out_of_memory_is_a_cross_at_the_memory_of_the_card() -> None:
    (cross,) = [
        mark for mark in points("memory", [RUN, OOM])
        if read_words(mark)["kind of memory"] == "out of memory"
    ]  # fmt: skip
    assert float(read_words(cross)["peak memory of the fullest card (GiB)"]) == 24
    assert cross["shape"].startswith("M")
    assert cross["fill"] == "transparent"


def test_out_of_memory_has_no_speed_and_stands_at_the_foot() -> None:
    marks = points("speed", [RUN, OOM])
    lowest = max(mark["y"] for mark in marks)
    assert [read_words(mark)["outcome"] for mark in rings(marks) if mark["y"] == lowest] == ["oom"]


@pytest.mark.parametrize(
    ("changed", "n_filled"),
    [
        ({}, 1),
        ({"evidence": "claimed"}, 0),
        ({"evidence": "predicted"}, 0),
        ({"outcome": "unknown"}, 0),
    ],
)
def test_what_was_not_measured_is_hollow(changed: Row, n_filled: int) -> None:
    marks = points("memory", [{**RUN, **changed}])
    assert len(rings(marks)) == 1
    assert len(marks) - len(rings(marks)) == n_filled


def test_an_ambiguous_figure_has_a_bar_over_its_readings_and_a_certain_one_has_none() -> None:
    sizes = {"peak_memory_bytes": 40, "peak_memory_bytes_low": 36, "peak_memory_bytes_high": 44}
    ambiguous = {**RUN, "n_gpus": 2, **{name: gib * 2**30 for name, gib in sizes.items()}}
    for row, expected in ((ambiguous, [(18.0, 22.0)]), (RUN, [])):
        rules = collect_marks(build_chart("memory", [row]), "rule")
        words = [read_words(rule) for rule in rules if "low" in rule["description"]]
        assert [(float(each["low"]), float(each["high"])) for each in words] == expected


def test_kinds_of_memory_have_shapes_of_their_own() -> None:
    kinds = ["device", "reserved", "active", "allocated", "unknown", "host_rss"]
    marks = rings(points("memory", [{**RUN, "memory_kind": kind} for kind in kinds]))
    assert len({mark["shape"] for mark in marks}) == len(kinds)


def test_lines_join_only_runs_that_differ_in_nothing_else() -> None:
    alike = [{**RUN, "seq_len": length} for length in (256, 512, 1024)]
    other = {**RUN, "seq_len": 2048, "micro_batch_size": 8}
    chart = build_chart("memory", [*alike, other])
    scene = collect_marks(chart, "line")
    assert sorted(read_words(mark)["sequence length (tokens)"] for mark in scene) == sorted(
        ["256", "512", "1024", "2048"]
    )
    assert len({read_words(mark)["setting"] for mark in scene}) == 2


def test_each_model_and_card_has_a_panel_and_a_missing_one_says_so() -> None:
    rows = [RUN, {**RUN, "gpu_id": "l4"}, {**RUN, "model_id": None}]
    titles = json.dumps(build_chart("memory", rows).to_dict()["transform"])
    assert "card not stated" in titles
    svg = render(build_chart("memory", rows))
    for panel in ("llama-2-7b on rtx-3090", "llama-2-7b on l4", "model not stated on rtx-3090"):
        assert panel in svg


def render(chart: Any) -> str:
    import vl_convert  # noqa: PLC0415 - of an extra

    text: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return text


def test_many_models_and_cards_are_refused_with_the_filters_to_give() -> None:
    rows = [{**RUN, "gpu_id": f"card-{n}"} for n in range(MOST_PANELS + 1)] + [RUN, RUN]
    with pytest.raises(ChartError) as caught:
        build_chart("memory", rows)
    assert str(caught.value) == (
        "found 14 pairs of a model and a card, each with a panel of its own; expected at most 12; "
        "choose with --model and --gpu, such as --model llama-2-7b --gpu rtx-3090 (2 observations)"
    )


def test_the_front_is_what_nothing_measured_of_the_same_kind_beats_in_both() -> None:
    def run(name: str, gib: float, speed: float, **changed: Any) -> Row:
        return {**RUN, "method_label": name, "peak_memory_bytes_per_gpu": gib * 2**30,
                "tokens_per_second": speed, **changed}  # fmt: skip

    rows = [
        run("small", 5, 100), run("slower and larger", 6, 90), run("middle", 8, 200),
        run("claimed", 7, 900, evidence="claimed"), run("as fast but larger", 9, 200),
        run("fast", 12, 300), run("allocated", 4, 400, memory_kind="allocated"),
    ]  # fmt: skip
    texts = collect_marks(build_chart("pareto", rows), "text")
    assert sorted(text["text"] for text in texts) == ["allocated", "fast", "middle", "small"]
    by_time = [{**row, "seconds_per_step": 1000 / row["tokens_per_second"]} for row in rows]
    texts = collect_marks(build_chart("pareto", by_time, y="seconds_per_step"), "text")
    assert sorted(text["text"] for text in texts) == ["allocated", "fast", "middle", "small"]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([64, 128], ["64", "128"]),
        ([1000], ["1000"]),
        ([500, 1500, 4000], ["500", "1500", "4000"]),
        ([*range(300, 2600, 100)], ["512", "1024", "2048"]),
    ],
)
@pytest.mark.parametrize("kind", ["memory", "speed"])
def test_ticks_stand_at_the_lengths_that_occur_or_at_powers_of_two(
    kind: str, lengths: list[int], expected: list[str]
) -> None:
    rows = [{**RUN, "seq_len": length} for length in lengths]
    labels = collect_labels(build_chart(kind, rows))
    assert [label["text"] for label in labels if label["baseline"] == "top"] == expected


def test_ticks_of_a_page_do_not_split_one_doubling() -> None:
    import altair as alt  # noqa: PLC0415 - of an extra

    chart = build_chart("memory")
    chart.data = alt.InlineData(values=[RUN, {**RUN, "seq_len": 1024}], name="rows")
    labels = collect_labels(chart)
    assert [label["text"] for label in labels if label["baseline"] == "top"] == ["512", "1024"]


@pytest.mark.parametrize("n_cards", [(8, 16), (3, 6, 12)])
def test_ticks_of_scaling_stand_at_the_numbers_of_cards(n_cards: tuple[int, ...]) -> None:
    rows = [{**SCALING[0], "n_gpus": n, "base_n_gpus": n_cards[0]} for n in n_cards]
    labels = collect_labels(build_chart("scaling", rows))
    found = [label["text"] for label in labels if label["baseline"] == "top"]
    assert found == [str(n) for n in n_cards]


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        ("memory", [RUN], {"LoRA", "device"}),
        ("memory", [RUN, OOM], {"LoRA", "device", "out of memory"}),
        ("memory", [{**RUN, "memory_kind": None, "method_label": "x"}], {"x", "unknown"}),
        ("pareto", [RUN, {**OOM, "method_label": "full"}], {"LoRA", "device"}),
        ("speed", [RUN, {**RUN, "tokens_per_second": None, "method_label": "full"}],
         {"LoRA", "one"}),
        ("speed", [{**RUN, "n_gpus": 2}, OOM], {"LoRA", "several", "out of memory"}),
        ("history", HISTORY[2:], {"LoRA"}),
    ],
)  # fmt: skip
def test_legends_name_only_what_is_drawn(kind: str, rows: list[Row], expected: set[str]) -> None:
    y = "peak_memory_bytes_per_gpu" if kind == "history" else None
    named = collect_labels(build_chart(kind, rows, y=y), "legend-label")
    assert {label["text"] for label in named} == expected


@pytest.mark.parametrize(("n_cards", "n_axes"), [(1, 1), (2, 2), (3, 3), (4, 2)])
def test_no_axis_hangs_under_an_empty_place(n_cards: int, n_axes: int) -> None:
    rows = [{**RUN, "gpu_id": f"card-{n}"} for n in range(n_cards)]
    chart = build_chart("memory", rows)  # two panels beside each other
    titles = [title["text"] for title in collect_labels(chart, "axis-title")]
    assert titles.count("sequence length (tokens)") == n_axes


def test_a_rate_is_that_of_one_card() -> None:
    two = {**RUN, "n_gpus": 2, "tokens_per_second": 3000.0}
    (dot,) = rings(points("speed", [two]))
    assert float(read_words(dot)["tokens per second per card"]) == 1500
    assert dot["shape"] == "square"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([RUN], ["83"]),
        ([{**RUN, "memory_kind": "allocated"}], ["≥83"]),
        ([{**RUN, "memory_kind": "unknown"}], ["~83"]),
        ([RUN, {**OOM, "seq_len": 512}], ["83 \u00d7"]),
        ([OOM], ["\u00d7"]),
        ([RUN, {**RUN, "peak_memory_bytes_per_gpu": 12 * 2**30}], ["83"]),
    ],
)
def test_a_cell_says_how_full_the_card_was_at_most_and_whether_memory_ran_out(
    rows: list[Row], expected: list[str]
) -> None:
    texts = collect_marks(build_chart("fits", rows), "text")
    assert [text["text"] for text in texts] == expected


def test_cells_of_several_methods_or_numbers_of_cards_are_apart() -> None:
    rows = [RUN, {**RUN, "method_label": "full"}, {**RUN, "n_gpus": 2}]
    assert len(collect_marks(build_chart("fits", rows), "rect")) == 3


def test_scaling_stands_beside_what_is_ideal() -> None:
    chart = build_chart("scaling", SCALING)
    lines = [read_words(mark) for mark in collect_marks(chart, "line")]
    ideal = [float(words["ideal"]) for words in lines if "ideal" in words]
    assert ideal == [10, 20, 40]


def test_settings_scale_apart() -> None:
    rows = [{**row, "setting": name} for row in SCALING for name in ("a", "b")]
    lines = [read_words(mark) for mark in collect_marks(build_chart("scaling", rows), "line")]
    settings = [words["setting"] for words in lines]
    assert {settings.count(setting) for setting in settings} == {6}  # three cards, twice
    assert len(set(settings)) == 2


def test_releases_stand_in_their_order_and_failures_at_the_foot() -> None:
    marks = points("history", HISTORY)
    places = {read_words(mark)["release"]: mark["x"] for mark in rings(marks)}
    assert sorted(places, key=lambda name: places[name]) == ["peft 0.9", "peft 0.10", "peft 0.11"]
    failed = max(rings(marks), key=lambda mark: float(mark["y"]))
    assert read_words(failed)["release"] == "peft 0.11"


@pytest.mark.parametrize(("n_releases", "n_named"), [(3, 3), (8, 8), (20, 10)])
def test_names_of_releases_do_not_overlap(n_releases: int, n_named: int) -> None:
    rows = [
        {**RUN, "series": "c", "release": f"peft 0.{n}, transformers 4.{n}, torch 2.{n}",
         "release_order": n}
        for n in range(n_releases)
    ]  # fmt: skip
    labels = collect_labels(build_chart("history", rows, width=400))
    named = [label for label in labels if isinstance(label["text"], list)]
    places = sorted(label["x"] for label in named)
    assert {label["angle"] for label in named} == {270}  # upright
    assert all(after - before >= 3 * LINE for before, after in pairwise(places))
    assert len(named) == n_named


def test_a_comparison_shows_intervals_and_what_fails() -> None:
    chart = build_chart("compare", COMPARED)
    assert len(collect_marks(chart, "symbol")) == 2
    assert len(collect_marks(chart, "text")) == 1
    intervals = [
        rule for rule in collect_marks(chart, "rule") if "low" in rule.get("description", "")
    ]
    assert len(intervals) == 1


def test_a_prediction_that_misses_is_hollow() -> None:
    marks = points("residuals", RESIDUALS)
    dots = [mark for mark in marks if mark["fill"] != "transparent"]
    assert len(rings(marks)) == 2
    assert [dot["shape"] for dot in dots] == ["circle"]


def test_usual_methods_keep_their_colour_whatever_else_is_drawn() -> None:
    alone = rings(points("memory", [{**RUN, "method_label": "QLoRA"}]))
    names = [f"method {n}" for n in range(20)] + ["QLoRA", "full"]
    many = rings(points("memory", [{**RUN, "method_label": name} for name in names]))
    shades = {read_words(mark)["method_label"]: mark["stroke"] for mark in many}
    assert shades["QLoRA"] == alone[0]["stroke"]
    assert len(set(shades.values())) == 9
    assert shades["method 19"] == shades["method 18"]


@pytest.mark.parametrize(
    ("kind", "rows", "options", "expected"),
    [
        ("memry", [], {}, ("no chart of kind 'memry'; did you mean 'memory'?; expected one of "
         "memory, speed, pareto, fits, scaling, history, compare, residuals")),
        ("memory", [], {}, "memory: no observation matches; expected some; use fewer filters"),
        ("memory", [RUN], {"x": "seq_length"}, ("memory: axis x: found 'seq_length'; did you mean "
         "'seq_len'?; expected one of seq_len, micro_batch_size, n_gpus")),
        ("fits", [RUN], {"x": "n_gpus"},
         "fits: axis x: found 'n_gpus'; expected none: it is fixed"),
        ("speed", [{**RUN, "tokens_per_second": None}], {},
         ("speed: none of the 1 observations has "
         "what the chart shows (seq_len, tokens_per_second and n_gpus); these do: "
         "--y samples_per_second, --y seconds_per_step")),
        ("memory", [RUN], {"theme": "grey"}, "no theme 'grey'; expected one of light, dark"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said(
    kind: str, rows: list[Row], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ChartError) as caught:
        build_chart(kind, rows, **options)
    assert str(caught.value) == expected


def test_without_the_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # noqa: ARG005 - its form
    with pytest.raises(MissingExtraError) as caught:
        build_chart("memory", [RUN])
    assert str(caught.value) == (
        "charts need altair and vl_convert, which this Python does not have; install with: "
        "pip install 'peft-registry[plot]'"
    )


def test_columns_are_those_of_the_views() -> None:
    from registry.contract.descriptions import describe_column  # noqa: PLC0415 - beside its use

    for kind in ("memory", "speed", "pareto", "fits"):
        assert all(describe_column("finetuning", name) for name in COLUMNS[kind])
    assert all(describe_column("scaling", name) for name in COLUMNS["scaling"])


@pytest.mark.parametrize("module", ["registry.charts", "registry_cli.commands.plot_command"])
def test_knowing_the_kinds_loads_nothing_that_draws(module: str) -> None:
    code = (
        f"import sys, {module}; print(*[m for m in ('altair', 'vl_convert') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == ""


def test_a_large_card_does_not_squeeze_the_front_of_a_small_one_and_speeds_begin_at_zero() -> None:
    rows = [
        {**RUN, "gpu_id": card, "peak_memory_bytes_per_gpu": gib * 2**30, "tokens_per_second": rate}
        for card, gib, rate in (
            ("small", 15, 2700.0),
            ("small", 16, 3000.0),
            ("large", 240, 9000.0),
        )
    ]
    labels = collect_labels(build_chart("pareto", rows), "axis-label")
    ticks = [float(label["text"].replace(",", "")) for label in labels]
    assert ticks.count(0) == 4  # both axes of both panels
    assert {tick for tick in ticks if tick < 10} >= {2, 4, 6, 8}
