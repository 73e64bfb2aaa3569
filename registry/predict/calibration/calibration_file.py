"""A calibration as a file: the observations it rests on and what was fitted. Plain JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from registry import __version__
from registry.errors import QuestionError, StoreError
from registry.predict.architecture import Accelerator, Architecture
from registry.predict.calibration.fit_rows import (
    MEMORY,
    MOST_NEW,
    TIME,
    FitRow,
    groups_of,
    memory_rows,
    time_groups_of,
    time_rows,
)
from registry.predict.calibration.gaussian_process import Start, fit
from registry.predict.calibration.intervals import (
    Calibrated,
    Calibration,
    calibrate,
    thin,
)
from registry.predict.calibration.runs import PURPOSES, ObservedRun, read_observations
from registry.predict.calibration.unstated import pack_usual, settle, unpack_usual
from registry.predict.formula.term import Term
from registry.predict.question import Question
from registry.reading import ReadingError, read_bytes
from registry.store.folder import Location, curated_dir, ensure_writable
from registry.store.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from pathlib import Path

    from registry.api import Registry
    from registry.predict.calibration.fit_rows import Prior
    from registry.predict.calibration.gaussian_process import Fit

#: Version of the file's form.
STATE_VERSION = 6
FILE_NAME = "calibration.json"

#: Largest file that is read, in bytes: a hundred times that of the curated records.
_LARGEST = 256 * 2**20


def format_calibration(calibration: Calibration) -> str:
    """Return a calibration as JSON: one line per observation, the same for the same figures.

    What several observations have in common, as repeats have, stands once, on a line of its own.
    """
    models: dict[str, Any] = {}
    gpus: dict[str, Any] = {}
    shared: dict[str, int] = {}
    seen = [_pack_observation(one, models, gpus, shared) for one in calibration.observations]
    head = {
        "version": STATE_VERSION,
        "release": __version__,
        "models": models,
        "gpus": gpus,
        "memory": _pack_fit(calibration.memory),
        "time": _pack_fit(calibration.time),
        "usual": pack_usual(calibration.usual),
    }
    lines = {"settings": ",\n".join(shared), "observations": ",\n".join(map(_json, seen))}
    lists = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in lines.items())
    return seal(f"{_json(head)[:-1]},\n{lists}}}")


#: What stands before the hash of all that precedes it, at a calibration's end.
_SEAL = ',\n"sha256":"'


def seal(text: str) -> str:
    """Return a calibration's JSON with the hash by which a file that was changed is told."""
    body = text.removesuffix("}")
    return f'{body}{_SEAL}{hashlib.sha256(body.encode()).hexdigest()}"}}\n'


def _is_sealed(text: str) -> bool:
    body, found, _ = text.rpartition(_SEAL)
    return bool(found) and seal(f"{body}}}") == text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_calibration(
    text: str | bytes,
    origin: str = FILE_NAME,
    own: OwnLayer | None = None,
    way_out: str = "write it again with `registry calibrate`",
) -> Calibration:
    """Return the calibration that a JSON text holds; raise QuestionError where it is none.

    The runs of the user's ``own`` that it does not hold count as evidence besides, and what they
    withdrew does not count.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        text = text.replace("\r\n", "\n")  # as git checks it out with core.autocrlf
        document = json.loads(text)
        version = document["version"]
        if version != STATE_VERSION:
            raise QuestionError(
                f"{origin}: found version {version!r}; expected {STATE_VERSION}; {way_out}"
            )
        if not _is_sealed(text):
            raise QuestionError(f"{origin}: found content that was changed; {way_out}")
        return _unpack(document, own or OwnLayer())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise QuestionError(f"{origin}: found no calibration ({error!r}); {way_out}") from error


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write a calibration, in one rename."""
    LocalStorage(path.parent).put(path.name, format_calibration(calibration).encode())


