"""The software and the machine a job runs on, without names of hosts, people or folders."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from registry.measure.memory_meter import find_in_proc
from registry.measure.recording.loaded import cuda, loaded

#: Columns of ``environments`` and the distributions whose versions they hold.
_COLUMNS = {
    "torch_version": "torch",
    "transformers_version": "transformers",
    "peft_version": "peft",
    "trl_version": "trl",
    "accelerate_version": "accelerate",
    "bitsandbytes_version": "bitsandbytes",
    "deepspeed_version": "deepspeed",
    "flash_attn_version": "flash-attn",
}

#: Further distributions that change memory or speed.
_PACKAGES = (
    "apex",
    "datasets",
    "flash-attn-3",
    "kernels",
    "liger-kernel",
    "numpy",
    "optimum",
    "safetensors",
    "tokenizers",
    "torchao",
    "triton",
    "unsloth",
    "xformers",
)

#: Frameworks on top of transformers, the most specific first: module and distribution.
_FRAMEWORKS = (
    ("swift", "ms-swift"),
    ("llamafactory", "llamafactory"),
    ("axolotl", "axolotl"),
    ("unsloth", "unsloth"),
    ("trl", "trl"),
    ("transformers", "transformers"),
)

#: Environment variables that change memory or speed.
_VARIABLES = re.compile(
    r"^(OMP_NUM_THREADS|MKL_NUM_THREADS|PYTORCH_(CUDA_)?ALLOC_CONF|CUDA_LAUNCH_BLOCKING|"
    r"CUDA_DEVICE_MAX_CONNECTIONS|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|"
    r"NCCL_(P2P_DISABLE|IB_DISABLE|ALGO|PROTO|P2P_LEVEL)|BNB_CUDA_VERSION|"
    r"ACCELERATE_(MIXED_PRECISION|DYNAMO_BACKEND))$"
)


def collect_environment(*, installed: bool = False) -> dict[str, Any]:
    """Return a row of ``environments``; what cannot be found out is left out.

    Versions are those of the packages that this process has loaded; with ``installed``, of all that
    it could load.
    """
    find = find_version if installed else _loaded_version
    row = {
        **_framework(),
        **{column: find(name) for column, name in _COLUMNS.items()},
        **_accelerator(),
        **collect_host(),
        "packages": {name: found for name in _PACKAGES if (found := find(name))},
        "settings": _settings(),
    }
    return {name: value for name, value in row.items() if value not in (None, {}, "")}


def collect_host() -> dict[str, Any]:
    """Return what is known of the machine without any package."""
    return {
        "python_version": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_name(),
        "n_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "host_memory_bytes": _host_memory(),
    }


def find_version(distribution: str) -> str | None:
    """Return the version of a distribution; None where it is not installed."""
    module = loaded(distribution.replace("-", "_"))
    version = getattr(module, "__version__", None)
    if isinstance(version, str):
        return version
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(distribution)
    return None


def _loaded_version(distribution: str) -> str | None:
    name = distribution.replace("-", "_")
    return find_version(distribution) if loaded(name) is not None else None


def _framework() -> dict[str, str | None]:
    for module, distribution in _FRAMEWORKS:
        if loaded(module) is not None:
            return {"framework": distribution, "framework_version": find_version(distribution)}
    return {}


def _accelerator() -> dict[str, str | None]:
    module = cuda()
    if module is None:
        return {}
    version = loaded("torch").version
    row: dict[str, str | None] = {"cuda_version": version.cuda or version.hip}
    with suppress(Exception):  # builds without NCCL
        row["nccl_version"] = ".".join(str(part) for part in module.nccl.version())
    with suppress(Exception):  # no NVML here
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        driver = nvml.nvmlSystemGetDriverVersion()
        row["driver_version"] = driver.decode() if isinstance(driver, bytes) else driver
    return row


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = {
        name: value
        for name, value in sorted(os.environ.items())
        if _VARIABLES.match(name) and "/" not in value
    }
    torch = loaded("torch")
    if torch is None:
        return settings
    with suppress(Exception):  # switches come and go with torch's versions
        settings["num_threads"] = torch.get_num_threads()
        settings["float32_matmul_precision"] = torch.get_float32_matmul_precision()
        settings["deterministic_algorithms"] = torch.are_deterministic_algorithms_enabled()
        settings["cudnn_benchmark"] = torch.backends.cudnn.benchmark
    return settings


def _cpu_name() -> str | None:
    name = find_in_proc("cpuinfo", r"^model name\s*:\s*(.+)$")
    return " ".join(name.split()) if name else platform.processor() or platform.machine() or None


def _host_memory() -> int | None:
    kibibytes = find_in_proc("meminfo", r"^MemTotal:\s*(\d+) kB$")
    return int(kibibytes) * 1024 if kibibytes else None


def collect_provenance() -> dict[str, Any]:
    """Return how the job was started: command without paths, commit of the user's code."""
    command = " ".join(Path(word).name for word in sys.argv[:1])
    row = {"command": command or None, **_git_state()}
    return {name: value for name, value in row.items() if value is not None}


def _git_state() -> dict[str, Any]:
    script = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path.cwd()
    folder = script.parent if script.is_file() else Path.cwd()
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if changed is None else bool(changed)}


def _git(folder: Path, *arguments: str) -> str | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            # without the program that a repository may name to watch its files
            ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip()


def collect_interconnect(n_gpus: int) -> str | None:
    """Return the link between the devices of one node; None where it cannot be told."""
    if n_gpus == 1:
        return "none"
    with suppress(Exception):  # no NVML, or a driver that does not say
        return _nvlink()
    return None


def _nvlink() -> str | None:
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        with suppress(nvml.NVMLError):
            if nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED:
                remote = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
                is_switch = remote == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
                return "nvswitch" if is_switch else "nvlink"
    return "pcie"
