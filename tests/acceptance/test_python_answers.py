"""Answers from Python are those of the command, typed, and docs/python.md shows what they give."""

from __future__ import annotations

import dataclasses
import doctest
import json
import pickle
import re
import shlex
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import registry
from registry.predict.answers import read_knowledge
from registry.store.folder import create_registry

ROOT = Path(__file__).parents[2]
_PYTHON = re.compile(r"```pycon\n(.*?)```\n", re.DOTALL)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _curated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PATH", str(ROOT / "records"))


def test_the_python_of_the_page_gives_what_it_shows() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    source = "\n".join(_PYTHON.findall(page))
    test = doctest.DocTestParser().get_doctest(source, {}, "python.md", None, None)
    assert len(test.examples) > 12
    result = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF | doctest.ELLIPSIS).run(test)
    assert result.failed == 0


def test_fit_is_the_json_of_the_command(run: Run) -> None:
    options = ("--model", "qwen-7b", "--gpu", "rtx-3090", "--method", "qlora", "--batch", "2")
    stated = ("--no-checkpointing", "--price", "rtx-3090=0.3", "--samples", "1e4", "--explain")
    printed = json.loads(
        run("fit", *options, *stated, "-f", "json", REGISTRY_PATH=str(ROOT / "records")).stdout
    )
    found = registry.fit(
        "qwen-7b", gpu="rtx-3090", method="qlora", batch=2, checkpointing=False,
        price={"rtx-3090": 0.3}, samples=10_000, explain=True,
    )  # fmt: skip
    assert json.loads(json.dumps(found.to_dict())) == _near(printed)
    assert found.verdict == printed["verdict"]
    assert found.cost(found.shown[0]) is not None


def test_estimate_is_the_json_of_the_command(run: Run) -> None:
    options = ("--model", "qwen-7b", "--gpu", "rtx-3090", "--samples", "1e4", "--price", "2")
    printed = json.loads(
        run("estimate", *options, "--json", REGISTRY_PATH=str(ROOT / "records")).stdout
    )
    found = registry.estimate("qwen-7b", gpu="rtx-3090", samples=10_000, price=2)
    assert json.loads(json.dumps(found.to_dict())) == _near(printed)
    assert printed["peak_bytes"]["value"] == pytest.approx(found.peak.value)
    assert printed["question"]["n_params"] == 7_721_324_544


def _near(data: object) -> object:
    """Return data whose floats need not be equal in the last digits: threads may differ."""
    if isinstance(data, float):
        return pytest.approx(data, rel=1e-6)
    if isinstance(data, dict):
        return {key: _near(value) for key, value in data.items()}
    return [_near(value) for value in data] if isinstance(data, list) else data


