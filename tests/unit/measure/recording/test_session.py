"""A recording from begin to end, of a training that only looks like one."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from registry.api import open_registry
from registry.catalogue import Catalogue
from registry.measure.recording.batches import Batches, merge_arguments
from registry.measure.recording.progress import Progress, assemble_all, read_progress
from registry.measure.recording.record import Record
from registry.measure.recording.session import Session
from registry.measure.trial_settings import RECORD_FOLDER, Options
from registry.store.folder import create_registry
from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from pathlib import Path

    from registry.measure.recording.parameters import Parameters

CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})


@dataclass
class Tensor:
    """What a recording asks of a tensor."""

    shape: tuple[int, ...]
    total: int = 0
    dtype: str = "torch.float32"
    requires_grad: bool = True
    is_float: bool = False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def is_floating_point(self) -> bool:
        """Return whether it holds floats."""
        return self.is_float

    def numel(self) -> int:
        """Return the number of elements."""
        product = 1
        for size in self.shape:
            product *= size
        return product

    def sum(self) -> int:
        """Return the sum."""
        return self.total


class Model:
    """A model of one parameter."""

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        """Return the parameter with its name."""
        return [("weight", Tensor((4, 8), is_float=True))]


@dataclass
class Job:
    """A training as an adapter describes it."""

    folder: Path
    config: Any = field(default_factory=lambda: {"model_type": "llama", "hidden_size": 8})
    name: str = "fake"
    device: str = "cpu"
    optimizers: tuple[Any, ...] = ()
    model: Any = field(default_factory=Model)

    def read_configuration(self, parameters: Parameters) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a small configuration."""
        row = {"method": "full", "n_nodes": 1, "gpus_per_node": 1, "micro_batch_size": 2}
        extra = {"grad_accum_steps": 2, "sharding": "none"}
        return {**row, **extra, "trainable_params": parameters.n_trainable}, {"optimizer": "SGD"}

    def read_length(self, batches: Batches) -> dict[str, Any]:
        """Return what the batches show."""
        return batches.read_length()

    def output_folder(self) -> Path:
        """Return a folder."""
        return self.folder / "out"


def batch(rows: int = 2, width: int = 16, visible: int | None = None) -> dict[str, Tensor]:
    found = {"input_ids": Tensor((rows, width))}
    if visible is not None:
        found["attention_mask"] = Tensor((rows, width), visible)
    return found


def train(session: Session, job: Any, *, steps: int = 6, rows: int = 2) -> None:
    session.attach(job)
    session.begin_train()
    for step in range(1, steps + 1):
        session.begin_step(step)
        for _ in range(2):
            session.count(batch(rows), 2)
        with session.apart("eval"):
            pass
        session.end_step(step)
        session.note_logs(step, {"loss": 1.5})


def only(submission: Any) -> dict[str, Any]:
    document = prepare_submission(submission, CATALOGUE, origin="run").document
    (observation,) = document["observations"]
    assert isinstance(observation, dict)
    return observation


def total(observation: dict[str, Any], metric: str) -> float:
    return next(
        float(row["value"]) for row in observation["measurements"] if row["metric"] == metric
    )


def test_a_training_is_recorded_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RECORD_FOLDER, raising=False)
    session = Session(Options())
    train(session, Job(tmp_path))
    session.finish(loss=1.25, n_samples=24.0)
    observation = only(session.submission)
    assert [row["samples"] for row in observation["samples"]] == [4] * 6
    assert observation["configuration"]["seq_len"] == 16
    assert total(observation, "n_tokens") == 6 * 4 * 16
    assert total(observation, "train_loss") == 1.25
    assert "contradictions" not in observation["provenance"]
    (path,) = (tmp_path / "out").iterdir()
    assert json.loads(path.read_text()) == session.submission
    assert capsys.readouterr().err == f"registry: wrote {path}; add it with: registry add {path}\n"


@dataclass
class LimitedJob(Job):
    """A training whose trainer allows longer sequences than its data has."""

    limit: int = 64

    def read_length(self, batches: Batches) -> dict[str, Any]:
        """Return what the trainer allows."""
        return batches.read_length(self.limit)


