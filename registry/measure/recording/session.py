"""One process's recording of one training after the other: what the callback tells, and when.

Nothing here may break the job: every entry point is guarded, and the first failure ends the
recording with one warning.
"""

from __future__ import annotations

import functools
import os
import secrets
import sys
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from registry.measure.environment import (
    collect_environment,
    collect_interconnect,
    collect_provenance,
)
from registry.measure.failure import Failure, classify_failure
from registry.measure.memory_meter import DeviceSampler, Peaks, guard_resets
from registry.measure.record_files import write_json
from registry.measure.recording.batches import Batches
from registry.measure.recording.catalogue_rows import describe_gpu, describe_model
from registry.measure.recording.clock import Recording, mark_warmup
from registry.measure.recording.configuration import read_configuration, read_rank
from registry.measure.recording.loaded import cuda
from registry.measure.recording.parameters import Parameters, count_parameters
from registry.measure.recording.ranks import forfeit_part, gather_parts, merge_steps
from registry.measure.recording.record import Record, build_submission
from registry.measure.trial_settings import RECORD_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.measure.trial_settings import Options

P = ParamSpec("P")
R = TypeVar("R")


def _guarded(
    method: Callable[Concatenate[Session, P], R],
) -> Callable[Concatenate[Session, P], R | None]:
    """Make a method that warns once, and ends the recording, where it fails."""

    @functools.wraps(method)
    def wrapper(self: Session, /, *arguments: P.args, **named: P.kwargs) -> R | None:
        if self.failure is not None:
            return None
        try:
            return method(self, *arguments, **named)
        except Exception as error:  # noqa: BLE001 - the job goes on whatever the recorder meets
            self.step_aside(error)
            return None

    return wrapper


