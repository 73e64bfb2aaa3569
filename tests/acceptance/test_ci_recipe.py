"""The recipe of examples/ci, run as far as a machine without GitHub can.

What is not run here is what needs GitHub or an index of packages: the actions, and the steps called
Install, in whose place the environments of the recipe see this one's packages.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

RECIPE = Path(__file__).parents[2] / "examples" / "ci"
WORKFLOW: dict[str, Any] = yaml.safe_load((RECIPE / "training.yml").read_text(encoding="utf-8"))
OWN_SCRIPT: dict[str, Any] = yaml.safe_load((RECIPE / "own-script.yml").read_text(encoding="utf-8"))
JOBS: dict[str, Any] = WORKFLOW["jobs"] | OWN_SCRIPT["jobs"]

#: How GitHub runs a step whose shell is bash.
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]

needs_torch = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "peft")),
    reason="torch, transformers and peft are not installed",
)


class Runner:
    """A checkout of a repository that follows the recipe, and the variables that GitHub sets."""

    def __init__(self, folder: Path, origin: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.summary = folder.with_suffix(".md")
        self.summary.touch()
        git(folder.parent, "clone", "--quiet", str(origin), str(folder))
        given = {
            name: str(value).replace("${{ github.workspace }}", str(folder))
            for name, value in (WORKFLOW["env"] | OWN_SCRIPT["env"]).items()
        }
        self.environment = {
            **environment,
            **given,
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_BASE_REF": "main",
            "ROUNDS": "1",
            "TIME_FACTOR": "50",  # of one run on a machine that tests keep busy
            "MEMORY_FACTOR": "2",
        }

    def run_job(self, name: str) -> int:
        """Run a job's steps up to the first that fails; return its exit status."""
        for step in JOBS[name]["steps"]:
            if "run" not in step or step["name"] == "Install":
                continue
            done = self.run(step["run"])
            if done.returncode:
                return done.returncode
        return 0

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a step's script."""
        file = self.folder.with_suffix(".sh")
        file.write_text(script, encoding="utf-8")
        done = subprocess.run(
            [*BASH, str(file)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert "${{" not in script
        assert "Traceback" not in done.stderr, done.stderr
        return done


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Return a repository with the recipe in it, its plan made short."""
    folder = tmp_path / "origin"
    (folder / "ci").mkdir(parents=True)
    plan = (RECIPE / "plan.toml").read_text(encoding="utf-8")
    for long, short in (
        ("steps = 20", "steps = 4"),
        ("repeats = 3", "repeats = 1"),
        ('method = ["lora", "full"]', 'method = ["lora"]'),
        ("hidden_size = 256", "hidden_size = 64"),
    ):
        assert plan.count(long) == 1
        plan = plan.replace(long, short)
    (folder / "ci" / "plan.toml").write_text(plan, encoding="utf-8")
    (folder / "requirements.txt").write_text("torch\ntransformers\npeft\n", encoding="utf-8")
    (folder / ".gitignore").write_text(".registry/\nbase/\nhead/\n", encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", str(folder))
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")


def make_environments(folder: Path) -> None:
    """Make base/ and head/, which see the packages that this interpreter sees."""
    for name in ("base", "head"):
        venv.create(folder / name, with_pip=False)
        python = folder / name / "bin" / "python"
        script = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
        packages = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        Path(found.stdout.strip(), "shared.pth").write_text(packages, encoding="utf-8")


def test_every_step_is_an_action_or_a_script_that_bash_can_read() -> None:
    for job in JOBS.values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                known = r"actions/(checkout|setup-python|upload-artifact)@v\d"
                assert re.fullmatch(known, step["uses"])
            else:
                subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
    assert WORKFLOW["defaults"]["run"]["shell"] == "bash"
    assert JOBS["script-against-the-base"]["defaults"]["run"]["shell"] == "bash"


def test_the_baseline_is_measured_by_hand_and_the_others_for_each_pull_request() -> None:
    conditions = {name: job["if"].partition("== ")[2] for name, job in WORKFLOW["jobs"].items()}
    assert conditions == {
        "baseline": "'workflow_dispatch'",
        "against-the-baseline": "'pull_request'",
        "against-the-base": "'pull_request'",
    }
    on: Any = True  # what YAML makes of the word
    assert WORKFLOW[on] == {"pull_request": None, "workflow_dispatch": None}
    assert OWN_SCRIPT[on] == {"pull_request": None}
    assert WORKFLOW["permissions"] == OWN_SCRIPT["permissions"] == {"contents": "read"}


def test_the_install_steps_install_the_registry_and_the_requirements() -> None:
    for job in JOBS.values():
        (script,) = (step["run"] for step in job["steps"] if step.get("name") == "Install")
        installs = [line for line in script.splitlines() if "pip install" in line]
        assert all('requirements.txt "$REGISTRY"' in line for line in installs)


@needs_torch
def test_a_pull_request_is_measured_against_the_baseline_and_the_base(
    origin: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    by_hand = Runner(tmp_path / "by-hand", origin, environment)
    assert by_hand.run_job("baseline") == 0
    baseline = by_hand.folder / "ci" / "baseline.jsonl"
    (origin / "ci" / "baseline.jsonl").write_bytes(baseline.read_bytes())
    commit(origin)

    runner = Runner(tmp_path / "against-the-baseline", origin, environment)
    assert runner.run_job("against-the-baseline") == 0
    summary = runner.summary.read_text(encoding="utf-8").splitlines()
    assert summary[0] == "### Training: label=baseline → label=head"
    assert summary[2].startswith(
        "**Cannot be told for 1 of 1 whether it is worse by more than a factor of 50 in time or 2 "
    )  # one run a side

    runner = Runner(tmp_path / "against-the-base", origin, environment)
    make_environments(runner.folder)
    status = runner.run_job("against-the-base")
    summary = runner.summary.read_text(encoding="utf-8").splitlines()
    assert summary[0] == "### Training: base → head"
    assert (status, summary[2][:32]) == (0, "**Cannot be told for 1 of 1 whet")  # one round


@pytest.fixture
def runner(
    origin: Path,
    tmp_path: Path,
    environment: dict[str, str],
    submission: Any,
) -> Runner:
    """Return a checkout whose registry holds a baseline of three runs, and no head."""
    lines = [json.dumps(labelled(submission(), "baseline", n, 1.0 + n / 100)) for n in range(3)]
    (origin / "ci" / "baseline.jsonl").write_text("\n".join(lines), encoding="utf-8")
    commit(origin)
    runner = Runner(tmp_path / "checkout", origin, environment)
    assert runner.run('registry init "$REGISTRY_PATH" --empty').returncode == 0
    assert runner.run("registry add ci/baseline.jsonl").returncode == 0
    return runner


def find_script(name: str, job: dict[str, Any]) -> str:
    (script,) = (step["run"] for step in job["steps"] if step.get("name") == name)
    return str(script)


def labelled(document: dict[str, Any], label: str, number: int, seconds: float) -> dict[str, Any]:
    observation = document["observations"][0]
    observation |= {"run_id": f"{label}-{number}", "provenance": {"label": label}}
    observation["measurements"][0]["value"] = "8 GiB"
    observation["measurements"].append({"metric": "step_time", "value": seconds})
    return document


@pytest.mark.parametrize(
    ("seconds", "memory", "status"),
    [(1.0, 1.0, 0), (60.0, 1.0, 1), (1.0, 2.5, 1)],
)
def test_the_exit_status_of_the_comparison_is_that_of_the_job(
    runner: Runner, submission: Any, seconds: float, memory: float, status: int
) -> None:
    for number in range(3):
        document = labelled(submission(), "head", number, seconds * (1 + number / 100))
        document["observations"][0]["measurements"][0]["value"] = f"{8 * memory} GiB"
        (runner.folder / "head.json").write_text(json.dumps(document), encoding="utf-8")
        assert runner.run("registry add head.json").returncode == 0
    done = runner.run(find_script("Compare", JOBS["against-the-baseline"]))
    assert done.returncode == status, done.stderr
    assert runner.summary.read_text(encoding="utf-8") == done.stdout
    assert ("**1 of 1 is worse" in done.stdout) == (status == 1)


def test_a_head_that_was_not_measured_does_not_pass_and_the_summary_says_so(
    runner: Runner,
) -> None:
    done = runner.run(find_script("Compare", JOBS["against-the-baseline"]))
    problem = "label=head: selects no observation; expected one of baseline"
    assert done.returncode == 2
    assert problem in done.stderr
    summary = runner.summary.read_text(encoding="utf-8").splitlines()
    assert summary[0] == "### Training: label=baseline → label=head"
    assert summary[2].startswith(f"**Nothing could be compared:** {problem}")


#: A script of one's own: it leaves a record as the recorder does, unless a file says otherwise.
LEAVES_A_RECORD = """
import json, os, pathlib, secrets, sys
if pathlib.Path("broken").exists():
    sys.exit("train.py: unknown argument")
if not pathlib.Path("untrained").exists():
    record = json.loads(pathlib.Path("record.json").read_text())
    record["observations"][0]["run_id"] = secrets.token_hex(4)
    folder = pathlib.Path(os.environ["REGISTRY_RECORD_FOLDER"])
    (folder / "record-0-1-1.json").write_text(json.dumps(record))
"""

#: A loop without a Trainer.
LOOP = """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Embedding(64, 16), torch.nn.Linear(16, 64))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    tokens = torch.randint(0, 64, (4, 32))
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.fixture
def own_script(
    origin: Path, tmp_path: Path, environment: dict[str, str], submission: Any
) -> Runner:
    """Return a checkout of a repository with a script of its own, which has two rounds to run."""
    document = submission()
    document["source"]["kind"] = "run"
    document["observations"][0]["measurements"].append({"metric": "step_time", "value": 1.0})
    (origin / "record.json").write_text(json.dumps(document), encoding="utf-8")
    (origin / "train.py").write_text(LEAVES_A_RECORD, encoding="utf-8")
    commit(origin)
    runner = Runner(tmp_path / "checkout", origin, environment)
    runner.environment |= {"ROUNDS": "2"}
    return runner


@pytest.mark.parametrize(
    ("change", "status", "verdict"),
    [
        ("README", 0, "**Not worse: none of 1 is worse by more than a factor of 50 in time or 2 "),
        ("broken", 2, "**Nothing could be compared:** label=head-"),
        ("untrained", 2, "**Nothing could be compared:** label=head-"),
    ],
)
def test_a_script_of_ones_own_is_held_against_the_base(
    own_script: Runner, change: str, status: int, verdict: str
) -> None:
    (own_script.folder / change).touch()
    commit(own_script.folder)
    found = own_script.run_job("script-against-the-base")
    summary = own_script.summary.read_text(encoding="utf-8").splitlines()
    assert summary[0].startswith("### Training: label=base-")
    assert summary[2].startswith(verdict)
    assert found == status


def test_a_script_that_gets_slower_fails_the_job(own_script: Runner) -> None:
    record = own_script.folder / "record.json"
    document = json.loads(record.read_text(encoding="utf-8"))
    document["observations"][0]["measurements"][-1]["value"] = 60.0
    record.write_text(json.dumps(document), encoding="utf-8")
    commit(own_script.folder)
    assert own_script.run_job("script-against-the-base") == 1
    assert "**1 of 1 is worse by more" in own_script.summary.read_text(encoding="utf-8")


@needs_torch
def test_a_loop_of_ones_own_is_measured(own_script: Runner, origin: Path) -> None:
    (origin / "train.py").write_text(LOOP, encoding="utf-8")
    commit(origin)
    git(own_script.folder, "pull", "--quiet")
    assert own_script.run_job("script-against-the-base") == 0
    summary = own_script.summary.read_text(encoding="utf-8")
    assert "| 2, 2 |" in summary
    assert "did not alternate" not in summary