def train_short(session: Session, job: Job, *widths: int) -> None:
    session.attach(job)
    session.begin_train()
    for step, width in enumerate(widths, 1):
        session.begin_step(step)
        session.count(batch(2, width, 2 * width - 1), 2)
        session.end_step(step)


@pytest.mark.parametrize(("limit", "longest"), [(64, [24.0]), (24, []), (8, [])])
def test_the_longest_sequence_is_told_beside_a_limit_that_allows_longer_ones(
    tmp_path: Path, limit: int, longest: list[float]
) -> None:
    session = Session(Options(out=tmp_path / "record.json"))
    train_short(session, LimitedJob(tmp_path, limit=limit), 16, 24, 20)
    session.finish()
    observation = only(session.submission)
    assert observation["configuration"]["seq_len"] == max(limit, 24)
    found = [row for row in observation["measurements"] if row["metric"] == "sequence_length"]
    assert [row["value"] for row in found] == longest
    assert {row["statistic"] for row in found} <= {"max"}


@pytest.mark.parametrize(
    ("parts", "longest"),
    [
        ({"input_ids": 64, "labels": 64}, 64),
        ({"input_ids": 64, "labels": 51}, 64),
        ({"input_ids": 64, "labels": 512}, None),
        ({"input_ids": 64, "decoder_input_ids": 512}, None),
        ({"prompt_input_ids": 40, "chosen_input_ids": 300, "rejected_input_ids": 700}, None),
        ({"input_ids_chosen": 300, "input_ids_rejected": 700}, None),
    ],
)
def test_the_longest_sequence_of_batches_of_several_texts_is_not_told(
    parts: dict[str, int], longest: int | None
) -> None:
    batches = Batches()
    batches.add({name: Tensor((2, width)) for name, width in parts.items()}, 2)
    assert batches.longest == longest


@pytest.mark.parametrize(("n_last", "longest"), [(1, None), (2, 24), (3, 24)])
def test_the_longest_sequence_of_a_smaller_batch_is_not_told(
    n_last: int, longest: int | None
) -> None:
    batches = Batches()
    for n_samples, width in ((2, 16), (2, 20), (n_last, 24)):
        batches.add(batch(n_samples, width), 2)
    assert batches.longest == longest


def test_the_longest_sequence_of_a_job_is_that_of_its_processes_if_all_of_them_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RECORD_FOLDER, str(tmp_path))
    session = Session(Options())
    train_short(session, LimitedJob(tmp_path), 16, 24, 20)
    (path,) = tmp_path.glob("record-0-*.jsonl")

    def lengths(longest: int | None) -> list[float]:
        first, second = (read_progress(path) for _ in range(2))
        assert first is not None
        assert second is not None
        first.n_ranks = second.n_ranks = 2
        second.rank = 1
        second.longest = second.longest and longest
        for one in (first, second):
            one.record.configuration["gpus_per_node"] = 2
        figures = only(assemble_all([first, second])[0])["measurements"]
        return [row["value"] for row in figures if row["metric"] == "sequence_length"]

    assert lengths(40) == []  # a longer one may be what ended it
    session.finish_rank()
    assert lengths(40) == [40]
    assert lengths(None) == []


def test_what_contradicts_itself_is_flagged(tmp_path: Path) -> None:
    session = Session(Options(out=tmp_path / "record.json"))
    train(session, Job(tmp_path), rows=3)
    session.finish(n_samples=24.0)
    observation = only(session.submission)
    assert "figures_disagree" in observation["flags"]
    assert observation["provenance"]["contradictions"] == [
        "samples per step: 6 counted, 4 by the configuration",
        "samples: 36 counted, 24 by the framework",
    ]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_flagged_and_no_figure(tmp_path: Path, loss: float) -> None:
    session = Session(Options(out=tmp_path / "x.json"))
    train(session, Job(tmp_path))
    session.note_logs(6, {"loss": loss})
    session.finish(loss=loss)
    observation = only(session.submission)
    assert "not_finite" in observation["flags"]
    assert "train_loss" not in {row["metric"] for row in observation["measurements"]}
    assert [step.get("loss") for step in observation["samples"]] == [1.5] * 6


