"""Predictions for the page "Will it fit?": the product's own predictor on a grid, beforehand."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from registry.predict.answer.prediction import predict_memory
from registry.predict.architecture import architecture_of
from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.calibration.fit_rows import USABLE
from registry.predict.question import Question
from registry.site.tables import read_cards, read_site_sql
from registry.store.snapshot import load_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from registry.api import Registry
    from registry.predict.architecture import Architecture
    from registry.predict.calibration.intervals import Calibration

METHODS: Final[dict[str, dict[str, Any]]] = {
    "LoRA": {"method": "lora"},
    "QLoRA": {"method": "lora", "quant_bits": 4},
    "full": {"method": "full"},
}
N_GPUS: Final = (1, 2, 4, 8)
LENGTHS: Final = (512, 1024, 2048, 4096, 8192, 16384)
BATCHES: Final = (1, 2, 4, 8)
#: What is stated beside model, method, cards, length and batch: nothing, or one usual recipe.
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "open": {},
    "usual": {
        "gradient_checkpointing": True,
        "attention": "flash2",
        "optimizer": "adamw",
        "compute_dtype": "bf16",
        "param_dtype": "bf16",
        "loss_kernel": "whole",
        "packing": True,
    },
}
_USUAL_ADAPTERS: Final = {"lora_rank": 16, "lora_target_modules": ("all-linear",)}
_MIB: Final = 2**20


@dataclass(frozen=True)
class Grid:
    """Models that are asked about; all other axes are the constants of this module."""

    models: tuple[str, ...]

    @property
    def jobs(self) -> list[tuple[str, str, str]]:
        """What is computed at once: a model with settings and a method, in the order of values."""
        return list(product(self.models, SETTINGS, METHODS))


class Sizes(NamedTuple):
    """The numbers of a question of the grid."""

    n_gpus: int
    length: int
    batch: int


def build_question(model: Architecture, settings: str, method: str, sizes: Sizes) -> Question:
    """Return one question of the grid.

    Several cards share the state with ZeRO-3; a quantized base is held by each of them.
    """
    stated = {**METHODS[method], **SETTINGS[settings]}
    if settings == "usual" and method != "full":
        stated |= _USUAL_ADAPTERS
    sharded = sizes.n_gpus > 1 and "quant_bits" not in stated
    return Question(
        model=model,
        seq_len=sizes.length,
        micro_batch_size=sizes.batch,
        n_gpus=sizes.n_gpus if sharded else 1,
        sharding="zero3" if sharded else None,
        **stated,
    )


def choose_models(db: Registry, most: int) -> Grid:
    """Return the grid over the ``most`` models that the most sources have fine-tuned."""
    rows = db.query(read_site_sql("grid_models"), most=most).rows()
    return Grid(tuple(sorted(row["model_id"] for row in rows)))


def predict_grid(db: Registry, grid: Grid, tick: Callable[[], None]) -> dict[str, Any]:
    """Return the grid with its predictions, as the page reads it; ``tick`` is called for each job.

    ``values`` holds four figures of the peak of one card in MiB, in the order of models, settings,
    methods, cards, lengths, batches: the low end, the likeliest figure and the high end of the
    90 % interval, and from how much on it fits. ``reaches`` turn these into chances of fitting.
    """
    catalogue = load_catalogue(db.location)
    values: list[int] = []
    for part in _predict_all(db, grid):
        values += part
        tick()
    return {
        "models": [_describe_model(catalogue.models[name]) for name in grid.models],
        "settings": list(SETTINGS),
        "methods": list(METHODS),
        "n_gpus": N_GPUS,
        "lengths": LENGTHS,
        "batches": BATCHES,
        "usable": USABLE,
        "reaches": list_reaches(),
        "cards": read_cards(catalogue.gpus.values()),
        "values": values,
    }


def list_reaches() -> list[float]:
    """Return where a value is that the figure is below with a chance of 0.5, 1.5, … 99.5 %.

    It is so many times the logarithmic distance between the figure and the end of its interval on
    that side away from the figure; the distance is negative below it. So the page can tell
    `Interval.below` in whole percents.
    """
    normal = NormalDist()
    return [round(normal.inv_cdf((n + 0.5) / 100) / normal.inv_cdf(0.95), 5) for n in range(100)]


def _describe_model(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["model_id"], "n_params": row["n_params"], "longest": row["max_positions"]}


def _predict_all(db: Registry, grid: Grid) -> Iterator[list[int]]:
    """Yield the figures of each job in order, computed by as many processes as there are cores."""
    if not grid.jobs:
        return
    with ProcessPoolExecutor(
        min(os.cpu_count() or 1, len(grid.jobs)),
        mp_context=get_context("spawn"),
        initializer=_start,
        initargs=(db,),
    ) as pool:
        yield from pool.map(_predict_job, grid.jobs)


_state: dict[str, Any] = {}


def _start(db: Registry) -> None:
    """Read in a process of the pool what all its jobs need."""
    _state["calibration"] = read_calibration(db)
    _state["catalogue"] = load_catalogue(db.location)


def _predict_job(job: tuple[str, str, str]) -> list[int]:
    name, settings, method = job
    model = architecture_of(_state["catalogue"].models[name])
    return predict_job(model, settings, method, _state["calibration"])


def predict_job(
    model: Architecture, settings: str, method: str, calibration: Calibration
) -> list[int]:
    """Return low, value, high, enough in MiB for all cards, lengths and batches."""
    figures: list[int] = []
    known: dict[Question, list[int]] = {}
    for sizes in product(N_GPUS, LENGTHS, BATCHES):
        question = build_question(model, settings, method, Sizes(*sizes))
        if question not in known:
            found = predict_memory(question, calibration)
            figure = found.figure
            wanted = (figure.low, figure.value, figure.high, found.enough)
            known[question] = [round(value / _MIB) for value in wanted]
        figures += known[question]
    return figures
