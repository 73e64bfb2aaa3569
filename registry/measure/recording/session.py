"""One process's recording of one training after the other: what the adapters tell it, and when.

Nothing here may break the job: every entry point is guarded, and the first failure ends the
recording with one warning.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import secrets
import shlex
import sys
import time
import warnings
import weakref
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from registry.errors import RegistryError
from registry.measure.environment import (
    collect_environment,
    collect_interconnect,
    collect_provenance,
)
from registry.measure.failure import Failure, classify_failure, is_out_of_memory
from registry.measure.memory_meter import DeviceSampler, Peaks, guard_resets, return_freed_memory
from registry.measure.process_stat import STARTED, read_stat
from registry.measure.record_files import write_json
from registry.measure.recording.batches import Batches
from registry.measure.recording.catalogue_rows import describe_gpu, describe_model
from registry.measure.recording.checks import cross_check
from registry.measure.recording.clock import Recording, mark_warmup
from registry.measure.recording.configuration import read_rank
from registry.measure.recording.loaded import cuda_in_use
from registry.measure.recording.marks import leave_trouble
from registry.measure.recording.parameters import Parameters, count_parameters, is_finite
from registry.measure.recording.progress import SUFFIX, Progress, count_steps
from registry.measure.recording.ranks import forfeit_part, gather_parts, merge_steps, rank_path
from registry.measure.recording.record import AT_ONCE, Record, build_submission, note_missing
from registry.measure.trial_settings import RECORD_FOLDER, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.measure.trial_settings import Options

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds between two looks at what changes little and takes longer than a step's own figures: the
#: peaks so far, and the lengths and sizes of the batches.
_KNOWN_SECONDS = 0.5

#: Tells this program from another one that the same process becomes.
_loaded = secrets.token_hex(4)

#: Numbers the trainings of this process, whatever records them.
_numbers = itertools.count(1)

#: The session whose step was the last one of this process to end.
_latest: list[weakref.ref[Session]] = []

#: The models of earlier trainings of this process, as long as they live.
_earlier: list[weakref.ref[Any]] = []


class RecordedJob(Protocol):
    """A training as an adapter sees it."""

    name: str

    @property
    def model(self) -> Any:
        """The model, with its adapters and whatever wraps it."""
        ...

    @property
    def config(self) -> Any:
        """What says the model's shape."""
        ...

    @property
    def optimizers(self) -> Sequence[Any]:
        """The optimizers, as far as they are made."""
        ...

    @property
    def device(self) -> str:
        """Kind of the device that it trains on, such as ``cuda``."""
        ...

    def read_configuration(self, parameters: Parameters) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a row of ``configurations`` as far as it is known, and entries of provenance."""
        ...

    def read_length(self, batches: Batches) -> dict[str, Any]:
        """Return the columns ``seq_len``, ``length_distribution`` and ``padding_free``."""
        ...

    def output_folder(self) -> Path | None:
        """Return where the job itself writes, if it says so."""
        ...


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
        self.job: RecordedJob | None = None
        self.number = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.peaks = Peaks()
        self.recording = Recording()
        self.batches = Batches()
        self.sampler = DeviceSampler(self.peaks, self.options.device_sample_seconds)
        self.record: Record | None = None
        self.progress: Progress | None = None
        self.parameters: Parameters | None = None
        self.flags: list[str] = []
        self._known_at = 0.0
        self._n_ooms = 0
        self._regained_in: int | None = None
        self._has_lost_attempt = False
        self._n_flags_told = 0
        #: What shows by its value whether training goes well: the last loss, or a weight.
        self.telling: Any = None

    @property
    def is_training(self) -> bool:
        """Whether a training is going on."""
        recording = self.recording
        return recording.train_began is not None and recording.train_ended is None

    def step_aside(self, error: Exception) -> None:
        """Record nothing further and say so once."""
        self.failure = error
        leave_trouble(error)
        self.sampler.stop()
        forfeit_part(self.number)
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # a warning must not become an exception of the job
            warnings.warn(
                f"the registry's recorder stopped, and the training goes on without it: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=3,
            )

    @_guarded
    def attach(self, job: RecordedJob) -> None:
        """Begin with a training that is about to start."""
        self.job = job
        self.number = next(_numbers)
        self._begin_anew()
        self.peaks.rank = read_rank()[0]
        guard_resets(self.peaks)
        if job.model is not None:
            self._part_from_earlier(job.model)
            self.parameters = count_parameters(job.model, job.optimizers)

    def _look_for_others(self) -> None:
        """Flag trainings whose steps take turns: each goes on while the other does."""
        latest = _latest[0]() if _latest else None
        if latest is self:
            return
        _latest[:] = [weakref.ref(self)]
        if latest is not None and len(self.recording.steps) > 1:  # it had begun before
            for each in (self, latest):
                each.add_flag(AT_ONCE)

    def _part_from_earlier(self, model: Any) -> None:
        """Give each training its own peak, or flag that memory of an earlier one is in it."""
        if _earlier:
            gc.collect()  # what an earlier training left in reference cycles is not this one's
            return_freed_memory()
            others = (reference() for reference in _earlier)
            if any(other is not None and other is not model for other in others):
                self.flags.append("shared_process")
            self.peaks.restart()
        _earlier.append(weakref.ref(model))

    @_guarded
    def begin_train(self, n_done: int = 0) -> None:
        """Read the configuration and start the clock; a second call is a new attempt.

        ``n_done`` is how many steps an earlier process has done already.
        """
        if self.job is None:
            return
        is_retry = self.record is not None
        if n_done:
            self.flags.append("resumed")
        if self._has_lost_attempt:
            self.flags.append("recovered_from_oom")
            self._has_lost_attempt = False
        self.record = self._describe(self.job)
        self.batches = Batches()
        self._known_at = 0.0
        self.sampler.start()
        self.peaks.observe_allocator()
        self._n_ooms = self.peaks.n_ooms
        if self.options.memory_from == "train" or is_retry:
            self.peaks.restart()
        if n_done:
            self.record.provenance["resumed_from_step"] = n_done
        path = self._path()
        if path is None and self.options.add and read_rank()[0] == 0:
            path = self._own_path()  # until it is added
        if path is not None:
            rank, n_ranks = read_rank()
            self.progress = Progress(path.with_suffix(SUFFIX), rank, self.record, n_ranks)
        self.recording.begin_train()

    def _describe(self, job: RecordedJob) -> Record:
        parameters = self.parameters or count_parameters(job.model, job.optimizers)
        configuration, provenance = job.read_configuration(parameters)
        configuration["interconnect"] = collect_interconnect(configuration["gpus_per_node"])
        if self.options.weights:
            configuration["weights"] = self.options.weights
        configuration["memory_limit_bytes"] = self.options.memory_limit_bytes
        return Record(
            run_id=secrets.token_hex(8),
            observed_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            configuration={k: v for k, v in configuration.items() if v is not None},
            environment=collect_environment(),
            model=describe_model(job.config, parameters.n_base_params),
            gpu=describe_gpu(job.device),
            counts={"trainable_params": parameters.n_trainable, "n_params": parameters.n_params},
            model_reported=self.options.model_reported,
            flags=list(self.flags),
            provenance={
                **collect_provenance(),
                "trainer": job.name,
                **provenance,
                "warmup_steps": self.options.warmup_steps,
                "memory_from": self.options.memory_from,
                **self.options.provenance,
            },
        )

    @_guarded
    def note_early_stop(self, step: int) -> None:
        """Note that the training ended by its own decision before the steps asked for."""
        if self.record is not None:
            self.record.flags.append("stopped_early")
            self.record.provenance["stopped_at_step"] = step

    @_guarded
    def begin_step(self, step: int) -> None:
        """Note the begin of a step's forward pass."""
        self.recording.begin_step(step)

    @_guarded
    def count(self, inputs: Any, n_samples: int | None = None) -> None:
        """Note a micro-batch, of so many samples where the job says so."""
        self.batches.add(inputs, n_samples)

    @_guarded
    def end_step(self, step: int) -> None:
        """Wait for the device and close a step."""
        if self.recording.train_began is None:
            return
        now: dict[str, int] = {}
        module = cuda_in_use()
        if module is not None:
            module.synchronize()
            now = self.peaks.observe_allocator()
        self._look_for_lost_attempts(step)
        self.recording.count_batch(*self.batches.take())
        is_time = time.monotonic() - self._known_at >= _KNOWN_SECONDS
        memory = {
            "memory_allocated_bytes": now.get("allocated"),
            "memory_reserved_bytes": now.get("reserved"),
            "memory_device_bytes": self.sampler.latest,
            "host_rss_bytes": self.peaks.observe_host(),
        }
        self.peaks.keep()
        done = self.recording.end_step(step, memory)
        known: dict[str, Any] = {"seconds_apart": self.recording.seconds_apart}
        if is_time and self.job is not None:
            self._known_at = time.monotonic()
            known["peaks"] = self.peaks.rows()
            known["configuration"] = self.job.read_length(self.batches)
            self._look_for_divergence()
        self._look_for_others()
        known |= self._new_flags()
        if self.progress is not None:
            self.progress.add_step(done.as_sample(), **known)

    def _new_flags(self) -> dict[str, Any]:
        """Return the flags, where some are not in the file of the record yet."""
        flags = self.record.flags if self.record is not None else []
        if len(flags) == self._n_flags_told:
            return {}
        self._n_flags_told = len(flags)
        return {"flags": flags}

    def _look_for_lost_attempts(self, step: int) -> None:
        """Leave out what a step held that ran out of memory, after which the program went on."""
        if self.peaks.n_ooms > self._n_ooms or self._has_lost_attempt:
            self._n_ooms, self._regained_in = self.peaks.n_ooms, step
            self._has_lost_attempt = False
            self.peaks.leave_out_attempt()
            self.add_flag("recovered_from_oom")

    def add_flag(self, flag: str) -> None:
        """Flag the record of the training that goes on."""
        if self.record is not None and flag not in self.record.flags:
            self.record.flags.append(flag)

    def _look_for_divergence(self) -> None:
        """Flag a training whose last loss, or one of whose weights, is no number any more."""
        if not is_finite(self.telling):
            self.add_flag("not_finite")

    @_guarded
    def note_error(self, error: BaseException) -> None:
        """Note an exception that passes through a step: the program may go on after it."""
        self._has_lost_attempt |= is_out_of_memory(error)

    @_guarded
    def note_logs(self, step: int, logs: dict[str, Any]) -> None:
        """Note a logged loss; one that is no number is flagged, as no figure can be."""
        loss = logs.get("loss")
        if not is_finite(loss):
            self.add_flag("not_finite")
        elif isinstance(loss, int | float):
            self.recording.note_loss(step, float(loss))

    def apart(self, kind: str) -> AbstractContextManager[None]:
        """Return a context whose time is no training time."""
        return (
            self.recording.apart(kind) if self.is_training and not self.failure else nullcontext()
        )

    @_guarded
    def note_apart(self, kind: str, seconds: float) -> None:
        """Note time that was no training time, after it has passed."""
        self.recording.note_apart(kind, seconds)

    @_guarded
    def count_in(self, kind: str, seconds: Sequence[float]) -> None:
        """Make time apart, of each of the last steps, a part of those steps after all."""
        self.recording.count_in(kind, seconds)
        if self.progress is not None:
            changed = self.recording.steps[-len(seconds) :]
            self.progress.change_last([step.as_sample() for step in changed])

    @_guarded
    def finish(self, loss: Any = None, n_samples: float | None = None) -> None:
        """Complete the record of a training that ended well; its own counts where it has any."""
        self.recording.end_train()
        self.sampler.stop()
        if self.record is None:
            return
        self._look_for_divergence()
        if not is_finite(loss):
            self.add_flag("not_finite")
        elif isinstance(loss, int | float):
            self.record.counts["train_loss"] = loss
        if n_samples:
            self.record.provenance["framework_samples"] = n_samples
        parts = gather_parts(self._part(), self.number)
        if read_rank()[0] == 0:
            self._deliver(self._submission(None, parts))
        if self.progress is not None:
            self.progress.remove()

    @_guarded
    def finish_rank(self, failure: Failure | None = None, *, is_followed: bool = False) -> None:
        """Leave this process's part where it is: the parent of the job puts the parts together.

        One that ran out of memory in its last step failed so, even if its program caught the error.
        One that another training followed has ended with its last step, before that was prepared.
        """
        is_followed = is_followed and bool(self.recording.steps)
        self.recording.end_train(with_last_step=is_followed)
        self.sampler.stop()
        if self.progress is not None and self.job is not None:
            part = self._part(until_last_step=is_followed)
            is_lost = self.peaks.n_ooms > self._n_ooms and self.recording.is_in_step
            if failure is None:
                self._look_for_divergence()
            if failure is None and is_lost:
                failure = Failure("oom", "the allocator ran out of memory", "train")
            self.progress.end(
                seconds=self._seconds(failed=failure is not None),
                peaks=part["peaks"],
                longest=part["longest"],
                configuration=self.job.read_length(self.batches),
                failure=asdict(failure) if failure else None,
                **self._new_flags(),
            )

    def leave(self) -> None:
        """Write nothing further of a training that another process goes on with."""
        if self.progress is not None:
            self.progress.leave()

    @_guarded
    def fail(self, error: BaseException) -> None:
        """Complete the record of a training that ended with an exception."""
        self.recording.end_train()
        self.sampler.stop()
        if self.record is None and self.job is not None and self.job.model is not None:
            self.record = self._describe(self.job)
        if self.record is not None:
            failure = classify_failure(
                error,
                training=self.recording.step_begun > 0,
                quoted=self.options.quote_errors,
            )
            if self._is_put_together():
                self.finish_rank(failure)
                return
            self._deliver(self._submission(failure))
            if self.progress is not None:
                self.progress.remove()

    def _is_put_together(self) -> bool:
        """Return whether the job's parent reads what each of several processes leaves."""
        if self.progress is None or read_rank()[1] == 1 or self.options.add:
            return False
        if self.options.out is not None or self.options.on_record is not None:
            return "spec" in self.options.provenance  # a trial's job
        is_here = self.record is not None and self.record.configuration.get("n_nodes") == 1
        return is_here and bool(told(RECORD_FOLDER))

    def _part(self, *, until_last_step: bool = False) -> dict[str, Any]:
        if until_last_step:
            self.peaks.go_back()
        else:
            if self._regained_in != self.recording.step_begun:
                self.peaks.observe_allocator()  # else nothing but what is held after that attempt
            self.peaks.observe_host()
        steps = mark_warmup(self.recording.steps, self.options.warmup_steps)
        return {
            "rank": read_rank()[0],
            "steps": [step.as_sample() for step in steps],
            "peaks": self.peaks.rows(),
            "longest": self.batches.longest,
        }

    def _submission(
        self, failure: Failure | None, parts: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        assert self.record is not None  # noqa: S101 - callers have made sure
        assert self.job is not None  # noqa: S101 - likewise
        record = self.record
        record.parts = parts or [self._part()]
        record.steps = merge_steps(record.parts)
        note_missing(record, read_rank()[1])
        record.seconds = self._seconds(failed=failure is not None)
        record.failure = failure
        record.failed_step = (self.recording.step_begun or None) if failure else None
        record.configuration |= self.job.read_length(self.batches)
        count_steps(record)
        if parts is not None:
            cross_check(record)
        return build_submission(record)

    def _seconds(self, *, failed: bool) -> dict[str, float]:
        recording = self.recording
        seconds = {f"{kind}_time": value for kind, value in recording.seconds_apart.items()}
        train, total = recording.train_seconds(failed=failed), recording.total_seconds()
        if total is not None:
            seconds["total_time"] = total
        if train is not None:
            seconds["train_time"] = train
        is_first = self.number == 1 and "ipykernel" not in sys.modules
        if recording.first_step_began is not None and is_first:
            age_at_first_step = _process_age() - (recording.clock() - recording.first_step_began)
            seconds["load_time"] = max(age_at_first_step, 0.0)
        return seconds

    def _deliver(self, submission: dict[str, Any]) -> None:
        self.submission = submission
        path = self._path()
        if self.options.add and not self._add(submission):
            path = path or self._own_path()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, submission)
            if not told(RECORD_FOLDER) and self.options.on_record is None:
                _say(f"wrote {path}; add it with: registry add {shlex.quote(str(path))}")
        if self.options.on_record is not None:
            self.options.on_record(submission)

    def _add(self, submission: dict[str, Any]) -> bool:
        """Add a record to the registry in use; return whether it is there."""
        try:
            from registry.store.add import add_submissions  # noqa: PLC0415 - a job's own environment may lack it
            from registry.store.folder import find_registry  # noqa: PLC0415 - likewise

            added = add_submissions(find_registry(), [("the training", submission)])[0]
        except Exception as error:  # noqa: BLE001 - whatever is in the way, the record is kept
            told = str(error) if isinstance(error, RegistryError) else repr(error)
            _say(f"the record was not added: {told}")
            return False
        _say(f"recorded observation {added.observation_ids[0][:12]}")
        return True

    def _path(self) -> Path | None:
        """Return where this process's record goes; other ranks than the first have their own."""
        rank = read_rank()[0]
        if self.options.out is not None:
            return rank_path(Path(self.options.out), rank)
        folder = told(RECORD_FOLDER)
        if folder:
            return Path(folder) / f"record-{rank}-{os.getpid()}-{_loaded}-{self.number}.json"
        is_handed_on = self.options.on_record is not None or self.options.add
        return None if is_handed_on or rank else self._own_path()

    def _own_path(self) -> Path | None:
        """Return the place in the job's own folder."""
        home = self.job.output_folder() if self.job is not None else None
        if self.record is None or home is None:
            return None
        return home / f"registry-{self.record.run_id}.json"


def _say(text: str) -> None:
    sys.stderr.write(f"registry: {text}\n")


def _process_age() -> float:
    """Return the seconds since this process was started."""
    started = int(read_stat()[STARTED]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
