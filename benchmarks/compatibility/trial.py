"""Run one case under the recorder, and gather what was recorded beside what others saw of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.compatibility.case import HERE, prepare
from benchmarks.compatibility.outside import run_watched
from registry.api import open_registry

if TYPE_CHECKING:
    from benchmarks.compatibility.case import Case, Place
    from benchmarks.compatibility.outside import Watched

Row = dict[str, Any]

#: Steps at the begin of a training that count as warm-up, as the recorder has it.
N_WARMUP = 2

#: Prints the versions of distributions as JSON.
_ASK_VERSIONS = """
import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""

#: No case may reach the net, a card or another tracker, nor use more than its share of the machine.
_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
}


@dataclass
class Trial:
    """What came of a case: ``recorded`` beside ``independent`` figures, or why it did not run."""

    name: str
    date: str
    versions: Row = field(default_factory=dict)
    not_run: str = ""
    returncode: int | None = None
    outcome: str = ""
    n_observations: int = 0
    told: Row = field(default_factory=dict)
    recorded: Row = field(default_factory=dict)
    independent: Row = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)


def run_case(case: Case, place: Place) -> Trial:
    """Run a case; what it lacks is said in the trial."""
    trial = Trial(case.name, datetime.now(UTC).date().isoformat())
    trial.not_run = _find_lack(case, place, trial)
    if trial.not_run:
        return trial
    shutil.rmtree(place.work, ignore_errors=True)
    place.work.mkdir(parents=True)
    has_transformers = "transformers" in case.packages  # what another version saves it may not read
    prepare(place, "tiny.py", str(place.work), own=has_transformers)
    stamps = place.work / "stamps"
    stamps.mkdir()
    watched = _run_recorded(case, place, stamps)
    trial.returncode = watched.returncode
    trial.told = dict(case.told)
    _read_record(trial, place.work / "registry")
    if watched.returncode and not trial.n_observations:
        trial.not_run = _find_error(watched.output)
    trial.independent = _read_stopwatch(stamps, watched) | _read_output(case, watched)
    return trial


def _run(command: list[str]) -> None:
    environment = {**os.environ, **_VARIABLES}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")


def _find_lack(case: Case, place: Place, trial: Trial) -> str:
    """Return why a case cannot run; else note the versions of what it runs with."""
    if not place.python.exists():
        return f"no environment `{case.environment}`"
    command = [str(place.python), "-c", _ASK_VERSIONS, *case.packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    trial.versions = json.loads(done.stdout)
    if case.repository is not None:
        clone = place.sources / case.repository.split("/")[1]
        if not clone.exists():
            return f"no clone of {case.repository} among the sources"
        trial.versions["commit"] = _commit(clone)
    return ""


def _find_error(output: str) -> str:
    """Return the last line of an output that names an error."""
    lines = [line.strip() for line in output.splitlines() if re.match(r"\s*[\w.]*Error\b", line)]
    return f"the script ended with `{lines[-1][:200]}`" if lines else "the script failed"


def _commit(clone: Path) -> str:
    command = ["git", "-C", str(clone), "log", "-1", "--format=%h (%cs)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _run_recorded(case: Case, place: Place, stamps: Path) -> Watched:
    registry = place.work / "registry"
    program = str(Path(sys.executable).parent / "registry")
    _run([program, "init", str(registry), "--empty"])
    command = case.command(place)
    if not case.is_in_code:
        command = [program, "run", "--registry", str(registry), "--", *command]
    environment = {
        **_VARIABLES,
        "PYTHONPATH": str(HERE / "stopwatch"),
        "COMPATIBILITY_STAMPS": str(stamps),
        "HF_HOME": str(place.work / "cache"),
        "REGISTRY_PATH": str(registry),
        **case.variables,
    }
    return run_watched(
        command, environment=environment, folder=place.work, limit_seconds=case.limit_seconds
    )


def _read_record(trial: Trial, registry: Path) -> None:
    """Take the columns and figures of the observation that was recorded."""
    db = open_registry(registry, curated=False)
    results = db.query("from results order by observed_at").rows()
    trial.n_observations = len(results)
    if not results:
        return
    found = results[0]
    trial.outcome = found["outcome"]
    sql = "from samples where observation_id = $id order by step"
    steps = db.query(sql, id=found["observation_id"]).rows()
    journal = [json.loads(path.read_text()) for path in (registry / "journal").glob("*.json")]
    said = [each for document in journal for each in document["observations"]]
    columns = said[0]["configuration"]
    trial.recorded = {
        name: columns.get(name, found.get(name)) for name in ("model_id", *trial.told)
    }
    trial.recorded |= {
        "n_steps": len(steps),
        "step_time": found["seconds_per_step"],
        "samples_per_second": found["samples_per_second"],
        "peak_memory_bytes": found["peak_memory_bytes"],
    }
    for each in said:
        trial.contradictions += each.get("provenance", {}).get("contradictions", [])


def _read_stopwatch(stamps: Path, watched: Watched) -> Row:
    """Return what the stopwatch and the sampler saw; of several processes, the slowest."""
    found = [json.loads(path.read_text()) for path in stamps.glob("*.json")]
    trained = [one for one in found if len(one["ended"]) > N_WARMUP + 1]
    if not trained:
        return {}
    seconds = [_step_seconds(one) for one in trained]
    shapes = trained[0]["shapes"]
    return {
        "n_steps": len(trained[0]["ended"]),
        "step_time": max(statistics.median(each) for each in seconds),
        "steps_per_second": len(seconds[0]) / max(sum(each) for each in seconds),
        "rows": statistics.mode(rows for step in shapes for rows, _ in step),
        "width": max(width for step in shapes for _, width in step),
        "lookups": statistics.mode(len(step) for step in shapes),
        "peak_memory_bytes": sum(
            watched.peak_until(one["pid"], one["ended"][-1]) for one in trained
        ),
    }


def _step_seconds(one: Row) -> list[float]:
    """Return the seconds of the steps after the warm-up, from border to border.

    A pause before a step that is longer than a step is an evaluation or a checkpoint.
    """
    borders = zip(one["ended"], one["ended"][1:], one["began"][1:], strict=False)
    steps = [(after - before, began - before) for before, after, began in borders]
    typical = statistics.median(whole for whole, _ in steps)
    seconds = [whole - pause if pause > typical else whole for whole, pause in steps]
    return seconds[N_WARMUP - 1 :]


def _read_output(case: Case, watched: Watched) -> Row:
    found = {name: re.findall(pattern, watched.output) for name, pattern in case.printed.items()}
    return {f"printed_{name}": float(texts[-1]) for name, texts in found.items() if texts}


def write_trials(path: Path, trials: list[Trial], order: list[str]) -> None:
    """Add trials to a file, in place of earlier ones of the same names."""
    known = {row["name"]: row for row in read_trials(path)}
    known |= {trial.name: asdict(trial) for trial in trials}
    rows = [known[name] for name in order if name in known]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def read_trials(path: Path) -> list[Row]:
    """Return the trials of a file; none where it is not there."""
    return list(json.loads(path.read_text())) if path.exists() else []