def read_calibration(registry: Registry | None = None) -> Calibration:
    """Return the calibration of a registry, else the one that comes with the curated records.

    The user's own runs that it does not hold count as evidence. Raises QuestionError where neither
    is there or the file is not one.
    """
    folders = [curated_dir()] if registry is None else [registry.path, curated_dir()]
    for folder in folders:
        path = folder / FILE_NAME
        if path.exists():
            again = f"`registry calibrate --registry {folder}`"
            way_out = f"write it again with {again}"
            if folder == curated_dir():
                way_out = f"install the package again, or in a checkout run {again}"
            return parse_calibration(_read(path), str(path), _own_layer(registry), way_out)
    raise QuestionError(
        f"{folders[0] / FILE_NAME}: found no calibration; write one with `registry calibrate`"
    )


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, limit=_LARGEST, what="a calibration")
    except ReadingError as error:
        raise QuestionError(str(error)) from None


@dataclass(frozen=True)
class OwnLayer:
    """What the user's own registry adds to a calibration."""

    #: Its runs alone: there are few, and most users have none.
    runs: tuple[ObservedRun, ...] = ()
    #: Ids of the observations that are withdrawn, whoever recorded them.
    withdrawn: frozenset[str] = frozenset()


def _own_layer(registry: Registry | None) -> OwnLayer:
    if registry is None or registry.location.own.is_curated:
        return OwnLayer()
    own = registry.location.own
    own.pull()
    if not any(own.journal.glob("*.json")) and not any(own.tables.glob("manifest*")):
        return OwnLayer()
    runs = read_observations(replace(registry, location=Location(own)))
    withdrawn = registry.query("select observation_id from retractions").fetchall()
    return OwnLayer(
        tuple(one for one in runs if one.purpose == PURPOSES[0]),
        frozenset(identity for (identity,) in withdrawn),
    )


def recalibrate(registry: Registry) -> tuple[Path, Calibration]:
    """Fit on a registry's own observations, write the file into its folder and return both.

    Takes tens of seconds. Raises StoreError where no peak or no time was measured, and where the
    registry cannot be read or written.
    """
    own = registry.location.own
    if own.remote:
        raise StoreError(
            f"{own.name}: is on object storage, where no calibration is kept; expected a folder; "
            "bring its documents to one with `registry sync`, and calibrate there"
        )
    seen = read_observations(registry)
    figures = {
        "peak": any(one.measured_memory for one in seen),
        "time": any(one.measured_time for one in seen),
    }
    missing = [name for name, is_there in figures.items() if not is_there]
    if missing:
        raise StoreError(
            f"{registry.path}: found no measured {' and no measured '.join(missing)} of "
            "fine-tuning; expected some of each; add observations, or do not calibrate: "
            "predictions then use the calibration that comes with the package"
        )
    path = ensure_writable(registry.location).path / FILE_NAME
    calibration = calibrate(seen)
    try:
        write_calibration(path, calibration)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from error
    return path, calibration


#: What an observation has for itself, before the place of what it may share with others.
_OWN = ("observation_id", "peak_bytes", "seconds")


def _pack_observation(
    seen: ObservedRun, models: dict[str, Any], gpus: dict[str, Any], shared: dict[str, int]
) -> list[Any]:
    question = seen.question
    models[question.model.model_id] = _pack(question.model)
    packed = _pack(question)
    packed["model"] = question.model.model_id
    if question.gpu:
        name = f"{question.gpu.gpu_id} {question.gpu.memory_bytes}"  # some are allowed less of it
        gpus[name] = _pack(question.gpu)
        packed["gpu"] = name
    row = {**_pack(seen), "question": packed}
    row.pop("asked", None)  # only judging needs it
    own = [row.pop(name, None) for name in _OWN]
    return [*own, shared.setdefault(_json(row), len(shared))]


