"""Do something right after a module that somebody else imports."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from registry.measure.recording.marks import trouble_noted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def after_import(name: str, then: Callable[[Any], object]) -> None:
    """Call a function with a module: now where it is loaded, else right after its import."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, AfterImport(name, then))


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module right after its import, and changes nothing else."""

    def __init__(self, name: str, then: Any) -> None:
        self._name = name
        self._then = then
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec with a loader that calls the function afterwards."""
        del path, target
        if fullname != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        original = loader.exec_module
        then = self._then

        def exec_module(module: ModuleType) -> None:
            original(module)
            with trouble_noted():  # the job's import has succeeded, and must
                then(module)

        loader.exec_module = exec_module
