"""PaddleNLP on lines of trainings that others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.importers import ImportOptions
from registry.importers.paddlenlp import read_paddle_arguments, state_paddle_settings
from registry.importers.paddlenlp_figures import is_paddle_step, read_paddle_lines
from registry.importers.shared.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Read = Callable[..., Imported]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "qwen2.5-0.5b", "method": "full"}
#: The first evaluation of ``finetune.log``.
EVALUATION = "eval_loss: 4.162437438964844, eval_accuracy: 0.54375, eval_runtime: 1.7027"
LORA = {
    "bf16": "True", "fine_tuning": "None", "lora": "True", "lora_rank": "8", "max_length": "4096",
    "model_name_or_path": "Qwen/Qwen2.5-0.5B", "num_train_epochs": "3.0", "max_steps": "-1",
    "optim": "OptimizerNames.ADAMW", "pipeline_parallel_degree": "1", "recompute": "True",
    "rslora": "False", "sharding": "[<ShardingOption.FULL_SHARD: 'stage3'>]",
    "tensor_parallel_degree": "2", "use_flash_attention": "True", "world_size": "8",
    "weight_quantize_algo": "nf4", "qlora_weight_double_quant": "True", "zero_padding": "False",
    "prefix_tuning": "False", "reft": "False",
}  # fmt: skip


@pytest.fixture
def logs(fixtures: Path) -> Path:
    return fixtures / "paddlenlp"


@pytest.fixture
def edited(logs: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a log of the fixtures with some of its text replaced, up to a text."""

    def edit(name: str, *pairs: tuple[str, str], end: str | None = None) -> Path:
        text = (logs / name).read_text(encoding="utf-8")
        for before, after in pairs:
            assert before in text
            text = text.replace(before, after)
        place = tmp_path / "run.log"
        place.write_text(text.partition(end)[0] if end else text, encoding="utf-8")
        return place

    return edit


def _configuration(arguments: dict[str, str]) -> dict[str, Any]:
    lines = [f"[2025-05-07] [   DEBUG] - {name:30}: {arguments[name]}" for name in arguments]
    draft = Draft()
    state_paddle_settings(draft, read_paddle_arguments(lines), lines, ImportOptions())
    return draft.configuration


def test_the_arguments_and_the_start_say_what_was_trained(logs: Path, observe: Observe) -> None:
    (run,) = observe(logs / "finetune.log", **STATED)
    assert run["configuration"] == {
        **STATED, "n_gpus": 1, "seq_len": 320, "micro_batch_size": 8, "grad_accum_steps": 1,
        "global_batch_size": 8, "optimizer": "adamw", "n_samples": 160, "n_epochs": 50,
    }  # fmt: skip
    assert run["model_reported"] == "ernie-3.0-base-zh"
    assert run["environment"]["framework"] == "paddlenlp"


def test_a_step_takes_its_share_of_the_interval(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "finetune.log", **STATED)
    step = figure(run, "step_time")  # neither 0.31165 of the start, nor 1.29782 with an evaluation
    assert step["value"] == pytest.approx(0.19374)
    assert step["high"] - step["low"] == pytest.approx(0.0001 / 10)
    assert step["reason"] == (
        "interval_runtime / its steps; of 12 lines, 2 left out: with the start, or with what was "
        "evaluated or saved"
    )


@pytest.mark.parametrize("left", [EVALUATION, "Saving model checkpoint to ./checkpoints/checkpoint-100"])  # fmt: skip # noqa: E501
def test_an_evaluation_or_a_checkpoint_alone_sets_a_line_apart(
    edited: Callable[..., Path], left: str
) -> None:
    lines = edited("finetune.log", (left, "something else")).read_text(encoding="utf-8")
    mixed = [line.step for line in read_paddle_lines(lines.splitlines()) if line.is_mixed]
    assert mixed == [10, 110]


def test_a_line_after_some_that_are_left_out_has_the_steps_of_its_rate(logs: Path) -> None:
    lines = read_paddle_lines((logs / "finetune.log").read_text(encoding="utf-8").splitlines())
    after = next(line for line in lines if line.step == 690)
    assert after.steps == 10  # 690 - 120 are those since the line before


