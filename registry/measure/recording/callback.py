"""The callback of Hugging Face Trainer. Loading this module loads transformers."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from registry.measure.recording.session import Session
from registry.measure.recording.trainer_hooks import wrap_trainer
from registry.measure.trial_settings import Options, options_of_environment

_TrainerCallback: Any = import_module("transformers.trainer_callback").TrainerCallback


class RecorderCallback(_TrainerCallback):  # type: ignore[misc] # transformers is not typed here
    """Records the trainings of the trainer it is given to."""

    is_registry_recorder = True

    def __init__(self, options: Options | None = None) -> None:
        self.session = Session(options or Options())
        # When the module of Trainer itself is just being loaded, its loader wraps the class.
        trainer = getattr(sys.modules.get("transformers.trainer"), "Trainer", None)
        if trainer is None:
            trainer = import_module("transformers").Trainer
        wrap_trainer(trainer)

    @property
    def submission(self) -> dict[str, Any] | None:
        """The submission of the last training, or None where there is none (yet)."""
        return self.session.submission

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock."""
        del args, control
        self.session.begin_train(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note the begin of a step."""
        del args, control
        self.session.begin_step(state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close a step."""
        del args, control
        self.session.end_step(state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Note a logged loss."""
        del args, control
        self.session.note_logs(state.global_step, logs or {})


class DefaultRecorder(RecorderCallback):
    """The recorder that a measured child adds to every trainer: it takes no arguments."""

    def __init__(self) -> None:
        super().__init__(options_of_environment())


class ReportingRecorder(RecorderCallback):
    """The recorder that ``report_to="registry"`` names: it adds to the registry in use."""

    def __init__(self) -> None:
        super().__init__(Options(add=True))
