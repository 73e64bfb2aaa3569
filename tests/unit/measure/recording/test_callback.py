"""The recorder in a real training, against an independent stopwatch and the kernel's figures."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.measure import trainer_callback
from registry.measure.recording.session import Session
from registry.submission.prepare import prepare_submission

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

# Warnings of torch and transformers about each other are not ours to fix.
pytestmark = pytest.mark.filterwarnings("ignore")

TrainerCallback: Any = transformers.TrainerCallback
Dataset: Any = torch.utils.data.Dataset
AdamW: Any = torch.optim.AdamW

CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})
SEQ_LEN, VOCABULARY = 32, 128

torch.set_num_threads(1)  # tiny matrices: more threads only wait for each other


class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """Times steps by itself, from end to end."""

    def __init__(self) -> None:
        self.borders: list[float] = []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.borders.append(time.perf_counter())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.borders.append(time.perf_counter())

    @property
    def seconds(self) -> list[float]:
        return [b - a for a, b in zip(self.borders, self.borders[1:], strict=False)]


class Tokens(Dataset):  # type: ignore[misc]
    """Sequences of one length, or of several."""

    def __init__(self, *, is_padded: bool = False) -> None:
        self.is_padded = is_padded

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = torch.full((SEQ_LEN,), index % VOCABULARY)
        mask = torch.ones_like(ids)
        if self.is_padded:
            mask[SEQ_LEN // 2 :] = 0
        return {"input_ids": ids, "labels": ids, "attention_mask": mask}


def make_model() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    return transformers.AutoModelForCausalLM.from_config(config)


def make_trainer(folder: Path, *callbacks: Any, **arguments: Any) -> Any:
    model = arguments.pop("model", None) or make_model()
    dataset = arguments.pop("dataset", None) or Tokens()
    stated = {
        "output_dir": str(folder / "out"),
        "max_steps": 8,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "logging_steps": 1,
        "dataloader_pin_memory": False,
    }
    return transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(**{**stated, **arguments}),
        train_dataset=dataset,
        eval_dataset=Tokens() if "eval_strategy" in arguments else None,
        callbacks=list(callbacks),
    )


def observation_of(callback: Any) -> dict[str, Any]:
    document = prepare_submission(callback.submission, CATALOGUE, origin="run").document
    row: dict[str, Any] = document["observations"][0]
    return row


def figure(observation: dict[str, Any], metric: str, statistic: str = "value") -> float:
    return next(
        float(row["value"])
        for row in observation["measurements"]
        if (row["metric"], row["statistic"]) == (metric, statistic) and row["scope"] == "total"
    )


def test_step_times_agree_with_a_stopwatch(tmp_path: Path) -> None:
    before, after = Stopwatch(), Stopwatch()
    callback = trainer_callback(out=tmp_path / "record.json")
    make_trainer(tmp_path, before, callback, after).train()
    observation = observation_of(callback)
    recorded = [row["seconds"] for row in observation["samples"]]
    assert len(recorded) == 8
    for number, seconds in enumerate(recorded):
        shortest = before.borders[number + 1] - after.borders[number]
        assert shortest <= seconds <= after.borders[number + 1] - before.borders[number]
    assert figure(observation, "step_time", "median") == statistics.median(recorded[2:])
    assert [row["warmup"] for row in observation["samples"]] == [True] * 2 + [False] * 6


def test_tokens_samples_and_loss_are_counted(tmp_path: Path) -> None:
    callback = trainer_callback(out=tmp_path / "record.json")
    make_trainer(tmp_path, callback).train()
    observation = observation_of(callback)
    assert {row["tokens"] for row in observation["samples"]} == {2 * 2 * SEQ_LEN}
    assert {row["samples"] for row in observation["samples"]} == {4}
    assert all(row["loss"] > 0 for row in observation["samples"])
    assert observation["configuration"]["length_distribution"] == "full"
    assert observation["configuration"]["seq_len"] == SEQ_LEN


def test_padding_is_no_token(tmp_path: Path) -> None:
    callback = trainer_callback(out=tmp_path / "record.json")
    make_trainer(tmp_path, callback, dataset=Tokens(is_padded=True)).train()
    observation = observation_of(callback)
    assert {row["tokens"] for row in observation["samples"]} == {2 * 2 * SEQ_LEN // 2}
    assert observation["configuration"]["length_distribution"] == "variable"


def test_the_peak_is_the_kernels_within_a_mebibyte(tmp_path: Path) -> None:
    callback = trainer_callback(out=tmp_path / "record.json")
    make_trainer(tmp_path, callback).train()
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    peak = figure(observation_of(callback), "peak_memory", "max")
    assert abs(peak - int(line.split()[1]) * 1024) < 1 << 20


def test_evaluation_and_checkpoints_are_kept_apart(tmp_path: Path) -> None:
    class Slow(TrainerCallback):  # type: ignore[misc]
        def on_prediction_step(self, *_: Any, **__: Any) -> None:
            time.sleep(0.01)

    watch, callback = Stopwatch(), trainer_callback(out=tmp_path / "record.json")
    when = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 4}
    trainer = make_trainer(tmp_path, callback, Slow(), watch, **when)
    trainer.train()
    observation = observation_of(callback)
    # 4 evaluations of 64 samples by 8: 8 waits of 10 ms each at the least.
    assert figure(observation, "eval_time") > 4 * 8 * 0.01
    assert figure(observation, "save_time") > 0
    parts = sum(figure(observation, f"{part}_time") for part in ("train", "eval", "save"))
    total = figure(observation, "total_time")
    assert total - 0.1 < parts < total  # what follows the last step is none of them
    for row, seconds in zip(observation["samples"], watch.seconds, strict=True):
        if row["step"] in (3, 5, 7):  # the evaluation lies between this step and the one before
            assert seconds - row["seconds"] > 8 * 0.01
    assert observation["flags"] == ["includes_evaluation"]


def test_predictions_in_between_are_no_part_of_a_step(tmp_path: Path) -> None:
    class Predicts(TrainerCallback):  # type: ignore[misc]
        seconds = 0.0

        def on_step_end(self, *_: Any, **__: Any) -> None:
            began = time.perf_counter()
            trainer.predict(Tokens())
            self.seconds += time.perf_counter() - began

    predicts, recorder = Predicts(), trainer_callback(out=tmp_path / "r.json")
    trainer = make_trainer(tmp_path, recorder, predicts, max_steps=4)
    trainer.train()
    observation = observation_of(recorder)
    assert figure(observation, "eval_time") > 0.9 * predicts.seconds
    assert observation["flags"] == ["includes_evaluation", "short_run"]


def test_the_configuration_is_read_from_the_live_objects(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules="all-linear", use_rslora=True)
    model = peft.get_peft_model(make_model(), config)
    callback = trainer_callback(out=tmp_path / "record.json", weights="random")
    make_trainer(tmp_path, callback, model=model, max_steps=2, optim="sgd").train()
    found = observation_of(callback)["configuration"]
    assert found["method"] == "lora"
    assert (found["lora_rank"], found["lora_alpha"], found["use_rslora"]) == (4, 6.0, True)
    assert found["lora_target_modules"] == [
        "down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj",
    ]  # fmt: skip
    assert found["trainable_params"] == sum(
        parameter.numel() for parameter in model.parameters() if parameter.requires_grad
    )
    assert (found["optimizer"], found["weights"], found["gpu_id"]) == ("sgd", "random", "cpu")
    assert callback.submission["models"][0]["n_params"] == sum(
        parameter.numel() for parameter in make_model().parameters()
    )


class OwnOptimizer(AdamW):  # type: ignore[misc]
    """An optimizer that no argument names."""


@pytest.mark.parametrize(
    ("optim", "given", "word", "name"),
    [
        ("adamw_torch", None, "adamw_torch", "adamw_torch"),
        ("adamw_torch", torch.optim.SGD, "sgd", "SGD"),
        ("adamw_torch", torch.optim.Adam, "adam", "Adam"),
        ("adafactor", AdamW, "adamw_torch", "AdamW"),
        ("adamw_torch", OwnOptimizer, "other", "OwnOptimizer"),
        ("adafactor", None, "adafactor", "adafactor"),
    ],
)
def test_an_optimizer_that_the_trainer_was_given_is_the_one_recorded(
    optim: str, given: Any, word: str, name: str, tmp_path: Path
) -> None:
    callback = trainer_callback(out=tmp_path / "record.json")
    trainer = make_trainer(tmp_path, callback, max_steps=2, optim=optim)
    if given is not None:
        trainer.optimizer = given(trainer.model.parameters(), lr=0.01)
    trainer.train()
    observation = observation_of(callback)
    assert observation["configuration"]["optimizer"] == word
    assert observation["provenance"]["optimizer"] == name


def test_an_exception_in_the_training_is_recorded_and_raised(tmp_path: Path) -> None:
    class Fails(TrainerCallback):  # type: ignore[misc]
        def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            del args, control
            if state.global_step == 2:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")

    callback = trainer_callback(out=tmp_path / "record.json")
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        make_trainer(tmp_path, callback, Fails()).train()
    observation = observation_of(callback)
    assert (observation["outcome"], observation["failed_step"]) == ("oom", 3)
    assert observation["outcome_detail"].startswith("RuntimeError: DefaultCPUAllocator")
    assert len(observation["samples"]) == 2


class StopEarly(TrainerCallback):  # type: ignore[misc]
    """Stops as an early stopping does."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        del args
        control.should_training_stop = state.global_step == 3


