"""Kill everything that writes, at random instants, and see what is there afterwards."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.campaign.operations import export_path, locate, run_killed
from benchmarks.campaign.truth import Verdict, ask_engine, ask_query, find_numbers, judge
from registry.errors import RegistryError
from registry.store.check import check_registry
from registry.store.exported import read_exported
from registry.store.folder import create_registry
from registry.store.repair import repair

if TYPE_CHECKING:
    import random

OPERATIONS = ("add", "fold", "repair", "migrate", "export", "prune")

#: A registry that release 0.1 wrote, with documents 0 to 35, the last six of them pending.
FORMAT_1 = Path(__file__).parent / "format-1"
_FORMAT_1_NUMBERS = frozenset(range(36))

#: Kills after which a new registry is begun, so that the time of a repair stays bounded.
_KILLS_OF_A_REGISTRY = 60

_ADDED = 12


@dataclass
class Kills:
    """The kills and what was found after them."""

    folder: Path
    random: random.Random
    killed: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    refusals: list[str] = field(default_factory=list)
    #: Time of each operation when it last came to its end.
    _seconds: dict[str, float] = field(default_factory=dict)
    _must: set[int] = field(default_factory=set)
    _next: int = 1000

    def run(self, n_kills: int) -> None:
        """Kill that many processes, the operations in turn."""
        turn = 0
        while self.killed.total() < n_kills:
            if turn % _KILLS_OF_A_REGISTRY == 0:
                self._begin()
            self._step(OPERATIONS[turn % len(OPERATIONS)])
            turn += 1
            if turn % _KILLS_OF_A_REGISTRY == 0:
                self._end()
                sys.stderr.write(f"  {self.killed.total()} killed, {self.verdict}\n")
        self._end()

    @property
    def _own(self) -> Path:
        return self.folder / "own"

    @property
    def _old(self) -> Path:
        return self.folder / "old"

    def _begin(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        create_registry(self._own, curated=False)
        self._must = set()
        self._copy_old()
        for name in ("add", "fold", "add"):
            self._left_alone(name)

    def _copy_old(self) -> None:
        shutil.rmtree(self._old, ignore_errors=True)
        shutil.copytree(FORMAT_1, self._old)

    def _end(self) -> None:
        """See that a fold and a check find nothing wrong with what the kills left."""
        self._left_alone("fold")
        self._judge(self._own, self._must, with_query=True)
        self.refusals += [str(p) for p in check_registry(locate(self._own)).problems]

    def _take(self) -> list[int]:
        self._next += _ADDED
        return list(range(self._next - _ADDED, self._next))

    def _left_alone(self, name: str) -> None:
        path = self._old if name == "migrate" else self._own
        run = run_killed(name, path, self._take() if name == "add" else [], None)
        self._must |= run.recorded
        self._seconds[name] = run.seconds
        if run.refusal:
            self._refuse(path, run.refusal)
        if name == "migrate":
            self._copy_old()

    def _step(self, name: str) -> None:
        """Kill one operation and judge what it left; what it folds is added before."""
        if name not in self._seconds:
            self._left_alone(name)
        if name in ("fold", "prune"):
            self._left_alone("add")
        if name == "prune":
            self._left_alone("fold")
        path = self._old if name == "migrate" else self._own
        numbers = self._take() if name == "add" else []
        run = run_killed(name, path, numbers, self.random.uniform(0, self._seconds[name]))
        self.killed[name] += run.was_killed
        self._must |= run.recorded
        if not run.was_killed:
            self._seconds[name] = run.seconds
        if run.refusal:
            self._refuse(path, run.refusal)
        if name == "migrate":
            self._judge(path, set(_FORMAT_1_NUMBERS))
            if not run.was_killed or self.random.random() < 0.5:
                self._copy_old()
            return
        if name == "export":
            self._judge_export()
        self._judge(path, self._must)

    def _judge(self, path: Path, must: set[int], *, with_query: bool = False) -> None:
        try:
            answer = (ask_query if with_query else ask_engine)(locate(path))
        except RegistryError as error:
            self._refuse(path, str(error))
            return
        self.verdict += judge(answer, must)
        if path == self._own:
            self._must |= find_numbers(answer)

    def _refuse(self, path: Path, message: str) -> None:
        """Note that something was refused after a kill, and take the way out."""
        self.refusals.append(message)
        repair(locate(path))
        try:
            ask_engine(locate(path))
        except RegistryError as error:
            self.refusals.append(f"after a repair: {error}")
            self._begin()

    def _judge_export(self) -> None:
        """See that an export is there with every document, or not at all."""
        target = export_path(self._own)
        if target.exists():
            runs = [
                observation["run_id"]
                for _, document in read_exported(target)
                for observation in document["observations"]
            ]
            lost = self._must - {int(run.partition("-")[0]) for run in runs}
            self.verdict += Verdict(len(lost), len(runs) - len(set(runs)))
        for path in self.folder.glob(".tmp-*"):
            shutil.rmtree(path)
