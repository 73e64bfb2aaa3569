"""Lengths of samples: from a file, and what an answer makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from registry.errors import QuestionError
from registry.predict import sample_lengths
from registry.predict.answer.prediction import predict_memory
from registry.predict.asked import Asked, build_question
from registry.predict.calibration.unstated import FILLED, complete, open_settings
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.sample_lengths import read_lengths

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.predict.calibration.intervals import Calibration
    from tests.unit.predict.conftest import Ask


def test_a_file_that_is_no_text_is_named_with_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "lengths.parquet"
    path.write_bytes(b"PAR1\x80\xff")
    with pytest.raises(QuestionError) as caught:
        read_lengths(str(path))
    assert str(caught.value).startswith(f"lengths: {path}: found no UTF-8 (")
    assert "; expected a number of tokens a line, " in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "120\n\n900\n1500\n",
        "[120, 900, 1500]",
        '{"length": 120}\n{"n_tokens": 900}\n{"tokens": 1500}\n',
        '[{"length": 120}, {"length": 900}, {"length": 1500}]',
        "id,n_tokens\na,120\nb,900\nc,1500\n",
    ],
)
def test_lengths_are_read_as_people_keep_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    found = read_lengths(str(path))
    assert list(found.tokens) == [120, 900, 1500]
    assert found.longest == 1500
    assert found.mean_below(1000) == pytest.approx((120 + 900 + 1000) / 3)


def test_token_ids_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [1, 2]}\n')
    assert list(read_lengths(str(path)).tokens) == [3, 2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found nothing"),
        ("120\nmany\n", "line 2: found 'many'"),
        ("120\n0\n", "line 2: found '0'"),
        ("120\n-3\n", "line 2: found '-3'"),
        ('{"text": "a"}\n', "line 1: found"),
        ("id,size\na,120\n", "found columns 'id', 'size'"),
        ("n_tokens\n120\nlong\n", "line 3: found 'long'"),
        ("n_tokens\n\u00b2\n", "line 2: found '\u00b2'"),
        ("[1, ", "found '[1, '"),
        ("99999999999\n", "line 1: found '99999999999'"),
    ],
)
def test_what_is_no_length_is_named_with_its_place(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text(text)
    with pytest.raises(QuestionError) as refused:
        read_lengths(str(path))
    assert found in str(refused.value)
    assert "expected" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "120\n" * 5_000_002,
        "n_tokens\n" + "120\n" * 5_000_002,
        "[" + "1," * 5_000_001 + "1]",
        "[" + '{"n_tokens":9},\n' * 5_000_001 + '{"n_tokens":9}]',
    ],
    ids=["lines", "csv", "list", "objects"],
)
def test_more_samples_than_are_needed_are_refused_before_they_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text(text)
    monkeypatch.setattr(sample_lengths, "_values", None)
    with pytest.raises(QuestionError) as refused:
        read_lengths(str(path))
    assert str(refused.value) == (
        f"lengths: {path}: found more than 5,000,000 samples; expected at most that many; a random "
        "part of them is enough, with the longest among them"
    )


@pytest.mark.parametrize("text", ["1\n2\n3\n4\n", "n_tokens\n1\n2\n3\n4\n", "[1, 2, 3, 4]"])
def test_as_many_samples_as_are_taken_are_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text(text)
    monkeypatch.setattr(sample_lengths, "_MOST_SAMPLES", 4)
    assert list(read_lengths(str(path)).tokens) == [1, 2, 3, 4]
    monkeypatch.setattr(sample_lengths, "_MOST_SAMPLES", 3)
    with pytest.raises(QuestionError, match="more than 3 samples"):
        read_lengths(str(path))


def test_a_file_states_the_longest_and_the_mean(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("120\n900\n5000\n")
    asked = Asked(model="llama-2-7b", seq_len=1000, lengths=str(path))
    question = build_question(asked, catalogue)
    assert (question.longest, question.mean_sample_tokens) == (1000, (120 + 900 + 1000) / 3)
    assert question.changed(seq_len=8000).longest == 5000
    assert "longest_sample" not in open_settings(question)
    assert f"--lengths {path}" in asked.command()


def test_a_file_beside_what_it_states_is_refused(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("120\n")
    for settings in ({"longest_sample": 5}, {"mean_tokens": 5.0}):
        asked = Asked(model="llama-2-7b", lengths=str(path), **settings)
        with pytest.raises(QuestionError, match="expected --lengths alone"):
            build_question(asked, catalogue)


def test_a_file_says_the_same_as_its_figures(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("100\n200\n3000\n4096\n")
    asked = Asked(model="llama-3.1-8b", method="qlora", seq_len=4096)
    by_file = build_question(replace(asked, lengths=str(path)), catalogue)
    stated = replace(asked, longest_sample=4096, mean_tokens=1849.0, packing=False)
    assert by_file.varies
    assert by_file == build_question(stated, catalogue).changed(packing=None)
    path.write_text("4096\n4096\n")
    assert not build_question(replace(asked, lengths=str(path)), catalogue).varies


def test_a_mean_just_below_the_longest_says_that_samples_fill_sequences(
    catalogue: Catalogue,
) -> None:
    asked = Asked(model="llama-3.1-8b", seq_len=4096)
    means = (4096, 4095, 3900, 3500, 500)
    varying = [build_question(replace(asked, mean_tokens=mean), catalogue).varies for mean in means]
    assert varying == [False, False, False, True, True]


@pytest.mark.parametrize("mean", [100, 400, 3900])
def test_another_limit_says_anew_whether_samples_vary_below_it(
    catalogue: Catalogue, mean: int
) -> None:
    asked = Asked(model="llama-3.1-8b", seq_len=4096, mean_tokens=mean)
    question = build_question(asked, catalogue)
    for limit in (64, 384, 448, 4096, 8192):
        other = build_question(replace(asked, seq_len=limit), catalogue)
        assert question.changed(seq_len=limit) == other, limit
    stated = question.changed(length_distribution="full")
    assert stated.changed(seq_len=8192).length_distribution == "full"


def test_packed_samples_of_a_file_fill_sequences(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("100\n200\n3000\n4096\n")
    asked = Asked(model="llama-3.1-8b", method="qlora", seq_len=8192, packing=True)
    packed = build_question(replace(asked, lengths=str(path)), catalogue)
    assert packed == build_question(replace(asked, mean_tokens=1849.0), catalogue)
    assert (packed.longest, packed.varies) == (8192, False)
    assert packed.samples_per_sequence == 8192 / 1849


def test_packed_samples_are_as_long_as_sequences(ask: Ask) -> None:
    with pytest.raises(QuestionError, match="packing with a longest sample of 100"):
        ask("llama-2-7b", packing=True, longest_sample=100)


def test_a_shorter_longest_sample_is_a_shorter_sequence(ask: Ask) -> None:
    long = ask("llama-2-7b", seq_len=4096, micro_batch_size=2, attention="eager")
    cut = long.changed(longest_sample=1024)
    assert total(memory_terms(cut)) == total(memory_terms(long.changed(seq_len=1024)))
    assert cut.tokens == 2048


def test_lengths_are_open_where_samples_may_be_shorter(ask: Ask, calibration: Calibration) -> None:
    question = ask("llama-2-7b", seq_len=4096)
    meant = {one.question.longest_sample for one in complete(question, calibration.usual)}
    assert meant == {FILLED, 1024}
    for stated in ({"packing": True}, {"length_distribution": "full"}, {"longest_sample": 4096}):
        known = question.changed(**stated)
        assert "longest_sample" not in open_settings(known)
        narrow, wide = (predict_memory(one, calibration).figure for one in (known, question))
        assert wide.low < narrow.low
        assert (wide.value, wide.high) == pytest.approx((narrow.value, narrow.high), rel=0.05)
    assert "longest_sample" not in open_settings(ask("llama-2-7b", seq_len=1024))
