"""Sixteen writers while one folds and one reads: none lost, none twice, none refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import registry
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from pathlib import Path

WRITERS = 16
ADDITIONS = 50

WRITER = """
import json, sys, registry
db = registry.open(sys.argv[1])
for number in range(int(sys.argv[3])):
    name = f"{sys.argv[2]}-{number}"
    added = db.add({
        "source": {"source_id": "crowd"},
        "observations": [{
            "outcome": "ok",
            "run_id": name,
            "configuration": {"model_id": "llama-2-7b", "method": "lora", "seq_len": number + 1},
            "measurements": [{"metric": "step_time", "value": 1.5}],
        }],
    })
    assert added.is_new
    print(added.submission_id, flush=True)
"""

FOLDER = """
import sys, registry
from pathlib import Path
db, folds, stop = registry.open(sys.argv[1]), 0, Path(sys.argv[2])
while not stop.exists():
    assert not db.fold().problems
    folds += 1
    Path(sys.argv[3]).touch()
print(folds)
"""

READER = """
import json, sys, registry
from pathlib import Path
db, counts, stop = registry.open(sys.argv[1]), [], Path(sys.argv[2])
sql = "select (select count(*) from results), (select count(distinct observation_id) from results)"
while not stop.exists():
    counts.append(list(db.query(sql).rows()[0].values()))
    Path(sys.argv[3]).touch()
print(json.dumps(counts))
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(signs: list[Path], children: list[subprocess.Popen[str]]) -> None:
    """Wait until each child has given its sign; fail where one ends before it."""
    while not all(sign.exists() for sign in signs):
        for child in children:
            assert child.poll() is None, child.communicate()[1]
        time.sleep(0.01)


def finish(child: subprocess.Popen[str]) -> list[str]:
    stdout, stderr = child.communicate(timeout=300)
    assert child.returncode == 0, stderr
    return stdout.splitlines()


def test_sixteen_writers_a_fold_and_a_reader_go_on_at_once(tmp_path: Path) -> None:
    folder, stop = tmp_path / "registry", tmp_path / "stop"
    create_registry(folder, curated=False)
    ready = [tmp_path / "folds", tmp_path / "reads"]
    programs = zip((FOLDER, READER), ready, strict=True)
    others = [start(program, folder, stop, sign) for program, sign in programs]
    wait_for(ready, others)  # both are at work before the first write
    writers = [start(WRITER, folder, number, ADDITIONS) for number in range(WRITERS)]
    acknowledged = [line for writer in writers for line in finish(writer)]
    stop.touch()
    (folds,), (counts,) = (finish(other) for other in others)
    assert int(folds) > 1
    assert len(acknowledged) == len(set(acknowledged)) == WRITERS * ADDITIONS
    seen = json.loads(counts)
    assert len(seen) > 1
    assert [n for n, _ in seen] == [n for _, n in seen] == sorted(n for n, _ in seen)
    db = registry.open(folder)
    db.fold()
    rows = db.query("select run_id, count(*) as n from observations group by all").rows()
    found = Counter({row["run_id"]: row["n"] for row in rows})
    expected = {f"{writer}-{n}" for writer in range(WRITERS) for n in range(ADDITIONS)}
    assert found == Counter(expected)
    assert list((folder / "journal").iterdir()) == []


def test_the_first_write_of_many_processes_creates_the_users_own_once(
    tmp_path: Path, command: Path, environment: dict[str, str], work: Path
) -> None:
    documents = [
        {
            "source": {"source_id": "crowd"},
            "observations": [
                {
                    "outcome": "oom",
                    "run_id": str(number),
                    "configuration": {"model_id": "llama-2-7b", "method": "lora"},
                }
            ],
        }
        for number in range(8)
    ]
    children = [
        subprocess.Popen(
            [command, "add", "-"],
            cwd=work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in documents
    ]
    for child, document in zip(children, documents, strict=True):
        assert child.stdin is not None
        child.stdin.write(json.dumps(document).encode())
        child.stdin.close()
        child.stdin = None
    for child in children:
        _, stderr = child.communicate(timeout=300)
        assert (child.returncode, stderr) == (0, b"")
    own = tmp_path / "data" / "peft-registry" / "records"
    assert len(list((own / "journal").iterdir())) == 8
    assert [path.name for path in own.parent.iterdir()] == ["records"]