def test_a_loss_that_no_log_shows_is_flagged_too(tmp_path: Path) -> None:
    session = Session(Options(out=tmp_path / "x.json"))
    train(session, Job(tmp_path))
    session.telling = float("nan")  # of the last step
    session.finish(loss=0.7)  # Trainer's mean, which leaves such losses out
    assert "not_finite" in only(session.submission)["flags"]


def test_a_step_that_runs_out_of_memory_is_flagged_if_the_program_goes_on(tmp_path: Path) -> None:
    session = Session(Options(out=tmp_path / "x.json"))
    job = Job(tmp_path)
    session.attach(job)
    session.begin_train()
    session.begin_step(1)
    session.note_error(MemoryError())
    session.begin_train()  # with a smaller batch
    for step in range(1, 7):
        session.begin_step(step)
        session.count(batch(2), 2)
        session.end_step(step)
    session.finish()
    assert "recovered_from_oom" in only(session.submission)["flags"]


def test_of_trainings_whose_steps_take_turns_no_memory_is_stated(tmp_path: Path) -> None:
    sessions = [Session(Options(out=tmp_path / f"{name}.json")) for name in "ab"]
    for session in sessions:
        session.attach(Job(tmp_path))
        session.begin_train()
    for step in range(1, 7):
        for session in sessions:
            session.begin_step(step)
            session.end_step(step)
    for session in sessions:
        session.finish()
        observation = only(session.submission)
        assert "side_by_side" in observation["flags"]
        assert "memory_not_stated" in observation["provenance"]
        assert not {"peak_memory"} & {row["metric"] for row in observation["measurements"]}
        assert not any("host_rss_bytes" in step for step in observation["samples"])


def test_a_second_training_beside_the_first_is_flagged(tmp_path: Path) -> None:
    session = Session(Options(out=tmp_path / "record.json"))
    first, second = Job(tmp_path), Job(tmp_path)
    train(session, first)
    session.finish()
    train(session, second, steps=3)
    session.finish()
    observation = only(session.submission)
    assert "shared_process" in observation["flags"]
    assert len(observation["samples"]) == 3
    assert "load_time" not in {row["metric"] for row in observation["measurements"]}


def test_a_training_without_an_end_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RECORD_FOLDER, str(tmp_path))
    session = Session(Options())
    train(session, Job(tmp_path))
    (path,) = tmp_path.glob("record-0-*.jsonl")
    left = read_progress(path)
    assert left is not None
    observation = only(assemble_all([left])[0])
    assert observation["outcome"] == "interrupted"
    assert len(observation["samples"]) == 6
    assert observation["configuration"]["seq_len"] == 16
    assert total(observation, "eval_time") == session.recording.seconds_apart["eval"]
    assert observation["flags"] == ["includes_evaluation", "short_run"]
    session.finish_rank()
    left = read_progress(path)
    assert left is not None
    assert only(assemble_all([left])[0])["outcome"] == "ok"


