"""verl: the line of figures that its trainers print after each step, and what they print first.

A step of reinforcement learning generates responses, scores them and updates the model, mostly
several times: its time, and its tokens (of one GPU on average, ``compute_throughput_metrics``), are
of all that. A step of fine-tuning is one update. Memory is the most that PyTorch's allocator held
so far, in 2^30 bytes, of the fullest worker (``reduce_metrics`` takes the largest of what has "max"
in its name). Weights and optimizer are moved to the host between the phases of a step
(``param_offload``) and are back in an update: that is no offload.
"""

from __future__ import annotations

import re
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import (
    LogImporter,
    parse_literal,
    plain_lines,
    state_end,
    validate_growing,
)
from registry.importers.shared.readings import (
    GIBIBYTE,
    choose_timed,
    figures_by_name,
    first_values,
)
from registry.importers.shared.shapes import count_of, number_of, whole_of
from registry.importers.shared.training_arguments import target_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.importers.base import ImportOptions, RunFile

#: What Ray puts before each line of a worker.
_WORKER: Final = re.compile(r"^ {0,4}\([\w ]{1,60} pid=\d{1,9}(?:, ip=[\d.:a-f]{1,40})?\) ?")
_STEP: Final = re.compile(r"^ {0,8}step:(?P<step>\d{1,12}) - ")
_FIGURE: Final = re.compile(
    r" - (?P<name>[a-z][\w/@().%-]{0,80}):(?:np\.float\d\d\()?"
    r"(?P<value>-?\d[\d.]{0,30}(?:e[+-]?\d{1,4})?)(?=\)| |$)"
)
#: Figures that the line of a step of training has, and no other.
_TRAINED: Final = ("timing_s/step", "perf/time_per_step", "train/loss", "actor/pg_loss")
#: A setting of the command, such as `trainer.nnodes=1`.
_SETTING: Final = re.compile(
    r"(?<![\w.])(?P<name>(?:data|actor_rollout_ref|algorithm|trainer|model|engine)"
    r"(?:\.\w{1,60}){1,6})=(?P<value>[^\s'\"]{1,300})"
)
_RANKS: Final = re.compile(r"Using FSDP rank \d{1,6} and size (?P<n>\d{1,6}) for data")
_PLANNED: Final = re.compile(
    r"(?:Total training steps: |total number of steps |Training Progress: .{0,60}?\d{1,9}/)"
    r"(?P<n>\d{1,9})"
)
#: Lines and characters that a printed configuration has at most, and texts that are tried as one.
_MOST_LINES, _MOST_CHARACTERS, _MOST_TRIES = 2_000, 500_000, 20

_OBJECTIVES: Final = {"grpo": "grpo", "gae": "ppo"}
_MODEL: Final = ("actor_rollout_ref.model.path", "model.path", "model.partial_pretrain")
_KINDS: Final = ("allocated", "reserved")


