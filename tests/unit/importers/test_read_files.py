from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import SubmissionError
from registry.importers import IMPORTERS, ImportOptions, parse_overrides, read_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.catalogue import Catalogue
    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


RECORDS = Path(__file__).parents[3] / "records"
RUN = {"model_id": "llama-3.2-1b", "method": "lora"}
UNKNOWN = (
    "not recognized as a training log or result of any known framework "
    f"({', '.join(name for name in IMPORTERS if name != 'csv')}); expected what one of them "
    "writes (`registry add FILE --from NAME` says what that is), a submission "
    "(docs/submission.schema.json) or a table (`registry import FILE`); docs/importers.md shows "
    "how to read another framework"
)


@pytest.mark.parametrize(
    ("path", "new", "what"),
    [
        ("llama_factory/trainer_log.jsonl", "progress.log", "a LLaMA-Factory run"),
        ("ms_swift/logging.jsonl", "trainer_log.jsonl", "an ms-swift run"),
        ("hf_trainer/trainer_state.json", "x.json", "a Hugging Face Trainer run"),
        ("torchtune/log_1795257895.txt", "stdout", "a torchtune run"),
    ],
)
def test_files_are_recognized_by_content_under_any_name(
    case: Callable[[str, str], Imported], path: str, new: str, what: str
) -> None:
    assert case(path, new).taken == (f"{new}: {what}",)


def test_a_vocabulary_beside_a_run_is_no_file_of_any_framework(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    shutil.copyfile(fixtures / "llama_factory" / "trainer_log.jsonl", tmp_path / "log.jsonl")
    words = ["report", "config", "load", "forward", *(f"word{number}" for number in range(1000))]
    vocabulary = {word: number for number, word in enumerate(words)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    found = read(tmp_path, **RUN)
    assert found.taken[0] == "log.jsonl: a LLaMA-Factory run"
    assert not found.refused


@pytest.fixture
def case(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> Callable[[str, str], Imported]:
    """Read a fixture under another name, alone in its folder."""

    def reading(path: str, new: str) -> Imported:
        shutil.copyfile(fixtures / path, tmp_path / new)
        return read(tmp_path, **RUN)

    return reading


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"messages": [{"role": "user", "content": "hello"}]}\n' * 2,
            "a chat transcript or training data, not the log of a run",
        ),
        (
            '{"unet_lr": 1e-4, "noise_offset": 0.1, "loss": 0.1}\n' * 2,
            "a diffusion run; the registry holds language-model training",
        ),
        (
            '{"predict_bleu-4": 40.1, "predict_runtime": 12.0}\n' * 2,
            "evaluation or prediction results only; nothing was trained here",
        ),
        (
            '{"a": 1}\n' * 2,
            UNKNOWN,
        ),
    ],
)
def test_a_file_of_the_right_name_that_is_no_training_run_is_refused(
    tmp_path: Path, read: Callable[..., Imported], text: str, reason: str
) -> None:
    (tmp_path / "trainer_log.jsonl").write_text(text, encoding="utf-8")
    found = read(tmp_path)
    assert found.submissions == ()
    assert [refusal.reason for refusal in found.refused] == [reason]


@pytest.mark.parametrize("kind", [name for name in IMPORTERS if name != "csv"])
def test_a_file_that_is_not_of_the_kind_named_says_what_that_kind_is_told_by(
    tmp_path: Path, read: Callable[..., Imported], kind: str
) -> None:
    (tmp_path / "notes.txt").write_text("learning rate 2e-4\n", encoding="utf-8")
    (refusal,) = read(tmp_path, kind=kind).refused
    assert refusal.reason == (
        f"not recognized as {kind}; expected {IMPORTERS[kind].expects}; leave out --from where "
        "another framework wrote it"
    )


def test_runs_in_one_folder_are_told_apart_by_their_prefix(
    tmp_path: Path, fixtures: Path, observe: Observe
) -> None:
    for run in ("first", "second"):
        for name in ("trainer_log.jsonl", "train_results.json", "run.yaml"):
            shutil.copyfile(fixtures / "llama_factory" / name, tmp_path / f"{run}.{name}")
    assert len(observe(tmp_path)) == 2


def test_settings_under_another_name_belong_to_the_only_run(
    tmp_path: Path, fixtures: Path, observe: Observe
) -> None:
    source = fixtures / "llama_factory"
    shutil.copyfile(source / "trainer_log.jsonl", tmp_path / "mine.trainer_log.jsonl")
    shutil.copyfile(source / "run.yaml", tmp_path / "settings.yaml")
    (observation,) = observe(tmp_path)
    assert observation["configuration"]["model_id"] == "llama-3.2-1b"


