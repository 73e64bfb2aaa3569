"""Measure trainings: ``recording`` from inside the job's process, ``running`` from outside of it.

Beside them lies what both need. Importing this package loads nothing heavy: torch and transformers
are looked at only where the job has loaded them itself.
"""

from __future__ import annotations

from typing import Any

from registry.measure.trial_settings import Options

__all__ = ["Options", "trainer_callback"]


def trainer_callback(**options: Any) -> Any:
    """Return a callback for Hugging Face Trainer (and TRL's trainers) that records the job.

    Options are the fields of :class:`registry.measure.trial_settings.Options`. After training,
    ``callback.submission`` holds the submission. With ``add=True`` it is added to the registry in
    use; otherwise it is written to ``out`` or, with neither ``out`` nor ``on_record`` given, to the
    trainer's output folder, and a line on stderr says how to add it.

    A failure of the recorder never stops the training: it warns once and records nothing more.

    Raises TypeError for an unknown option, and ImportError if transformers is not installed.
    """
    from registry.measure.recording.callback import RecorderCallback  # noqa: PLC0415 - loads transformers

    return RecorderCallback(Options(**options))