def test_a_file_that_is_closed_while_it_is_flushed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that flushes wakes up, and then the training ends."""
    growing = Progress(tmp_path / "record-0-1-1.jsonl", 0, Record("0", "", {}, {}, {}, None))
    growing.close()
    looks = iter([False, True])
    monkeypatch.setattr(growing, "_stop", SimpleNamespace(wait=lambda _: next(looks)))
    growing._flush()
    assert next(looks, None) is None


def test_a_file_of_the_job_under_the_number_of_ours_is_left_alone(tmp_path: Path) -> None:
    record = Record("0", "2026-01-02T03:04:05+00:00", {}, {}, {"model_id": "tiny"}, None)
    progress = Progress(tmp_path / "record.jsonl", 0, record)
    with (tmp_path / "theirs").open("wb") as theirs:
        number = os.dup2(theirs.fileno(), progress._file)  # as by a job that closes all files
        with pytest.raises(OSError, match="the job closed the file of the record"):
            progress.add_step({"step": 1})
        progress.close()
        os.close(number)
    assert (tmp_path / "theirs").read_bytes() == b""


def test_an_exception_is_the_outcome(tmp_path: Path) -> None:
    session = Session(Options(out=tmp_path / "record.json"))
    train(session, Job(tmp_path))
    session.fail(MemoryError("out of memory"))
    observation = only(session.submission)
    assert (observation["outcome"], observation["outcome_detail"]) == (
        "oom",
        "MemoryError: out of memory",
    )


def test_a_recording_that_is_to_be_added_is_on_the_disk_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_registry(tmp_path / "own", curated=False)
    monkeypatch.setenv("REGISTRY_PATH", str(tmp_path / "own"))
    monkeypatch.delenv(RECORD_FOLDER, raising=False)
    session = Session(Options(add=True))
    train(session, Job(tmp_path))
    (path,) = (tmp_path / "out").glob("registry-*.jsonl")
    left = read_progress(path)
    assert left is not None
    observation = only(assemble_all([left])[0])
    assert (observation["outcome"], len(observation["samples"])) == ("interrupted", 6)
    session.finish()
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("quote_errors", "detail"), [(False, "ValueError"), (True, "ValueError: 401 for s3cr3t")]
)
def test_an_exceptions_text_is_kept_only_of_our_own_jobs(
    tmp_path: Path, *, quote_errors: bool, detail: str
) -> None:
    session = Session(Options(out=tmp_path / "record.json", quote_errors=quote_errors))
    train(session, Job(tmp_path))
    session.fail(ValueError("401 for s3cr3t"))
    assert only(session.submission)["outcome_detail"] == detail


def test_a_recording_can_be_added_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_registry(tmp_path / "own", curated=False)
    monkeypatch.setenv("REGISTRY_PATH", str(tmp_path / "own"))
    monkeypatch.delenv(RECORD_FOLDER, raising=False)
    session = Session(Options(add=True))
    train(session, Job(tmp_path))
    session.finish()
    assert "registry: recorded observation" in capsys.readouterr().err
    assert len(open_registry(tmp_path / "own").query("from observations").rows()) == 1
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_recording_that_nothing_here_can_add_is_kept_as_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(*_: Any) -> None:
        raise ModuleNotFoundError("No module named 'pydantic_core'")

    monkeypatch.setattr("registry.store.add.add_submissions", lack)
    monkeypatch.delenv(RECORD_FOLDER, raising=False)
    session = Session(Options(add=True))
    train(session, Job(tmp_path))
    session.finish()
    said = capsys.readouterr().err
    assert "the record was not added: ModuleNotFoundError" in said
    (path,) = (tmp_path / "out").glob("*.json")
    assert json.loads(path.read_text()) == session.submission
    assert f"add it with: registry add {path}" in said


def test_a_failure_of_the_recorder_is_one_warning(tmp_path: Path) -> None:
    class Broken(Job):
        def read_configuration(self, parameters: Parameters) -> Any:
            raise RuntimeError(f"not today, {parameters.n_params} parameters")

    session = Session(Options(out=tmp_path / "record.json"))
    session.attach(Broken(tmp_path))
    with pytest.warns(
        RuntimeWarning, match="recorder stopped.*RuntimeError: not today, 32 parameters"
    ):
        session.begin_train()
    session.end_step(1)
    session.finish()
    assert session.submission is None


@dataclass
class Fields:
    """A batch of a framework that has a class for it."""

    ids: Tensor
    attention_mask: Tensor


class Named(NamedTuple):
    """Another such batch."""

    ids: Tensor
    attention_mask: Tensor


@dataclass
class Settings:
    """What a model may be called with beside a batch."""

    dropout: float = 0.1


SETTINGS = Settings()


@pytest.mark.parametrize(
    ("inputs", "expected", "found"),
    [
        (batch(2, 16), None, (32, 2)),
        (batch(2, 16, 20), None, (20, 2)),
        (batch(1, 64), 4, (64, 4)),
        (batch(8, 16), 4, (128, 4)),
        ((Tensor((3, 5)), Tensor((3, 5))), None, (15, 3)),
        ({"inputs_embeds": Tensor((2, 7, 9), is_float=True)}, None, (14, 2)),
        ({"chosen_input_ids": Tensor((2, 7))}, None, (14, 2)),
        ({"pixel_values": Tensor((2, 3, 8, 8), is_float=True)}, None, (None, None)),
        (
            {"input_values": Tensor((3, 800), is_float=True), "labels": Tensor((3, 6))},
            2,
            (None, 3),
        ),
        (
            {"pixel_values": Tensor((2, 3, 8, 8), is_float=True), "labels": Tensor((2,))},
            2,
            (None, 2),
        ),
        ((), None, (None, None)),
        (merge_arguments((Tensor((3, 5)),), {"chunk_size": 128}), None, (15, 3)),
        (merge_arguments((), batch(2, 16)), None, (32, 2)),
        (merge_arguments((batch(2, 16),), {"use_cache": False}), None, (32, 2)),
        (merge_arguments((Tensor((3, 5)),), None), None, (15, 3)),
        (merge_arguments(((Tensor((3, 5)), Tensor((3, 5))),), None), None, (15, 3)),
        (merge_arguments((Fields(Tensor((3, 5)), Tensor((3, 5), 11)),), None), None, (11, 3)),
        (merge_arguments((Named(Tensor((3, 5)), Tensor((3, 5), 11)),), None), None, (11, 3)),
        (merge_arguments((Tensor((3, 5)), SETTINGS), None), None, (15, 3)),
        (merge_arguments((), {"batch": Fields(Tensor((3, 5)), Tensor((3, 5), 11))}), None, (11, 3)),
        (merge_arguments((), {"batch": batch(2, 16), "use_cache": False}), None, (32, 2)),
    ],
)
def test_samples_and_tokens_of_a_batch(
    inputs: Any, expected: int | None, found: tuple[int | None, int | None]
) -> None:
    batches = Batches()
    batches.add(inputs, expected)
    assert batches.take() == found


def test_labels_are_no_length_of_what_is_heard() -> None:
    batches = Batches()
    batches.add({"input_features": Tensor((2, 80, 300), is_float=True), "labels": Tensor((2, 12))})
    batches.take()
    assert (batches.read_length(), batches.sizes) == ({}, {2: 1})


def test_labels_of_tokens_laid_end_to_end_are_no_samples() -> None:
    batches = Batches()
    batches.add({"input_ids": Tensor((64,)), "labels": Tensor((64,)), "cu_seqlens": Tensor((3,))})
    assert (batches.take(), batches.sizes) == ((None, None), {})


@pytest.mark.parametrize(
    "mask",
    [
        {"attention_mask": Tensor((2, 1, 16, 16), is_float=True)},
        {"src_key_padding_mask": Tensor((2, 16), 12)},
        {"mask": Tensor((2, 16), 20, dtype="torch.bool")},
    ],
)
def test_a_mask_that_hides_in_its_own_way_leaves_tokens_open(mask: dict[str, Tensor]) -> None:
    batches = Batches()
    batches.add({**batch(), **mask})
    assert batches.take() == (None, 2)
    assert batches.read_length() == {"seq_len": 16}


def test_a_mask_over_embeddings_is_one_over_positions() -> None:
    batches = Batches()
    embedded = Tensor((2, 16, 8), is_float=True)
    batches.add({"inputs_embeds": embedded, "attention_mask": Tensor((2, 16), 20)})
    assert batches.take() == (20, 2)


def test_flat_batches_have_the_length_that_the_job_allows() -> None:
    batches = Batches()
    batches.add(batch(1, 240), 4)
    batches.take()
    assert batches.read_length(64) == {
        "padding_free": True,
        "seq_len": 64,
        "length_distribution": "variable",
    }


@pytest.mark.parametrize("visible", [None, 16])
def test_the_sample_that_is_left_at_the_end_of_the_data_is_one_sample(visible: int | None) -> None:
    batches = Batches()
    for _ in range(2):
        batches.add(batch(4, 16), 4)
    batches.add(batch(1, 16, visible), 4)
    assert batches.take() == (144, 9)
    assert batches.read_length() == {"seq_len": 16, "length_distribution": "full"}


def test_a_row_with_a_mask_over_it_is_one_sample() -> None:
    batches = Batches()
    batches.add(batch(1, 16, 12), 4)
    assert batches.take() == (12, 1)
    assert batches.read_length() == {"seq_len": 16, "length_distribution": "variable"}
