"""Hugging Face Trainer, and the trainers made of it, as a recording sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.recording.configuration import read_configuration, read_optimizer

if TYPE_CHECKING:
    from registry.measure.recording.batches import Batches
    from registry.measure.recording.parameters import Parameters


class TrainerJob:
    """A training by a trainer whose ``train`` was called."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.name = type(trainer).__name__

    @property
    def model(self) -> Any:
        """The model as it is now: a trainer may build it only when it begins."""
        return self._trainer.model

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return self.model.config

    @property
    def optimizers(self) -> list[Any]:
        """The optimizer that the trainer was given; its own is made when it begins."""
        return [self._trainer.optimizer]

    @property
    def device(self) -> str:
        """Kind of the device."""
        return str(self._trainer.args.device.type)

    def read_configuration(self, parameters: Parameters) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a row of ``configurations``, and the words as they were found."""
        _, optimizer = read_optimizer(self._trainer)
        configuration = read_configuration(self._trainer, self.model, parameters)
        limit = self._read_limit()
        return configuration, {"optimizer": optimizer} | ({"length_limit": limit} if limit else {})

    def read_length(self, batches: Batches) -> dict[str, Any]:
        """Return the length of the sequences; the trainer's own limit is the longest."""
        return batches.read_length(self._read_limit())

    def _read_limit(self) -> int | None:
        args = self._trainer.args
        template = getattr(self._trainer, "template", None)  # where ms-swift has it
        places = ((args, "max_length"), (args, "max_seq_length"), (template, "max_length"))
        limits = (getattr(place, name, None) for place, name in places)
        return next((n for n in limits if isinstance(n, int) and n), None)

    def output_folder(self) -> Path:
        """Return the trainer's output folder."""
        return Path(self._trainer.args.output_dir)
