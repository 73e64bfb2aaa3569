"""Read a plan: a TOML file that says which trials to run."""

from __future__ import annotations

import errno
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.errors import SourceError, excerpt
from registry.measure.running.plan_model import PlanError, validate_document
from registry.measure.trial_settings import NAMES
from registry.reading.bounded_file import is_file, read_bytes
from registry.reading.json_reader import is_deeper

#: Largest plan that is read, in bytes; one with a line for each of ten thousand trials is smaller.
_LARGEST_PLAN = 2**20

#: Deepest nesting that is read; a configuration in ``models`` has three or four levels.
DEEPEST_NESTING = 16

#: A dotted key of so many parts, for which the TOML parser takes quadratic time.
_DEEP_KEY = re.compile(r"""(?:[\w"'-]+[ \t]*\.[ \t]*){64}""")

_TOO_DEEP = f"nested deeper than {DEEPEST_NESTING} levels; expected a plan, which has four"


@dataclass(frozen=True)
class Plan:
    """A plan as it was read.

    ``base`` holds settings of all trials, ``axes`` the values that are combined, ``exclude`` the
    combinations to leave out, ``include`` trials beside the matrix, ``models`` the configurations
    that the plan itself defines, by name; ``sources`` says of models how they were built before.
    """

    name: str
    base: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, list[Any]] = field(default_factory=dict)
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeats: int = 1


def read_plan(path: str | Path, *, dataset: Path | None = None) -> Plan:
    """Read a plan from a TOML file.

    Paths in it are relative to its folder. A data set is read from that folder or below it;
    ``dataset`` names one elsewhere, for all trials. Raises SourceError where the file cannot be
    read, is no TOML, or holds a key or value that no trial has.
    """
    path = Path(path)
    data = read_bytes(path, limit=_LARGEST_PLAN, what="a plan")
    try:
        text = data.decode("utf-8-sig")
        if _DEEP_KEY.search(text):
            raise SourceError(f"{path}: {_TOO_DEEP}")
        document = tomllib.loads(text)
    except RecursionError:
        raise SourceError(f"{path}: {_TOO_DEEP}") from None
    except ValueError as error:  # no TOML, no UTF-8, or an integer of thousands of digits
        reason = str(error).partition("; use sys")[0]
        raise SourceError(f"{path}: {reason}; expected a plan in TOML") from None
    return parse_plan(document, origin=str(path), folder=path.parent, dataset=dataset)


def parse_plan(
    document: dict[str, Any],
    *,
    origin: str,
    folder: Path | None = None,
    dataset: Path | None = None,
) -> Plan:
    """Return the plan in a parsed document; raise SourceError as ``read_plan`` does.

    Without a ``folder``, the paths are the caller's own and may lead anywhere.
    """
    check_depth(document, origin)
    read = {"name": Path(origin).stem, "repeats": 1, **validate_document(document, origin)}
    located = _Located(folder, is_named=dataset is not None)
    base = located.table(_trial_keys(read))
    if dataset is not None:
        base["dataset"] = str(dataset.resolve())
    axes = _trial_keys(read["matrix"])
    plan = Plan(
        name=read["name"],
        base=base,
        axes={
            name: [located.table({name: value}, f"matrix.{name}")[name] for value in values]
            for name, values in axes.items()
        },
        exclude=tuple(_trial_keys(row) for row in read["exclude"]),
        include=tuple(
            located.table(_trial_keys(row), f"include[{index}]")
            for index, row in enumerate(read["include"])
        ),
        models=read.get("models", {}),
        repeats=read["repeats"],
    )
    problems = located.problems
    named = bool(plan.include) and all("model" in row for row in plan.include)
    if "model" not in {**base, **axes} and (axes or not named):
        problems.append("no model; expected 'model' in the plan or in its matrix")
    if problems:
        raise PlanError(problems, origin=origin)
    return plan


def _trial_keys(table: dict[str, Any]) -> dict[str, Any]:
    """Return what a table says of trials, by the names of the settings."""
    renamed = {"memory_limit_bytes" if k == "memory_limit" else k: v for k, v in table.items()}
    return {name: value for name, value in renamed.items() if name in NAMES}


def check_depth(document: Any, origin: str) -> None:
    """Raise SourceError where tables and lists are nested deeper than any plan needs."""
    if is_deeper(document, DEEPEST_NESTING):
        raise SourceError(f"{origin}: {_TOO_DEEP}")


class _Located:
    """Makes paths hold from anywhere, and collects those that may not be read."""

    def __init__(self, folder: Path | None, *, is_named: bool) -> None:
        self._folder = folder
        self._is_named = is_named
        self.problems: list[str] = []

    def table(self, table: dict[str, Any], where: str = "") -> dict[str, Any]:
        located = dict(table)
        if self._folder and "model" in table and is_file(self._folder / table["model"]):
            located["model"] = str((self._folder / table["model"]).resolve())
        if "dataset" in table:
            place = f"{where}.dataset".removeprefix(".").replace("matrix.dataset.", "matrix.")
            located["dataset"] = self._dataset(table["dataset"], place)
        return located

    def _dataset(self, name: str, place: str) -> str:
        if self._is_named:
            self.problems.append(
                f"{place}: found {excerpt(name)} as well as the one named for all trials; expected "
                "one of the two; remove it from the plan"
            )
        path = (self._folder or Path()).joinpath(name).resolve()
        try:
            path.lstat()
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # else it is missed where it is read
                self.problems.append(
                    f"{place}: found {excerpt(name)}; expected the name of a file, which is shorter"
                )
        if self._folder is not None and not path.is_relative_to(self._folder.resolve()):
            self.problems.append(
                f"{place}: found {excerpt(name)}, which is not in the plan's folder; expected a "
                "file there; to train on another one, name it yourself: --dataset"
            )
        return str(path)
