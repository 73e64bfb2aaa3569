"""A calibration is data: written, read, and the same after."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import registry
from registry import __version__
from registry.api import Registry
from registry.errors import QuestionError
from registry.predict.answer.prediction import predict_memory, predict_time
from registry.predict.answer.will_it_fit import answer
from registry.predict.calibration import calibration_file
from registry.predict.calibration.calibration_file import (
    format_calibration,
    parse_calibration,
    read_calibration,
    recalibrate,
    seal,
    write_calibration,
)
from registry.predict.calibration.intervals import calibrate
from registry.store.folder import Folder, Location, create_registry, curated_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.predict.calibration.intervals import Calibration
    from tests.unit.predict.conftest import Ask


def test_what_is_read_answers_as_what_was_written(ask: Ask, calibration: Calibration) -> None:
    seen = [one for one in calibration.observations if one.source_id == "swift-benchmark"]
    made = calibrate(seen)
    again = parse_calibration(format_calibration(made))
    question = ask("yi-6b-chat", stack="swift-benchmark")
    for predict in (predict_memory, predict_time):
        left, right = predict(question, made).figure, predict(question, again).figure
        assert right.value == pytest.approx(left.value, rel=1e-4)
        assert right.high == pytest.approx(left.high, rel=1e-4)


def test_what_another_release_wrote_is_computed_anew(calibration: Calibration) -> None:
    written = json.loads(format_calibration(calibrate(calibration.observations[:60])))
    del written["sha256"]
    (key, *_, terms), *_ = written["memory"]["rows"]
    value = terms[0][1]
    terms[0][1] = 2 * value
    for release, expected in ((__version__, 2 * value), ("0.1.9", value)):
        read = parse_calibration(seal(json.dumps({**written, "release": release})))
        first = read.memory.fit.rows[0]
        assert first.key == key
        assert first.terms[0].value == pytest.approx(expected, rel=1e-7)


def test_writing_leaves_one_file(tmp_path: Path, calibration: Calibration) -> None:
    made = calibrate(calibration.observations[:40])
    write_calibration(tmp_path / "calibration.json", made)
    assert [path.name for path in tmp_path.iterdir()] == ["calibration.json"]
    text = (tmp_path / "calibration.json").read_text(encoding="utf-8")
    assert text == format_calibration(parse_calibration(text)) == format_calibration(made)


def test_a_users_own_run_counts_at_once(
    tmp_path: Path, few_records: Path, ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-2-7b", "a100-80gb", seq_len=1024, micro_batch_size=2)
    before = answer(question, calibration).prediction.figure
    measured = round(1.5 * before.value)
    opened = Registry(Location(Folder(tmp_path / "mine"), Folder(few_records)))
    opened.add(
        {
            "source": {"source_id": "my-runs", "kind": "person"},
            "observations": [
                {
                    "outcome": "ok",
                    "configuration": {
                        "model_id": "llama-2-7b",
                        "method": "lora",
                        "gpu_id": "a100-80gb",
                        "n_gpus": 1,
                        "seq_len": 1024,
                        "micro_batch_size": 2,
                    },
                    "measurements": [
                        {"metric": "peak_memory", "kind": "device", "value": measured}
                    ],
                }
            ],
        }
    )
    own = read_calibration(opened)
    assert len(own.newer) == 1
    found = answer(question, own)
    assert found.prediction.figure.value == pytest.approx(measured, rel=0.1)
    assert found.prediction.figure.low < measured < found.prediction.figure.high
    assert found.nearest[0].observation.observation_id in own.newer
    assert "evidence newer than the calibration: one run of yours" in found.reasons
    recalibrate(opened)
    fitted = read_calibration(opened)
    assert (fitted.newer, fitted.own_ids) == (frozenset(), own.own_ids)
    again = answer(question, fitted).prediction.figure
    assert again.value == pytest.approx(measured, rel=0.1)


def test_what_one_has_withdrawn_is_no_evidence(tmp_path: Path, ask: Ask) -> None:
    opened = Registry(Location(create_registry(tmp_path / "mine"), Folder(curated_dir())))
    question = ask("llama-2-7b", "rtx-3090", seq_len=2048, micro_batch_size=3)
    nearest = answer(question, read_calibration(opened)).nearest[0].observation
    opened.retract(nearest.observation_id, reason="of another card")
    without = read_calibration(opened)
    assert nearest.observation_id not in {one.observation_id for one in without.observations}
    assert nearest.observation_id not in {row.key for row in without.memory.fit.rows}
    assert answer(question, without).nearest[0].observation != nearest


def test_another_version_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        parse_calibration(json.dumps({"version": 0}), "x.json")
    assert str(caught.value) == (
        "x.json: found version 0; expected 6; write it again with `registry calibrate`"
    )


@pytest.mark.parametrize("changed", ['"reach"', '"rows":[[', '"usual"', '"release"'])
def test_a_calibration_that_was_changed_is_refused(calibration: Calibration, changed: str) -> None:
    text = format_calibration(calibrate(calibration.observations[:60]))
    assert changed in text
    for other in (text.replace(changed, changed + " ", 1), f"{text} ", text.rstrip()):
        with pytest.raises(QuestionError, match=r"x\.json: found content that was changed; write"):
            parse_calibration(other, "x.json")


def test_line_ends_that_git_converted_are_no_change(calibration: Calibration) -> None:
    text = format_calibration(calibrate(calibration.observations[:60]))
    converted = text.replace("\n", "\r\n").encode()
    assert format_calibration(parse_calibration(converted)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", seal('{"version": 6}'), b"\xff", "[" * 100_000),
        seal('{"version": 6, "release": "0.2.0", "models": []}'),
    ],
)
def test_what_is_no_calibration_is_refused(text: str | bytes) -> None:
    with pytest.raises(QuestionError, match=r"x\.json: found no calibration .*registry calibrate"):
        parse_calibration(text, "x.json")


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (os.mkfifo, "found a pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "found a device"),
        (Path.mkdir, "cannot be read: Is a directory"),
    ],
)
def test_a_calibration_that_is_no_file_is_refused(
    make: Callable[[Path], object], found: str, tmp_path: Path
) -> None:
    create_registry(tmp_path / "mine")
    make(tmp_path / "mine" / "calibration.json")
    with pytest.raises(QuestionError, match=found):
        read_calibration(registry.open(tmp_path / "mine"))


def test_the_way_out_names_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, curated = tmp_path / "own", tmp_path / "curated"
    create_registry(own)
    curated.mkdir()
    monkeypatch.setattr(calibration_file, "curated_dir", lambda: curated)
    (curated / "calibration.json").write_text("{}", encoding="utf-8")
    way_out = f"in a checkout run `registry calibrate --registry {curated}`"
    with pytest.raises(QuestionError, match=f"; install the package again, or {way_out}$"):
        read_calibration(registry.open(own))
    (own / "calibration.json").write_text("{}", encoding="utf-8")
    with pytest.raises(
        QuestionError, match=f"; write it again with `registry calibrate --registry {own}`$"
    ):
        read_calibration(registry.open(own))


def test_a_registry_is_calibrated_in_its_own_folder(tmp_path: Path) -> None:
    shutil.copytree(curated_dir() / "tables", tmp_path / "mine" / "tables")
    (tmp_path / "mine" / "journal").mkdir()
    db = registry.open(tmp_path / "mine")
    path, made = recalibrate(db)
    assert path == tmp_path / "mine" / "calibration.json"
    assert path.read_bytes() == (curated_dir() / "calibration.json").read_bytes(), (
        "the records changed: run `registry calibrate` and "
        "`python -m registry.predict.evaluation.accuracy`"
    )
    assert read_calibration(db).observations == made.observations


def test_the_curated_records_come_with_a_calibration() -> None:
    text = (curated_dir() / "calibration.json").read_text(encoding="utf-8")
    assert len(read_calibration().observations) == len(json.loads(text)["observations"]) > 500