def test_a_training_that_stops_early_says_so(tmp_path: Path) -> None:
    recorder = trainer_callback(out=tmp_path / "r.json")
    make_trainer(tmp_path, recorder, StopEarly(), max_steps=6).train()
    observation = observation_of(recorder)
    assert (observation["outcome"], len(observation["samples"])) == ("ok", 3)
    assert "stopped_early" in observation["flags"]
    assert "figures_disagree" not in observation["flags"]
    assert observation["provenance"]["stopped_at_step"] == 3
    assert observation["configuration"]["n_steps"] == 6


def test_a_training_that_goes_on_from_a_checkpoint_says_so(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2}
    make_trainer(tmp_path, max_steps=2, **saving).train()
    recorder = trainer_callback(out=tmp_path / "r.json")
    trainer = make_trainer(tmp_path, recorder, max_steps=6, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    observation = observation_of(recorder)
    assert [row["step"] for row in observation["samples"]] == [3, 4, 5, 6]
    assert "resumed" in observation["flags"]
    assert not {"stopped_early", "figures_disagree"} & set(observation["flags"])
    assert observation["provenance"]["resumed_from_step"] == 2


def test_a_failure_of_the_recorder_warns_once_and_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("the recorder's own fault")

    monkeypatch.setattr("registry.measure.recording.batches.Batches.take", broken)
    callback = trainer_callback(out=tmp_path / "record.json")
    with pytest.warns(RuntimeWarning) as caught:
        output = make_trainer(tmp_path, callback).train()
    ours = [each for each in caught if "recorder stopped" in str(each.message)]
    assert [str(each.message) for each in ours] == [
        (
            "the registry's recorder stopped, and the training goes on without it: "
            "ZeroDivisionError: the recorder's own fault"
        )
    ]
    assert output.global_step == 8
    assert callback.submission is None


def test_a_trainer_without_the_recorder_is_left_alone(tmp_path: Path) -> None:
    trainer_callback(out=tmp_path / "record.json")
    assert make_trainer(tmp_path, max_steps=1).train().global_step == 1
    assert not (tmp_path / "record.json").exists()


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match="warmup"):
        trainer_callback(warmup=3)


def test_sessions_begin_without_torch_objects() -> None:
    assert Session(trainer_callback().session.options).submission is None