def test_results_are_frozen() -> None:
    found = registry.estimate("qwen-7b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.cost = None  # type: ignore[misc]


class _Tags(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - its signature
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_a_notebook_shows_is_escaped_and_small(tmp_path: Path) -> None:
    config = json.loads(
        (ROOT / "tests" / "fixtures" / "configs" / "deepseek-v2-lite.json").read_text("utf-8")
    )
    path = tmp_path / "<script>x & y"
    path.write_text(json.dumps(config), encoding="utf-8")
    for found in (registry.fit(config=path, gpu="t4"), registry.estimate(config=path)):
        shown = found._repr_html_()
        read = _Tags()
        read.feed(shown)
        assert read.tags <= {"p", "b", "br", "table", "tr", "th", "td"}
        assert "<script>x & y" in read.text
        assert len(shown) < 4000


def test_a_notebook_shows_the_cards_of_the_terminal_with_what_they_rest_on() -> None:
    found = registry.fit("llama-3-8b", gpu="rtx-4090", method="qlora", price=1, samples=500)
    shown = found._repr_html_()
    assert "<td>fits</td>" in shown  # after as many cards on which it is undecided
    assert "<td>~" in shown
    assert "USD: for 500 samples" in shown
    assert "more common cards could hold it (to_dict() has all)" in shown
    assert "<br>warning: no --quant-method is stated" in shown


def test_a_notebook_shows_the_times_and_costs_of_an_estimate() -> None:
    found = registry.estimate("qwen-7b", gpu="rtx-3090", samples=1000, epochs=3, price=2)
    shown = found._repr_html_()
    for name in ("time per epoch of 1,000 samples", "GPU-hours for 3 epochs"):
        assert f"<td>{name}</td>" in shown
    cost = found.to_dict()["cost"]
    assert cost["price"]["value"] == pytest.approx(2 * cost["gpu_hours"]["value"])
    assert found.to_dict()["n_epochs"] == 3


def test_the_command_of_an_answer_takes_numbers_as_python_does(run: Run) -> None:
    found = registry.fit("qwen-7b", gpu="rtx-3090", batch="1k", quant_bits=4.0, gpus=2.0)
    command, *options = shlex.split(found.to_dict()["command"])[1:]
    printed = json.loads(run(command, *options, "--json").stdout)
    assert printed["question"] == found.to_dict()["question"]
    assert printed["question"]["micro_batch_size"] == 1024


def test_an_answer_without_a_card_shows_no_verdict() -> None:
    shown = repr(registry.fit(params="8e9", layers=32))
    assert shown.startswith("<registry fit --params 8e9 --layers 32 --method lora: ")
    assert "None" not in shown


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention": "flashh"}, "attention: found 'flashh'; did you mean 'flash'?; expected one"),
        ({"batch": "four"}, "batch: found 'four'; expected a whole number such as "),
        ({"price": {"a1000": 1}}, "unknown gpu 'a1000'"),
        ({"price": "1.8.0"}, "price: found '1.8.0'; expected USD per card and hour, such as "),
        ({"sweep": "lenght"}, "sweep: found 'lenght'"),
        ({"sweep": 5}, "sweep: found '5'; expected one or more of batch, seq-len, rank"),
        ({"stack": 5}, "stack: found 5; expected a source or framework's name"),
        ({"vram": "15"}, "vram: found '15', expected an amount of memory"),
        ({"vram": 24}, "vram: found '24', expected an amount of memory with its unit, such as 24G"),
        ({"vram": 24e9}, "vram: found '24000000000.0', expected an amount of memory with its unit"),
        ({"checkpointing": "no"}, "checkpointing: found 'no'; expected True or False"),
        ({"train_embeddings": 1}, "train_embeddings: found 1; expected True or False"),
        (
            {"mean_tokens": 1500, "longest_sample": 1000},
            "mean_tokens 1500 with longest_sample 1000: expected a mean that is at most the",
        ),
        ({"gpu": "2xa100"}, "unknown gpu '2xa100'"),
        ({"samples": 0}, "samples: found 0; expected a whole number above 0"),
        ({"epochs": 0}, "epochs: found 0; expected a number above 0"),
        ({"epochs": "one"}, "epochs: found 'one'; expected a number above 0"),
    ],
)
def test_what_cannot_be_asked_is_said(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(registry.QuestionError) as caught:
        registry.fit("llama-2-7b", **wrong)
    assert str(caught.value).startswith(message)


def test_none_is_as_good_as_leaving_out() -> None:
    left_out = registry.fit("llama-2-7b", gpu="rtx-3090")
    left = dict.fromkeys(("seq_len", "batch", "gpus", "method"))
    none = registry.fit("llama-2-7b", gpu="rtx-3090", **left)  # type: ignore[arg-type] # on purpose
    assert none.to_dict() == left_out.to_dict()


def test_a_card_of_a_size_has_no_time() -> None:
    assert registry.estimate("llama-2-7b", vram="12GiB").cost is None
    with pytest.raises(registry.QuestionError, match="the speed of card of 12GiB is not known"):
        registry.estimate("llama-2-7b", vram="12GiB", samples=1000)
    with pytest.raises(registry.QuestionError, match="depend on the card: give --gpu"):
        registry.estimate("llama-2-7b", samples=1000)


def test_a_card_whose_speed_the_catalogue_lacks_is_estimated_and_told_like_fit_does() -> None:
    spent: dict[str, Any] = {"gpu": "h100-80gb", "samples": 1000}
    unknown = "the speed of h100-80gb is not known, as its kinds differ; name one of h100-pcie-80gb"
    for price in (None, 2):
        found = registry.estimate("llama-2-7b", **spent, price=price)
        assert found.cost is None
        (told,) = (text for text in found.warnings if "cost is shown" in text)
        assert told.startswith(f"no time or cost is shown: {unknown}")
        (told,) = (
            text
            for text in registry.fit("llama-2-7b", **spent, price=price).warnings
            if "no cost" in text
        )
        assert told.startswith(f"no cost is shown: {unknown}")


def test_a_list_of_prices_may_name_cards_that_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("rtx-4090,0.5\nrtx-9999,2\n")
    spent: dict[str, Any] = {"gpu": "rtx-4090", "samples": 1000}
    spent["price_file"] = tmp_path / "prices.csv"
    estimated = registry.estimate("llama-2-7b", **spent)
    for found in (registry.fit("llama-2-7b", **spent), estimated):
        (told,) = (text for text in found.warnings if "rtx-9999" in text)
        assert told.startswith("a price is left out: unknown gpu 'rtx-9999'")
    assert estimated.cost is not None
    assert estimated.cost.price is not None


def test_why_there_is_no_cost_is_said_of_the_cards_that_are_asked_about() -> None:
    found = registry.fit("llama-2-7b", vram="15GiB", method="qlora", price=2, samples=1000)
    (told,) = (text for text in found.warnings if "no cost" in text)
    assert told == "no cost is shown: the speed of card of 15GiB is not known"


def test_a_split_model_has_no_time_for_one_reason() -> None:
    spent: dict[str, Any] = {"gpu": "a100-sxm4-80gb", "samples": 1000, "price": 2}
    split: dict[str, Any] = {"method": "full", "tensor_parallel": 2, "gpus": 2}
    for found in (
        registry.fit("llama-2-7b", **spent, **split),
        registry.estimate("llama-2-7b", **spent, **split),
    ):
        assert [text for text in found.warnings if "cost" in text or "time" in text] == [
            "with tensor or pipeline parallelism the time is not computed"
        ]


def test_the_samples_of_a_file_of_lengths_are_counted(tmp_path: Path) -> None:
    (tmp_path / "lengths.txt").write_text("120\n900\n1500\n400\n")
    asked: dict[str, Any] = {"gpu": "rtx-4090", "method": "qlora"}
    asked["lengths"] = str(tmp_path / "lengths.txt")
    said = "lengths as of 4 samples, 730 tokens on average and at most 1500"
    assert said in registry.fit("llama-2-7b", **asked).time_assumes
    assert said in registry.estimate("llama-2-7b", **asked).time_assumes
    assert "lengths as of" not in str(registry.fit("llama-2-7b", gpu="rtx-4090").time_assumes)


def test_a_result_is_shown_in_a_line() -> None:
    found = registry.fit("llama-2-7b", gpu="rtx-3090", seq_len=512)
    assert repr(found).startswith("<registry fit --model llama-2-7b --gpu rtx-3090 ")
    assert f": {found.verdict}: " in repr(found)
    assert len(repr(found)) < 400
    assert repr(registry.estimate("llama-2-7b")).startswith("<estimate of llama-2-7b: ")


def test_a_calibration_is_read_again_where_the_registry_has_changed(tmp_path: Path) -> None:
    create_registry(tmp_path / "mine")
    db = registry.open(tmp_path / "mine")
    before, again = read_knowledge(db), read_knowledge(db)
    assert again.calibration is before.calibration
    example = ROOT / "tests" / "examples" / "valid" / "minimal.json"
    db.add(json.loads(example.read_text(encoding="utf-8")))
    assert read_knowledge(db).calibration is not before.calibration


def test_several_cards_in_one_word_and_decimal_sizes_are_told_apart() -> None:
    with pytest.raises(registry.QuestionError, match="say --gpu a100 --gpus 2; or give"):
        registry.fit("llama-2-7b", gpu="2xa100")
    (told,) = registry.fit("llama-2-7b", vram="24GB").warnings
    assert told == (
        "24 GB are 22.35 GiB; a card that is sold with 24 GB has about 24 GiB: say --vram 24GiB"
    )
    assert registry.fit("llama-2-7b", vram="24GiB").warnings == ()


def test_an_answer_that_was_sent_to_another_process_says_the_same() -> None:
    found = registry.fit("llama-3.1-8b", gpu="rtx-4090", method="qlora", seq_len=4096)
    sent = pickle.dumps(found)
    assert len(sent) < 1_000_000
    assert pickle.loads(sent).to_dict() == found.to_dict()  # noqa: S301 - written above