def test_checkpoints_belong_to_the_run_above_them(fixtures: Path, observe: Observe) -> None:
    (observation,) = observe(fixtures / "hf_trainer")
    assert observation["outcome"] == "ok"


def test_the_same_files_give_the_same_submission(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    copy = shutil.copytree(fixtures / "ms_swift", tmp_path / "elsewhere")
    assert read(copy).submissions == read(fixtures / "ms_swift").submissions


def test_no_path_of_this_machine_enters_a_submission(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    copy = shutil.copytree(fixtures / "hf_trainer", tmp_path / "run")
    assert str(tmp_path) not in str(read(copy).submissions)


def test_weights_and_binary_files_are_passed_over(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    copy = shutil.copytree(fixtures / "ms_swift", tmp_path / "run")
    (copy / "model.safetensors").write_bytes(b"\x00" * 16)
    (copy / "events.out").write_bytes(b"\xff\xfe\x00")
    found = read(copy)
    assert [(refusal.path.name, refusal.reason) for refusal in found.refused] == [
        ("events.out", "not text in UTF-8")
    ]


def test_a_cut_off_last_line_is_not_the_end_of_a_log(
    tmp_path: Path, fixtures: Path, observe: Observe
) -> None:
    text = (fixtures / "ms_swift" / "logging.jsonl").read_text(encoding="utf-8")
    (tmp_path / "logging.jsonl").write_text(text[: len(text) // 2], encoding="utf-8")
    (observation,) = observe(tmp_path, **RUN)
    assert observation["outcome"] == "unknown"


def test_an_unknown_kind_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError) as error:
        read_files([tmp_path], "lama-factory")
    assert str(error.value) == (
        "import: unknown kind 'lama-factory'; did you mean 'llama-factory'?; "
        f"expected auto or one of {', '.join(IMPORTERS)}"
    )


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=r"nowhere: not found; expected a file or a folder"):
        read_files([tmp_path / "nowhere"])


def test_a_table_of_one_s_own_needs_a_mapping(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    (tmp_path / "mine.csv").write_text("model,memory\nx,1\n", encoding="utf-8")
    path = tmp_path / "mine.csv"
    assert read(tmp_path, kind="csv").refused[0].reason == (
        "a table from no known framework; say what its columns mean with a mapping: "
        f"`registry import {path} --draft > mapping.yaml` drafts one; fill in what is '?', "
        f"then `registry import {path} --mapping mapping.yaml` adds the rows"
    )


def test_a_table_is_read_as_its_mapping_says(catalogue: Catalogue) -> None:
    folder = RECORDS / "sources" / "qwen-finetune-profile"
    options = ImportOptions(catalogue=catalogue, mapping=folder / "mapping.yaml")
    found = read_files([folder / "01-profile.csv"], "csv", options=options)
    assert found.refused == ()
    assert found.taken == ("01-profile.csv: 86 observations of 14 rows",)


def test_a_setting_without_a_column_is_an_error_before_any_file_is_read(
    fixtures: Path, read: Callable[..., Imported]
) -> None:
    with pytest.raises(SubmissionError, match="unknown column 'gpuid'; did you mean 'gpu_id'"):
        read(fixtures / "ms_swift", gpuid="rtx-4090")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu", "--set: found 'gpu'; expected column=value, such as gpu_id=rtx-4090"),
        (
            "gpu_ids=x",
            (
                "--set: unknown column 'gpu_ids'; did you mean 'gpu_id'?; expected a column of "
                "the configuration, the environment or the source"
            ),
        ),
        ("seq_len=long", "--set: seq_len: found 'long'; expected a value of type int64"),
        ("packing=maybe", "--set: packing: found 'maybe'; expected a value of type bool"),
    ],
)
def test_a_setting_that_no_column_can_hold_is_refused(text: str, message: str) -> None:
    with pytest.raises(SubmissionError) as error:
        parse_overrides([text])
    assert str(error.value) == message


def test_a_notebook_that_is_cut_off_is_said_to_be(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    path = tmp_path / "run.ipynb"
    path.write_text('{"cells": [\n {"cell_type": "code", "source": "model.tra', encoding="utf-8")
    (refusal,) = read(path).refused
    assert refusal.reason.startswith("called a notebook, but not JSON: cut off, or damaged")
