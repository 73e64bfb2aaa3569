"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Matrices of the sizes here take several threads longer than one, above all where tests run side by
# side. Read when numpy is first imported, so it is set before any test is, and nothing that loads
# numpy is imported above.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A deadline, and a limit on how long examples take to make, measure the machine: the first example
# of a run also reads the contract, and other processes may hold every core. Neither finds a fault
# of the code.
settings.register_profile(
    "loaded machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# For faults that are put in on purpose: whether an example fails matters, not how small one can be.
settings.register_profile(
    "faults", settings.get_profile("loaded machine"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("loaded machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two processes more than there are cores: tests wait for commands and for the disk."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_finish() -> None:
    """Have the garbage collector leave out what stays to the end: the tests and their modules."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the user's own registry lie in a folder of the tests, whatever the user has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.delenv("REGISTRY_PATH", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk() -> Iterator[None]:
    """Have writes of this process return at once: no test takes the machine's power away.

    That files are flushed, and when, is held by tests that put a note in the place of fsync; the
    commands that tests start flush as ever.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which refuses what is no open file as well
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_end_processes() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt here, and it and SIGHUP end the children of the tests.

    A shell starts jobs in the background with SIGINT ignored, nohup those with SIGHUP ignored, and
    what is ignored is inherited over exec; a handler is not, so that children begin with the
    default.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def few_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return curated records of three sources, built once: all of them take long."""
    from registry.sources.pages import write_pages  # noqa: PLC0415 - both load numpy
    from registry.store.build import build_tables  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("few") / "records"
    records = Path(__file__).parents[1] / "records"
    shutil.copytree(records / "catalogue", folder / "catalogue")
    (folder / "tables").mkdir()
    for name in ("llama2-lora-3090", "qwen-finetune-profile", "swift-benchmark"):
        shutil.copytree(records / "sources" / name, folder / "sources" / name)
    build_tables(folder)
    write_pages(folder)
    return folder