def test_steps_are_those_since_the_line_before_where_a_rate_is_too_coarse(
    edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    slow = ("0.1491, interval_samples_per_second: 214.5962589716409, interval_steps_per_second: "
            "6.706133092863778")  # fmt: skip
    log = edited("excerpt.log", (slow, "8000.5, interval_steps_per_second: 0.0"), end="[2024-03-03 18:06:33,849")  # fmt: skip # noqa: E501
    (run,) = observe(log, **STATED)
    assert figure(run, "step_time")["value"] == 8000.5


def test_steps_are_those_that_were_done_not_those_that_were_planned(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "finetune.log", **STATED)
    assert run["outcome"] == "ok"
    assert figure(run, "n_steps")["value"] == 700
    assert figure(run, "total_time")["value"] == 218.7685
    assert figure(run, "train_loss")["value"] == 0.11297184806328785
    measured = {row["metric"] for row in run["measurements"]}
    assert measured == {"step_time", "n_steps", "total_time", "train_loss", "eval_time"}


def test_evaluations_within_the_training_are_told(
    logs: Path, edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "finetune.log", **STATED)
    assert run["flags"] == ["includes_evaluation"]
    assert figure(run, "eval_time")["value"] == pytest.approx(1.7027 + 1.8136)
    log = edited("finetune.log", ("train_loss: 0.11297184806328785, epoch: 35.0", EVALUATION))
    (after,) = observe(log, **STATED)  # one more behind the end, which is not of the training
    assert figure(after, "eval_time")["value"] == pytest.approx(1.7027 + 1.8136)


def test_memory_is_in_units_of_two_to_the_thirtieth(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "memory.log", **STATED)
    allocated = figure(run, "peak_memory", kind="allocated")
    assert allocated["value"] == 12.307440280914307 * 2**30
    assert allocated["device_index"] == 0
    assert figure(run, "peak_memory", kind="reserved")["value"] == 12.4834623336792 * 2**30


def test_memory_of_the_gpu_is_in_whole_mebibytes_rounded_down(
    edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    pairs = [
        (f" max_memory_{kind}: {old}", f" gpu_max_memory_{kind}: {new}")
        for kind, old, new in (
            ("allocated", "7.549170255661011", "7730"),
            ("reserved", "7.753237724304199", "7939"),
            ("allocated", "12.307440280914307", "12602"),
            ("reserved", "12.4834623336792", "12783"),
        )
    ]
    (run,) = observe(edited("memory.log", *pairs), **STATED)
    peak = figure(run, "peak_memory", kind="reserved")
    assert (peak["low"], peak["high"]) == (12783 * 2**20, 12784 * 2**20)


def test_memory_is_that_of_the_process_which_prints(
    edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    said = "[    INFO] - process_index                 : 3\n[    INFO] - loss: 12.0635252"
    log = edited("memory.log", ("[    INFO] - loss: 12.0635252", said))
    (run,) = observe(log, **STATED)
    assert figure(run, "peak_memory", kind="allocated")["device_index"] == 3


def test_tokens_are_of_a_device(logs: Path, observe: Observe, figure: Figure) -> None:
    (run,) = observe(logs / "memory.log", **STATED)
    rate = figure(run, "tokens_per_second")
    assert (rate["value"], rate["scope"]) == (4006.9441, "per_gpu")
    assert rate["reason"] == "of 1 lines; samples at their full length, per device"


@pytest.mark.parametrize(("name", "batch"), [("memory.log", 1), ("excerpt.log", None)])
def test_rates_tell_the_batch_where_they_are_of_2024_or_later(
    logs: Path, observe: Observe, name: str, batch: int | None
) -> None:
    (run,) = observe(logs / name, **STATED)
    assert run["configuration"].get("global_batch_size") == batch


def test_a_log_without_its_end_leaves_the_outcome_open(
    edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    (run,) = observe(edited("finetune.log", end="[2022-08-31 16:15:52,315]"), **STATED)
    assert (run["outcome"], run["outcome_detail"]) == ("unknown", "the log ends at step 690 of 1000")  # fmt: skip # noqa: E501
    assert figure(run, "train_loss")["statistic"] == "last"


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("Out of memory error on GPU 0. Cannot allocate 15.503906GB memory on GPU 0", "oom"),
        ("KeyboardInterrupt", "interrupted"),
    ],
)
def test_what_a_log_ends_with_is_the_outcome(
    edited: Callable[..., Path], observe: Observe, said: str, outcome: str
) -> None:
    log = edited("finetune.log", end="[2022-08-31 16:15:52,315]")
    log.write_text(f"{log.read_text(encoding='utf-8')}{said}\n", encoding="utf-8")
    (run,) = observe(log, **STATED)
    assert (run["outcome"], run["outcome_detail"]) == (outcome, said)


def test_a_run_that_goes_on_counts_its_own_steps(
    edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    start = "[    INFO] -   Total num train samples = 8000"
    goes_on = f"{start}\n[2022-08-31 16:12:24,964] [    INFO] -   Continuing training from global step 5"  # fmt: skip # noqa: E501
    (run,) = observe(edited("finetune.log", (start, goes_on)), **STATED)
    assert figure(run, "n_steps")["value"] == 695
    assert "resumed" in run["flags"]
    assert figure(run, "train_loss")["value"] == 2.57e-06


def test_the_first_line_of_a_run_that_goes_on_is_of_its_start(logs: Path) -> None:
    lines = (logs / "finetune.log").read_text(encoding="utf-8").splitlines()
    later = next(line for line in lines if "global_step: 120," in line)
    assert not read_paddle_lines([later])[0].is_mixed
    assert read_paddle_lines(["[    INFO] - ***** Running training *****", later])[0].is_mixed


def test_a_run_that_goes_on_and_fails_does_so_in_a_step_of_the_whole(
    edited: Callable[..., Path], observe: Observe
) -> None:
    goes_on = "Continuing training from global step 5"
    log = edited("finetune.log", ("Total num train samples = 8000", goes_on), end="[2022-08-31 16:15:52,315]")  # fmt: skip # noqa: E501
    log.write_text(f"{log.read_text(encoding='utf-8')}Out of memory error on GPU 0.\n", "utf-8")
    (run,) = observe(log, **STATED)
    assert run["failed_step"] == 691


def test_lines_that_do_not_tell_their_steps_have_no_time(tmp_path: Path, read: Read) -> None:
    line = "[    INFO] - loss: 0.5, learning_rate: 1e-05, global_step: 30, interval_runtime: 2.0"
    (tmp_path / "run.log").write_text(line, encoding="utf-8")
    found = read(tmp_path, **STATED)
    assert "run.log: no time of a step: the lines do not tell how many steps they are of" in (
        found.missing
    )
    (run,) = found.submissions[0]["observations"]
    assert {row["metric"] for row in run["measurements"]} == {"n_steps", "train_loss"}


def test_lines_without_a_rate_have_the_steps_since_the_line_before() -> None:
    said = [f"loss: 0.5, global_step: {step}, interval_runtime: 2.0" for step in (30, 34)]
    assert [line.steps for line in read_paddle_lines(said)] == [None, 4]


def test_one_line_is_a_short_run(
    edited: Callable[..., Path], observe: Observe, figure: Figure
) -> None:
    (run,) = observe(edited("finetune.log", end="[2022-08-31 16:12:30"), **STATED)
    assert figure(run, "step_time")["value"] == pytest.approx(0.31165)
    assert run["flags"] == ["short_run"]


def test_two_runs_in_one_file_are_refused(logs: Path, tmp_path: Path, read: Read) -> None:
    text = (logs / "excerpt.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(text + text, encoding="utf-8")
    (refusal,) = read(tmp_path, **STATED).refused
    assert "its steps go back from 6 to 1: several runs, or a restart" in refusal.reason


@pytest.mark.parametrize(
    "line",
    [
        "[    INFO] - loss: 0.5, learning_rate: 1e-05, global_step: ten, interval_runtime: 3.1165",
        "[    INFO] - loss: 0.5, learning_rate: 1e-05, global_step: 10, interval_runtime: nan",
        "[    INFO] - eval_loss: 0.5, eval_runtime: 1.7027, eval_steps_per_second: 2.937",
    ],
)
def test_what_has_no_steps_and_no_seconds_is_no_line_of_steps(line: str) -> None:
    assert not is_paddle_step(line)


def test_a_loss_that_is_no_number_is_left_out(
    edited: Callable[..., Path], observe: Observe
) -> None:
    (run,) = observe(edited("memory.log", ("12.05887604", "nan")), **STATED)
    assert "train_loss" not in {row["metric"] for row in run["measurements"]}


def test_arguments_of_adapters_are_read() -> None:
    assert _configuration(LORA) == {
        "method": "lora", "lora_rank": 8, "use_rslora": False,
        "quant_bits": 4, "quant_type": "nf4", "double_quant": True, "seq_len": 4096,
        "packing": False, "n_gpus": 8, "tensor_parallel": 2, "n_epochs": 3, "compute_dtype": "bf16",
        "gradient_checkpointing": True, "optimizer": "adamw", "sharding": "zero3",
        "attention": "flash",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "method"),
    [
        ({"lora": "False", "prefix_tuning": "False"}, "full"),
        ({"lora": "False", "prefix_tuning": "True"}, None),
        ({"fine_tuning": "Full"}, "full"),
        ({"fine_tuning": "LoRA"}, "lora"),
        ({"lora": "True", "lokr": "True"}, None),
        ({}, None),
    ],
)
def test_all_weights_are_trained_only_where_no_adapter_is(
    said: dict[str, str], method: str | None
) -> None:
    assert _configuration(said).get("method") == method


def test_what_an_evaluation_prints_again_is_not_of_the_training() -> None:
    said = ["Num examples = 1000", "Total optimization steps = 1,250", "Num examples = 20"]
    draft = Draft()
    lines = [f"[2024-08-28 18:06:28,191] [    INFO] -   {text}" for text in said]
    assert state_paddle_settings(draft, {}, lines, ImportOptions()) == 1250
    assert draft.configuration == {"n_samples": 1000}


def test_arguments_that_are_printed_again_are_those_of_the_first_time() -> None:
    lines = [f"[    INFO] - max_length                    : {length}" for length in (320, 512)]
    assert read_paddle_arguments(lines) == {"max_length": "320"}


def test_lengths_that_differ_are_left_open() -> None:
    assert "seq_len" not in _configuration({"max_seq_length": "320", "max_length": "512"})


@pytest.mark.parametrize(("steps", "epochs"), [("-1", 3), ("500", None)])
def test_epochs_count_where_no_steps_are_set(steps: str, epochs: int | None) -> None:
    said = _configuration({"max_steps": steps, "num_train_epochs": "3.0"})
    assert said.get("n_epochs") == epochs


def test_a_training_on_the_processor_says_so() -> None:
    assert _configuration({"device": "cpu"})["gpu_id"] == "cpu"


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[32m[2022-08-31 16:12:24,959] [    INFO] - max_seq_length                :320\x1b[0m",
        "\x1b[35m[2025-05-07 16:12:24,959] [   DEBUG]\x1b[0m - max_seq_length               : 320",
    ],
)
def test_arguments_within_colours_are_read(line: str) -> None:
    assert read_paddle_arguments([line]) == {"max_seq_length": "320"}


@pytest.mark.parametrize(
    ("said", "column", "word"),
    [
        ("[<ShardingOption.SHARD_OP: 'stage1'>]", "sharding", "zero1"),
        ("stage2 offload", "offload", "stated"),
        ("", "sharding", None),
        ("stage1", "offload", None),
    ],
)
def test_how_states_are_spread_is_read(said: str, column: str, word: str | None) -> None:
    assert _configuration({"sharding": said}).get(column) == word


def test_a_log_of_erniekit_has_other_names(logs: Path, observe: Observe, figure: Figure) -> None:
    (run,) = observe(logs / "ernie.log", **STATED)
    assert run["environment"]["framework"] == "erniekit"
    assert figure(run, "step_time")["value"] == 104.8954
    assert figure(run, "peak_memory", kind="allocated")["value"] == 19.670876 * 2**30
    assert figure(run, "peak_memory", kind="reserved")["value"] == 45.060626 * 2**30
    assert run["flags"] == ["short_run"]
