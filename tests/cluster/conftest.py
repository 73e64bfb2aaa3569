"""Clusters of the real engines on this machine, and the command that runs plans on them.

A Slurm of two nodes with four GPUs each, which are ``/dev/null``, without systemd and cgroups. All
of it runs in a network of its own that has loopback only: see ``.ci/cluster``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from registry.api import open_registry
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Set by ``.ci/cluster`` where the network has loopback only: what listens, nobody else can reach.
ALONE = "REGISTRY_TEST_ALONE"

#: An address for documentation (RFC 5737): Slurm resolves no name where there is only 127.0.0.1.
ADDRESS = "192.0.2.1/32"

CONFIGURATION = """
ClusterName=sim
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/pid/slurmctld.pid
SlurmdPidFile={folder}/pid/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=2
GresTypes=gpu
KillWait=5
JobRequeue=1
MinJobAge=300
SlurmdTimeout=20
"""


#: What a node of Ray may take of the memory of this machine.
RAY_NODE = {"object_store_memory": 80_000_000, "include_dashboard": False}


def end_process(pid: int, seconds: float = 10) -> None:
    """End a process by its pid: asked first, then killed."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            os.kill(pid, 0)
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)


def _wait_until(holds: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Wait until something holds; fail with what was waited for."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s in vain until {what}")
        time.sleep(0.1)


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Give what waits until something holds."""
    return _wait_until


@dataclass
class SlurmCluster:
    """Nodes with four GPUs and eight processors each; up from ``start`` to ``stop``."""

    folder: Path
    nodes: tuple[str, ...] = ("sim0", "sim1")

    @property
    def environment(self) -> dict[str, str]:
        """The variable by which Slurm's commands find the cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        for name in ("state", "spool", "log", "pid", "gpu", "munge"):
            (self.folder / name).mkdir(mode=0o700)
        subprocess.run(["ip", "addr", "add", ADDRESS, "dev", "lo"], check=False)
        self._start_munge()
        self._write_configuration()
        subprocess.run(["slurmctld", "-f", self.environment["SLURM_CONF"]], check=True)
        for name in self.nodes:
            self.start_node(name)
        _wait_until(lambda: self.count_idle() == len(self.nodes), "all nodes are idle")

    def _start_munge(self) -> None:
        munge = self.folder / "munge"
        (munge / "key").write_bytes(secrets.token_bytes(128))
        (munge / "key").chmod(0o600)
        options = {
            "key-file": munge / "key",
            "socket": munge / "socket",
            "pid-file": self.folder / "pid" / "munged.pid",
            "log-file": munge / "log",
            "seed-file": munge / "seed",
        }
        stated = [f"--{name}={path}" for name, path in options.items()]
        subprocess.run(["munged", "--force", *stated], check=True)  # whoever owns the folders

    def _write_configuration(self) -> None:
        host, gres, nodes = socket.gethostname().split(".")[0], "", ""
        for number, name in enumerate(self.nodes):
            (self.folder / "spool" / name).mkdir()
            for gpu in range(4):  # Slurm refuses plain files
                path = self.folder / "gpu" / f"{name}-{gpu}"
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            gres += f"NodeName={name} Name=gpu Type=h100 File={self.folder}/gpu/{name}-[0-3]\n"
            nodes += (
                f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={17000 + number} "
                "CPUs=8 RealMemory=64000 Gres=gpu:h100:4 State=UNKNOWN\n"
            )
        nodes += f"PartitionName=sim Nodes={','.join(self.nodes)} Default=YES MaxTime=120\n"
        text = CONFIGURATION.format(host=host, folder=self.folder)
        (self.folder / "gres.conf").write_text(gres)
        (self.folder / "slurm.conf").write_text(text + nodes)

    def start_node(self, name: str) -> None:
        subprocess.run(["slurmd", "-f", self.environment["SLURM_CONF"], "-N", name], check=True)

    def kill_node(self, name: str) -> None:
        """End a node's daemon and all that it runs, as when its power fails."""
        jobs = self.ask("squeue", "-h", "-t", "RUNNING", "-w", name, "-o", "%A").split()
        pids = [int((self.folder / "pid" / f"slurmd-{name}.pid").read_text())]
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                title = " ".join(process.cmdline())
                if title.startswith("slurmstepd") and any(f"[{job}." in title for job in jobs):
                    pids += [
                        process.pid,
                        *(child.pid for child in process.children(recursive=True)),
                    ]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ask("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=test")

    def count_idle(self) -> int:
        return self.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").count("sim")

    def ask(self, *command: str) -> str:
        """Return what a command of Slurm prints."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return done.stdout + done.stderr

    def list_jobs(self, state: str = "RUNNING") -> list[str]:
        """Return the ids of the jobs in a state."""
        return self.ask("squeue", "-h", "-r", "-t", state, "-o", "%i").split()

    def stop(self) -> None:
        self.ask("scancel", "--user=root")
        pids = sorted((self.folder / "pid").glob("*.pid"), key=lambda path: path.stem == "munged")
        for path in pids:
            end_process(int(path.read_text()))


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Give a Slurm of two nodes."""
    _skip_without("slurm", "submitit", ("slurmctld", "slurmd", "munged", "ip"))
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _skip_without(name: str, module: str, programs: tuple[str, ...] = ()) -> None:
    missing = [each for each in programs if not shutil.which(each)]
    if importlib.util.find_spec(module) is None or importlib.util.find_spec("torch") is None:
        pytest.skip(f"needs {module} and torch: pip install '.[test,train,{name}]'")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if not os.environ.get(ALONE):
        pytest.skip("needs a network of its own: run .ci/cluster")