class Session:
    """Records the trainings of one process."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.failure: Exception | None = None
        self.submission: dict[str, Any] | None = None
        self.peaks = Peaks()
        self.trainer: Any = None
        self.n_runs = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.recording = Recording()
        self.batches = Batches()
        self.sampler = DeviceSampler(self.peaks, self.options.device_sample_seconds)
        self.record: Record | None = None
        self.parameters: Parameters | None = None

    def step_aside(self, error: Exception) -> None:
        """Record nothing further and say so once."""
        self.failure = error
        self.sampler.stop()
        forfeit_part(self.n_runs)
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # a warning must not become an exception of the job
            warnings.warn(
                f"the registry's recorder stepped aside, the training goes on without it: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=3,
            )

    @_guarded
    def attach(self, trainer: Any) -> None:
        """Begin with a trainer whose ``train`` was called."""
        self.trainer = trainer
        self.n_runs += 1
        self._begin_anew()
        self.peaks.rank = read_rank()[0]
        guard_resets(self.peaks)
        if trainer.model is not None:
            self.parameters = count_parameters(trainer.model)

    @_guarded
    def begin_train(self) -> None:
        """Read the configuration and start the clock."""
        if self.trainer is None:
            return
        self.record = self._describe()
        self.sampler.start()
        if self.options.memory_from == "train":
            self.peaks.restart()
        self._write(
            self._submission(Failure("interrupted", "the job ended without a word", "train"))
        )
        self.recording.begin_train()

    def _describe(self) -> Record:
        trainer = self.trainer
        model = trainer.model
        parameters = self.parameters or count_parameters(model)
        configuration = read_configuration(trainer, model, parameters)
        gpu = describe_gpu(trainer.args.device.type)
        configuration["interconnect"] = collect_interconnect(configuration["gpus_per_node"])
        if self.options.weights:
            configuration["weights"] = self.options.weights
        optimizer = str(getattr(trainer.args.optim, "value", trainer.args.optim))
        return Record(
            run_id=secrets.token_hex(8),
            observed_at=datetime.now(UTC).isoformat(timespec="seconds"),
            configuration={k: v for k, v in configuration.items() if v is not None},
            environment=collect_environment(),
            model=describe_model(model.config, parameters.n_base_params),
            gpu=gpu,
            counts={"trainable_params": parameters.n_trainable, "n_params": parameters.n_params},
            model_reported=self.options.model_reported,
            provenance={
                **collect_provenance(),
                "trainer": type(trainer).__name__,
                "optimizer": optimizer,
                "warmup_steps": self.options.warmup_steps,
                "memory_from": self.options.memory_from,
                **self.options.provenance,
            },
        )

    @_guarded
    def begin_step(self, step: int) -> None:
        """Note the begin of a step's forward pass."""
        self.recording.begin_step(step)

    @_guarded
    def count(self, inputs: Any) -> None:
        """Note a micro-batch."""
        self.batches.add(inputs)

    @_guarded
    def end_step(self, step: int) -> None:
        """Wait for the device and close a step."""
        if self.recording.train_began is None:
            return
        module = cuda()
        if module is not None and module.is_initialized():
            module.synchronize()
        self.recording.count_batch(*self.batches.take())
        now = self.peaks.observe_allocator()
        memory = {
            "memory_allocated_bytes": now.get("allocated"),
            "memory_reserved_bytes": now.get("reserved"),
            "memory_device_bytes": self.sampler.latest,
            "host_rss_bytes": self.peaks.observe_host(),
        }
        self.recording.end_step(step, memory)

    @_guarded
    def note_logs(self, step: int, logs: dict[str, Any]) -> None:
        """Note a logged loss."""
        if isinstance(logs.get("loss"), int | float):
            self.recording.note_loss(step, float(logs["loss"]))

    def apart(self, kind: str) -> AbstractContextManager[None]:
        """Return a context whose time is no training time."""
        is_training = self.recording.train_began is not None and self.recording.train_ended is None
        return self.recording.apart(kind) if is_training and not self.failure else nullcontext()

    @_guarded
    def finish(self, output: Any) -> None:
        """Complete the record of a training that ended well."""
        self.recording.end_train()
        self.sampler.stop()
        if self.record is None:
            return
        loss = getattr(output, "training_loss", None)
        if isinstance(loss, int | float):
            self.record.counts["train_loss"] = loss
        parts = gather_parts(self._part(), self.n_runs)
        if read_rank()[0] == 0:
            self._deliver(self._submission(None, parts))
        elif (path := self._path()) is not None:
            path.unlink(missing_ok=True)  # it said that the end was not known

    @_guarded
    def fail(self, error: BaseException) -> None:
        """Complete the record of a training that ended with an exception."""
        self.recording.end_train()
        self.sampler.stop()
        if self.record is None and self.trainer is not None and self.trainer.model is not None:
            self.record = self._describe()
        if self.record is not None:
            failure = classify_failure(error, training=self.recording.step_begun > 0)
            self._deliver(self._submission(failure))

    def _part(self) -> dict[str, Any]:
        self.peaks.observe_allocator()
        self.peaks.observe_host()
        steps = mark_warmup(self.recording.steps, self.options.warmup_steps)
        return {
            "rank": read_rank()[0],
            "steps": [step.as_sample() for step in steps],
            "peaks": self.peaks.rows(),
        }

    def _submission(
        self, failure: Failure | None, parts: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        assert self.record is not None  # noqa: S101 - callers have made sure
        record = self.record
        record.parts = parts or [self._part()]
        record.steps = merge_steps(record.parts)
        record.seconds = self._seconds()
        record.failure = failure
        record.failed_step = (self.recording.step_begun or None) if failure else None
        record.configuration |= self.batches.read_length(self.trainer.args)
        n_ranks = read_rank()[1]
        record.provenance.pop("ranks_missing", None)
        if parts is not None and len(record.parts) < n_ranks:
            record.provenance["ranks_missing"] = n_ranks - len(record.parts)
        for name in ("tokens", "samples"):
            record.counts[f"n_{name}"] = sum(step.get(name, 0) for step in record.steps)
        record.counts["n_steps"] = len(record.steps)
        return build_submission(record)

    def _seconds(self) -> dict[str, float]:
        recording = self.recording
        total = recording.total_seconds()
        seconds = {f"{kind}_time": value for kind, value in recording.seconds_apart.items()}
        if total is not None:
            seconds["train_time"] = max(total - sum(seconds.values()), 0.0)
            seconds["total_time"] = total
        if recording.first_step_began is not None and "ipykernel" not in sys.modules:
            age_at_first_step = _process_age() - (recording.clock() - recording.first_step_began)
            seconds["load_time"] = max(age_at_first_step, 0.0)
        return seconds

    def _deliver(self, submission: dict[str, Any]) -> None:
        self.submission = submission
        self._write(submission)
        if self.options.on_record is not None:
            self.options.on_record(submission)

    def _write(self, submission: dict[str, Any]) -> None:
        path = self._path()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, submission)

    def _path(self) -> Path | None:
        """Return where this process's record goes; other ranks than the first have their own."""
        rank = read_rank()[0]
        if self.options.out is not None:
            out = Path(self.options.out)
            return out if rank == 0 else out.with_name(f"{out.stem}.rank{rank}{out.suffix}")
        folder = os.environ.get(RECORD_FOLDER)
        name = f"record-{rank}-{os.getpid()}-{self.n_runs}.json"
        if folder:
            return Path(folder) / name
        if self.options.on_record is not None or rank or self.record is None:
            return None
        return Path(self.trainer.args.output_dir) / f"registry-{self.record.run_id}.json"


def _process_age() -> float:
    """Return the seconds since this process was started, from /proc (proc(5), field 22)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
    started = int(fields.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