class VerlImporter(LogImporter):
    """Reads a console log of verl."""

    name = "verl"
    what = "a verl log"
    expects = (
        "a console log with lines such as `step:1 - actor/pg_loss:0.01 - "
        "perf/max_memory_allocated_gb:18.92 - timing_s/step:48.7 - perf/throughput:3283.3`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize lines of a step with figures that verl names."""
        return any(_is_trained(found) for _, found in _steps(lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        lines = [_WORKER.sub("", line) for line in plain_lines(log.document)]
        steps = [(step, found) for step, found in _steps(lines) if _is_trained(found)]
        validate_growing(step for step, _ in steps)
        draft = Draft(environment={"framework": "verl"})
        settings = _read_settings(lines)
        state_model(draft, [settings[name] for name in _MODEL if settings.get(name)], options)
        reinforces = any("timing_s/step" in found for _, found in steps) or any(
            name.startswith("actor_rollout_ref.") for name in settings
        )
        if reinforces:
            _state_reinforcement(draft, settings)
        else:
            _state_fine_tuning(draft, settings, lines)
        draft.lacks |= {"gpu_id": "no card", "n_gpus": "no count of cards"}
        _measure(draft, [found for _, found in steps], reinforces=reinforces)
        _state_end(draft, lines, steps[-1][0])
        draft.cite(log)
        return draft


def _steps(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the steps with their figures; lines of one step that follow each other are one."""
    number, found = -1, dict[str, float]()
    for line in plain_lines(line for line in lines if "step:" in line):
        text = _WORKER.sub("", line)
        if match := _STEP.match(text):
            if int(match["step"]) != number and found:
                yield number, found
                found = {}
            number = int(match["step"])
            found = {**found, **figures_by_name(_FIGURE, text)}
    if found:
        yield number, found


def _is_trained(found: dict[str, float]) -> bool:
    return any(name in found for name in _TRAINED)


def _read_settings(lines: Sequence[str]) -> dict[str, Any]:
    """Return the settings by their dotted names: those that are printed, else the command's."""
    first = next((at for at, line in enumerate(lines) if _STEP.match(line)), len(lines))
    said = first_values(_SETTING, lines[:first])
    return {**said, **_flatten(_printed_config(lines[:first]))}


def _printed_config(lines: Sequence[str]) -> dict[str, Any]:
    """Return the configuration as a trainer prints it, on one line or on many; {} for none."""
    begun = (at for at, line in enumerate(lines) if line.lstrip().startswith("{'"))
    for at in islice(begun, _MOST_TRIES):
        depth, end = 0, at
        for line in islice(lines, at, at + _MOST_LINES):
            depth += line.count("{") - line.count("}")
            end += 1
            if depth <= 0:
                break
        text = "\n".join(lines[at:end]).strip()
        if len(text) > _MOST_CHARACTERS:  # Python's parser takes 400 bytes a character
            continue
        found = parse_literal(text)
        if isinstance(found, dict) and isinstance(found.get("trainer"), dict):
            return found
    return {}


def _flatten(config: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{before}{key}"
        flat |= _flatten(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


def _count(settings: dict[str, Any], *names: str) -> int | None:
    """Return the first of some settings that is a count."""
    values = (settings.get(name) for name in names)
    return next(filter(None, (count_of(value) or whole_of(value) for value in values)), None)


def _is_on(settings: dict[str, Any], name: str) -> bool | None:
    """Return whether a setting is on, as Python or YAML writes it; None where nothing is said."""
    return {"true": True, "false": False}.get(str(settings.get(name)).lower())


def _state_reinforcement(draft: Draft, settings: dict[str, Any]) -> None:
    estimator = settings.get("algorithm.adv_estimator")
    draft.state("objective", _OBJECTIVES.get(str(estimator)))
    draft.lacks["objective"] = "no objective"
    actor, model = "actor_rollout_ref.actor", "actor_rollout_ref.model"
    _state_adapters(draft, settings, model)
    _state_sharding(draft, settings.get(f"{actor}.strategy"))
    lengths = [_count(settings, f"data.max_{part}_length") for part in ("prompt", "response")]
    if None not in lengths:
        draft.state("seq_len", sum(filter(None, lengths)), "longest prompt and longest response")
    draft.state("length_distribution", "variable", "responses are as long as the model makes them")
    if not _is_on(settings, f"{actor}.use_dynamic_bsz"):
        draft.state("micro_batch_size", _count(settings, f"{actor}.ppo_micro_batch_size_per_gpu"))
    sequences = (
        f"{actor}.ulysses_sequence_parallel_size",
        f"{actor}.megatron.context_parallel_size",
    )
    _state_parallel(draft, _count(settings, *sequences), settings, f"{actor}.megatron")
    nodes, each = (_count(settings, f"trainer.{name}") for name in ("nnodes", "n_gpus_per_node"))
    draft.state("n_nodes", nodes)
    if nodes and each:
        draft.state("n_gpus", nodes * each, "nnodes times n_gpus_per_node")
    draft.provenance |= {
        name: settings[key]
        for name, key in (
            ("adv_estimator", "algorithm.adv_estimator"),
            ("prompts_per_step", "data.train_batch_size"),
            ("prompts_per_update", f"{actor}.ppo_mini_batch_size"),
            ("responses_per_prompt", "actor_rollout_ref.rollout.n"),
            ("inference_engine", "actor_rollout_ref.rollout.name"),
            ("gpu_memory_utilization", "actor_rollout_ref.rollout.gpu_memory_utilization"),
        )
        if settings.get(key) is not None
    }


def _state_fine_tuning(draft: Draft, settings: dict[str, Any], lines: Sequence[str]) -> None:
    draft.state("objective", "sft", "the trainer of supervised fine-tuning wrote the log")
    _state_adapters(draft, settings, "model")
    _state_sharding(draft, settings.get("engine.strategy") or settings.get("model.strategy"))
    draft.state("seq_len", _count(settings, "data.max_length"))
    if not _is_on(settings, "data.use_dynamic_bsz"):
        draft.state("micro_batch_size", _count(settings, "data.micro_batch_size_per_gpu"))
    sequences = ("engine.ulysses_sequence_parallel_size", "ulysses_sequence_parallel_size")
    _state_parallel(draft, _count(settings, *sequences), settings, "engine")
    # torchrun decides how many there are, whatever the configuration says
    ranks = next((found for line in lines if (found := _RANKS.search(line))), None)
    draft.state("n_gpus", int(ranks["n"]) if ranks else None)


def _state_adapters(draft: Draft, settings: dict[str, Any], model: str) -> None:
    rank = settings.get(f"{model}.lora_rank")
    if _count(settings, f"{model}.lora_rank"):
        draft.state("method", "lora")
        draft.state("lora_rank", _count(settings, f"{model}.lora_rank"))
        draft.state("lora_alpha", number_of(settings.get(f"{model}.lora_alpha")))
        draft.state("lora_target_modules", target_modules(settings.get(f"{model}.target_modules")))
    elif rank is not None:
        draft.state("method", "full", "lora_rank is 0")
    draft.state(
        "gradient_checkpointing", _is_on(settings, f"{model}.enable_gradient_checkpointing")
    )
    draft.state("padding_free", _is_on(settings, f"{model}.use_remove_padding") or None)
    draft.state("kernels", ["liger"] if _is_on(settings, f"{model}.use_liger") else None)


def _state_sharding(draft: Draft, strategy: Any) -> None:
    if str(strategy) in ("fsdp", "fsdp2"):
        draft.state("sharding", "fsdp", f"strategy {strategy}")


def _state_parallel(
    draft: Draft, sequences: int | None, settings: dict[str, Any], megatron: str
) -> None:
    for column, n in (
        ("context_parallel", sequences),
        ("tensor_parallel", _count(settings, f"{megatron}.tensor_model_parallel_size")),
        ("pipeline_parallel", _count(settings, f"{megatron}.pipeline_model_parallel_size")),
        ("expert_parallel", _count(settings, f"{megatron}.expert_model_parallel_size")),
    ):
        draft.state(column, n if n and n > 1 else None)


def _state_end(draft: Draft, lines: Sequence[str], last: int) -> None:
    planned = next((int(found["n"]) for line in lines if (found := _PLANNED.search(line))), None)
    ends = f"the log ends at step {last}" + (f" of {planned}" if planned else "")
    state_end(draft, lines, _STEP.match, None if last == planned else ends)


def _measure(draft: Draft, steps: Sequence[dict[str, float]], *, reinforces: bool) -> None:
    """Add speeds in the middle of steps after the first, the largest memory, and what adds up."""
    timed, said = choose_timed(draft, steps, steps[1:])
    whole = "; of generation, scores and updates" if reinforces else ""
    for metric, names, columns in (
        ("step_time", ("timing_s/step", "perf/time_per_step", "train/time(s)"), {}),
        ("tokens_per_second", ("perf/throughput",), {"scope": "mean_gpu"}),
    ):
        name = next((one for one in names if any(one in step for step in timed)), None)
        values = [step[name] for step in timed if name in step] if name else []
        if values:
            reason = f"{name}, {said}{whole}"
            draft.measure(metric, median(values), statistic="median", reason=reason, **columns)
    for kind in _KINDS:
        name = f"perf/max_memory_{kind}_gb"
        peak = max(
            (value for step in steps for key, value in step.items() if key.endswith(name)),
            default=None,
        )
        if peak is not None:
            draft.measure(
                "peak_memory",
                peak * GIBIBYTE,
                kind=kind,
                scope="max_gpu",
                unit_reported="GB",
                reading="GiB",
                reason="the producer divides by 2^30; largest entry, of the fullest worker",
            )
    draft.measure("n_steps", len(steps))
    for name in ("perf/total_num_tokens", "train/global_tokens"):
        if all(name in step for step in steps):
            draft.measure("n_tokens", sum(step[name] for step in steps))
    draft.measure("train_loss", steps[-1].get("train/loss"), statistic="last")
    draft.note_lack("peak_memory", "no memory")
    draft.note_lack("step_time", "no time of a step")