TINY = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


#: The module that makes a trial's steps.
JOB = "registry.measure.running.job"


def _stop_job(folder: Path) -> psutil.Process | None:
    """Stop the job of an attempt, and return its process; nothing where it has ended."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            said = process.cmdline()
            if JOB in said and any(part.startswith(f"{folder}/") for part in said):
                process.suspend()
                return process
    return None


@dataclass
class Sweeps:
    """A registry, and sweeps that are recorded in it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def write_plan(
        self, *, ranks: tuple[int, ...] = (2,), include: dict[str, Any] | None = None, **stated: Any
    ) -> Path:
        """Write a plan of tiny models: one trial for each rank, and perhaps another one."""
        base = {
            "device": "cpu",
            "dtype": "fp32",
            "seq_len": 16,
            "steps": 3,
            "warmup_steps": 1,
            "timeout_seconds": 120,
            "model": "tiny",
            **stated,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in base.items()]
        lines += ["[matrix]", f"lora_rank = {list(ranks)}", "[models.tiny]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in TINY.items()]
        if include:
            lines += ["[[include]]", *(f"{k} = {json.dumps(v)}" for k, v in include.items())]
        path = self.folder.parent / "plan.toml"
        path.write_text("\n".join(lines))
        return path

    def start(self, plan: Path, *options: str) -> subprocess.Popen[str]:
        """Start the command."""
        command = [sys.executable, "-m", "registry", "--registry", str(self.folder)]
        return subprocess.Popen(
            [*command, "run", str(plan), *options],
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, plan: Path, *options: str, status: int = 0) -> str:
        """Run the command to its end; return what it said."""
        process = self.start(plan, *options)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == status, said
        return said

    def recorded(self) -> list[dict[str, Any]]:
        """Return what is recorded, in the order of the plan."""
        sql = (
            "select c.*, o.outcome, o.outcome_detail, o.provenance, e.settings "
            "from observations as o join configurations as c using (configuration_id) "
            "left join environments as e using (environment_id) "
            "order by c.lora_rank, o.observed_at"
        )
        return open_registry(self.folder, curated=False).query(sql).rows()

    def outcomes(self) -> list[tuple[int, str]]:
        """Return rank and outcome of all that is recorded."""
        return [(row["lora_rank"], row["outcome"]) for row in self.recorded()]

    def wait_for_steps(self, count: int) -> None:
        """Wait until as many trials are in the midst of their steps.

        On a busy machine the first ones might end before the last one begins: they are stopped
        until it has made a step.
        """
        held: dict[Path, psutil.Process] = {}

        def hold_all() -> bool:
            for folder in self._list_stepping() - held.keys():
                if process := _stop_job(folder):
                    held[folder] = process
            return len(held) >= count

        try:
            _wait_until(hold_all, f"{count} trials make steps")
        finally:
            for process in held.values():
                with suppress(psutil.Error):
                    process.resume()

    def _list_stepping(self) -> set[Path]:
        """Return the folders of the attempts that have made a step, and not ended."""
        folders = set()
        for path in self.find("result.jsonl"):
            with suppress(FileNotFoundError):  # ended meanwhile
                if '"step"' in path.read_text():
                    folders.add(path.parent)
        return folders

    def find(self, name: str) -> list[Path]:
        """Return the files of a name among the trials' folders."""
        return sorted((self.folder / "runs").glob(f"*/**/{name}"))


@pytest.fixture
def sweeps(tmp_path: Path) -> Sweeps:
    """Give an empty registry."""
    folder = tmp_path / "registry"
    create_registry(folder)
    return Sweeps(folder)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """Give a Ray of two nodes with four GPUs and four processors each, beside a head without."""
    _skip_without("ray", "ray")
    quick = {"period_ms": "500", "timeout_ms": "500", "failure_threshold": "3"}
    os.environ |= {f"RAY_health_check_{name}": value for name, value in quick.items()}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - reads the environment

    folder = tempfile.mkdtemp(prefix="ray-")  # the paths of its sockets have to be short
    os.environ["RAY_TMPDIR"] = folder
    head = {"num_cpus": 0, "num_gpus": 0, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**head, **RAY_NODE})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=4, num_gpus=4, **RAY_NODE)
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