def _pack(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their default."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = {field.name: field.default for field in fields(value)}
    return {name: part for name, part in found.items() if part != defaults[name]}


def _unpack(document: dict[str, Any], own: OwnLayer) -> Calibration:
    models = {name: Architecture(**row) for name, row in document["models"].items()}
    gpus = {name: Accelerator(**row) for name, row in document["gpus"].items()}
    settings = [_unpack_settings(row, models, gpus) for row in document["settings"]]
    known = tuple(
        ObservedRun(**dict(zip(_OWN, own_values, strict=True)), **settings[place])
        for *own_values, place in document["observations"]
        if settings[place] and own_values[0] not in own.withdrawn
    )
    usual = unpack_usual(document["usual"])
    ids = {one.observation_id for one in known}
    new = [one for one in own.runs if one.observation_id not in ids]
    settled = settle(new, usual)
    learned = settled if len(new) <= MOST_NEW else []
    is_current = document["release"] == __version__
    return Calibration(
        observations=(*known, *settled),
        memory=_unpack_fit(document["memory"], _PEAK, known, learned, is_current=is_current),
        time=_unpack_fit(document["time"], _STEP, known, learned, is_current=is_current),
        usual=usual,
        own_ids=frozenset(one.observation_id for one in own.runs),
        newer=frozenset(one.observation_id for one in new),
    )


def _unpack_settings(
    row: dict[str, Any], models: dict[str, Architecture], gpus: dict[str, Accelerator]
) -> dict[str, Any]:
    """Return what runs share; nothing of a method that the formulas no longer compute."""
    settings = dict(row["question"])
    settings["model"] = models[settings["model"]]
    if "gpu" in settings:
        settings["gpu"] = gpus[settings["gpu"]]
    if "lora_target_modules" in settings:
        settings["lora_target_modules"] = tuple(settings["lora_target_modules"])
    settled = row.get("settled")
    if settled and settled.get("lora_target_modules"):
        settled["lora_target_modules"] = tuple(settled["lora_target_modules"])
    known = tuple(row.get("known_of_source", ()))
    try:
        question = Question(**settings)
    except QuestionError:
        return {}
    return {**row, "question": question, "settled": settled, "known_of_source": known}


# A fit as JSON: its rows with the terms that the formulas gave, so that reading computes none.


def _pack_fit(calibrated: Calibrated) -> dict[str, Any]:
    """Return a fit as plain data, figures rounded to what their noise leaves of them."""
    inner = calibrated.fit
    judged = zip(inner.rows, inner.noise_factors, inner.values, strict=True)
    kinds: dict[tuple[Any, ...], int] = {}

    def place(term: Term) -> int:
        return kinds.setdefault((term.name, term.doubt, term.transient), len(kinds))

    rows = [
        [
            *(row.key, row.size, _rounded(row.value), row.censored),
            *(float(f"{times:.6g}"), _rounded(expected)),
            [[place(term), _rounded(term.value)] for term in row.terms],
        ]
        for row, times, expected in judged
    ]
    return {"reach": calibrated.reach, "terms": [*kinds], "rows": rows}


def _rounded(value: float) -> float:
    return float(f"{value:.8g}")


@dataclass(frozen=True)
class _Kind:
    """What is learned of a figure: its rows, what they share with others, and its prior."""

    read_rows: Callable[[Sequence[ObservedRun]], list[FitRow]]
    groups_of: Callable[[ObservedRun], Mapping[str, Hashable]]
    prior: Prior


_PEAK = _Kind(memory_rows, lambda run: groups_of(run.learned), MEMORY)
_STEP = _Kind(time_rows, lambda run: time_groups_of(run.question), TIME)


def _named(kind: tuple[str, float, bool], value: float) -> Term:
    name, doubt, transient = kind
    return Term(name, "", value, doubt, transient)


def _unpack_fit(
    packed: dict[str, Any],
    kind: _Kind,
    known: Sequence[ObservedRun],
    new: Sequence[ObservedRun],
    *,
    is_current: bool,
) -> Calibrated:
    """Return the fit of the stored rows of ``known`` runs and of new ones, made when asked for.

    Unless it ``is_current``, the formulas may have changed since, and the terms are computed anew.
    """

    def make() -> Fit:
        runs = {run.observation_id: run for run in known}
        computed = {} if is_current else {row.key: row for row in kind.read_rows(known)}
        kinds = [tuple(one) for one in packed["terms"]]
        rows, factors, values = [], [], []
        for key, size, value, censored, times, expected, terms in packed["rows"]:
            if key in runs:  # else it is withdrawn, or of a method that is no longer computed
                named = tuple(_named(kinds[place], amount) for place, amount in terms)
                row = FitRow(key, named, kind.groups_of(runs[key]), size, value, censored)
                rows.append(computed.get(key, row))
                factors.append(times)
                values.append(expected)
        added = thin(kind.read_rows(new))
        start = Start(
            np.array([*factors, *(1.0 for _ in added)]),
            np.array([*values, *(row.value for row in added)]),
        )
        return fit([*rows, *added], kind.prior, start=start, rounds=0)

    return Calibrated(make, packed["reach"])
