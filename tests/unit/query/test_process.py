"""The parent: limits, interrupts, crashes, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import registry.query
from registry.errors import QueryError, QueryTimeoutError
from registry.query import confine, process
from registry.query.model import Dataset, Limits, Query
from registry.query.process import query_arrow, start_worker

if TYPE_CHECKING:
    from collections.abc import Callable

ENDLESS = "select count(*) from range(100000000000) a, range(100000) b"
LIMITS = Limits(memory_bytes=256 << 20, seconds=20, threads=2)
ROOT = Path(registry.query.__file__).parents[2]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_the_time_limit_kills_and_leaves_no_process() -> None:
    with tempfile.TemporaryFile() as file, start_worker() as worker:
        query = Query(ENDLESS, limits=replace(LIMITS, seconds=0.4))
        with pytest.raises(QueryTimeoutError) as caught:
            worker.run(Dataset(), query, file.fileno())
        assert not is_running(worker.pid)
    assert str(caught.value) == (
        "query: ended at its time limit of 0.4 s; narrow it with where or limit, or raise the limit"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "select length(repeat('x', 2000000000) || repeat('y', 2000000000))",
        (
            "select sum(length(s)) from (select repeat('x', 50000000) || range as s"
            " from range(100)) where s || s <> ''"
        ),
        "select list(s) from (select repeat('x', 1000000) || range as s from range(100000))",
        "select string_agg(repeat('x', 10000000) || range, ',') from range(1000)",
    ],
)
def test_memory_is_limited(ask: Any, sql: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(sql)
    assert str(caught.value) == (
        "query: needs more than the 256 MiB of memory it may use; select fewer rows or"
        " columns, aggregate earlier, or raise the memory limit"
    )


def test_memory_is_limited_without_the_engines_help(
    ask: Any, patch_child: Callable[[str], None]
) -> None:
    patch_child(
        "from registry.query import database\n"
        "database.set_limits = lambda _connection, _limits: None\n"
    )
    sql = "select length(string_agg(repeat('x', 10000000) || range, ',')) from range(1000)"
    with pytest.raises(QueryError, match="memory"):
        ask(sql)


def test_a_child_that_crashed_is_an_error_with_its_signal(dataset: Dataset) -> None:
    with tempfile.TemporaryFile() as file, start_worker() as worker:
        os.kill(worker.pid, signal.SIGSEGV)
        with pytest.raises(QueryError) as caught:
            worker.run(dataset, Query("select 1", limits=LIMITS), file.fileno())
    assert str(caught.value) == (
        "query: the engine's process ended with SIGSEGV before it answered; it may have needed"
        " more than its 256 MiB of memory, or have hit a bug in DuckDB: nothing but its output"
        " was touched; simplify the query"
    )


def test_a_child_killed_by_the_system_ran_out_of_memory(dataset: Dataset) -> None:
    with tempfile.TemporaryFile() as file, start_worker() as worker:
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(QueryError, match="needs more than the 256 MiB of memory"):
            worker.run(dataset, Query("select 1", limits=LIMITS), file.fileno())


def test_a_worker_never_asked_ends_with_its_parent_side() -> None:
    with start_worker() as worker:
        assert is_running(worker.pid)
    assert not is_running(worker.pid)


def run_script(script: str, *, measured: bool = True) -> str:
    """Return what a script prints; one that is not ``measured`` has no part in the coverage."""
    command = [sys.executable, "-c", script]
    kept = {k: v for k, v in os.environ.items() if measured or not k.startswith("COV")}
    return subprocess.run(command, env=kept, capture_output=True, text=True, check=True).stdout


def test_a_child_that_is_forgotten_ends_with_its_parent() -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from registry.query.child import start_child\n"
        "print(start_child().process.pid)\n"
    )
    pid = int(run_script(script))
    assert wait_until(lambda: not is_running(pid))


def test_starting_a_child_loads_little() -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "import registry.query.child\n"
        "print(sorted(name for name in sys.modules if name.startswith('registry')))\n"
        "print(sorted({'dataclasses', 'json', 'pathlib', 'pickle'} & sys.modules.keys()))\n"
    )
    modules = "['registry', 'registry.query', 'registry.query.child']\n[]\n"
    assert run_script(script, measured=False) == modules


def run_endless_script() -> tuple[subprocess.Popen[str], int]:
    script = (
        "import sys, tempfile\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from registry.query.model import Dataset, Query\n"
        "from registry.query.process import start_worker\n"
        "worker = start_worker()\n"
        "print(worker.pid, flush=True)\n"
        f"worker.run(Dataset(), Query({ENDLESS!r}), tempfile.TemporaryFile())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    child = int(process.stdout.readline())
    # more than one thread: the engine is at work
    assert wait_until(lambda: len(list(Path(f"/proc/{child}/task").iterdir())) > 1)
    return process, child


def test_ctrl_c_ends_the_query_at_once() -> None:
    process, child = run_endless_script()
    assert is_running(child)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not is_running(child)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel's parent-death signal")
def test_a_killed_parent_takes_the_child_along() -> None:
    process, child = run_endless_script()
    process.kill()
    process.communicate(timeout=300)
    assert wait_until(lambda: not is_running(child))


def test_a_reader_that_hangs_up_ends_the_query_quietly(dataset: Dataset) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with start_worker() as worker:
            query = Query("select * from range(1000000)", limits=LIMITS)
            summary = worker.run(dataset, query, writing)
    finally:
        os.close(writing)
    assert not summary.complete


def test_the_time_of_a_slow_reader_does_not_count(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    seen: list[bytes] = []
    stopped, passed = threading.Event(), [0.0]
    stop = process._Clock.stop

    def stop_and_tell(clock: process._Clock) -> None:
        stop(clock)
        stopped.set()

    def read_an_hour_later() -> None:
        assert stopped.wait(60)
        passed[0] = 3600
        with os.fdopen(reading, "rb") as pipe:
            seen.append(pipe.read())

    now = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0])
    monkeypatch.setattr(process, "time", now)
    monkeypatch.setattr(process._Clock, "stop", stop_and_tell)
    reader = threading.Thread(target=read_an_hour_later)
    reader.start()
    with start_worker() as worker:
        query = Query("select * from range(50000)", limits=replace(LIMITS, seconds=60.0))
        summary = worker.run(dataset, query, writing)
    os.close(writing)
    reader.join()
    assert summary.rows == 50_000
    assert seen[0].count(b"\n") == 50_001


def test_the_parent_never_loads_a_heavy_package() -> None:
    script = (
        "import sys, tempfile\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from registry.query.model import Dataset, Query\n"
        "from registry.query.process import start_worker\n"
        "start_worker().run(Dataset(), Query('select 1'), tempfile.TemporaryFile())\n"
        "heavy = {'_duckdb', 'duckdb', 'pyarrow', 'numpy', 'pandas', 'pytz', 'click', 'pydantic'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    assert run_script(script) == "[]\n"


def test_the_child_loads_no_heavy_package_for_rows() -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from registry.query.worker import load_engine\n"
        "from registry.query.database import connect\n"
        "from registry.query.confine import count_threads\n"
        "connection = connect(load_engine())\n"
        "assert count_threads() == 1, count_threads()\n"
        "connection.execute(\"select now(), uuid(), [1.5], {'a': 1}\").fetchall()\n"
        "print(sorted({'duckdb', 'pyarrow', 'numpy', 'pandas'} & sys.modules.keys()))\n"
    )
    assert run_script(script) == "[]\n"


@pytest.mark.skipif(not confine.landlock_abi(), reason="the kernel has no Landlock")
def test_a_process_with_threads_is_not_confined() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        count = confine.count_threads()
        with pytest.raises(RuntimeError) as caught:
            confine.restrict_files([])
    finally:
        stop.set()
        thread.join()
    assert str(caught.value) == f"cannot confine a process with {count} threads, expected 1"


def test_threads_are_counted_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "_THREADS", Path("/nowhere/at/all"))
    assert confine.count_threads() == threading.active_count()


def test_a_result_needs_no_folder(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere/at/all"])
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(FileNotFoundError), tempfile.TemporaryFile():
        pass
    assert query_arrow(dataset, "select 1 as n").to_pylist() == [{"n": 1}]


def test_an_unknown_format_is_an_error(dataset: Dataset) -> None:
    with tempfile.TemporaryFile() as file, start_worker() as worker:
        with pytest.raises(QueryError) as caught:
            worker.run(dataset, Query("select 1", format="jsn"), file.fileno())
        worker.close()
    assert str(caught.value) == (
        "query: unknown format 'jsn', expected table, csv, tsv, json, jsonl, markdown, parquet,"
        " arrow; did you mean 'json'?"
    )


def test_arrow_comes_back_as_a_table(dataset: Dataset, *, landlock: bool) -> None:
    table = query_arrow(
        dataset, "select id, name from a where id > $n", {"n": 7}, landlock=landlock
    )
    assert table.equals(pa.table({"id": [8, 9], "name": ["n8", "n9"]}))


def test_arrow_works_while_threads_run(dataset: Dataset) -> None:
    answers: list[Any] = []

    def run(n: int) -> None:
        answers.append(query_arrow(dataset, "select $n as n", {"n": n}).to_pylist())

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=str) == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]


def test_an_arrow_result_is_bounded(dataset: Dataset) -> None:
    limits = replace(LIMITS, output_bytes=1 << 20)
    with pytest.raises(QueryError) as caught:
        query_arrow(dataset, "select * from range(1000000)", limits=limits)
    assert str(caught.value) == (
        "query: its result is larger than 1 MiB; select less, or write it to a Parquet file"
    )
