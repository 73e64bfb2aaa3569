"""Kill 200 writers and 200 folds at random instants, and see that nothing is lost or half there.

Usage: python benchmarks/crash.py [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run the crash tests at their full size; return pytest's exit status."""
    rounds = sys.argv[1] if len(sys.argv) > 1 else "200"
    tests = [f"tests/acceptance/test_{name}.py" for name in ("crash", "concurrency")]
    arguments = ["-m", "pytest", "-s", "-p", "no:cacheprovider", "--durations=0", *tests]
    environment = {**os.environ, "REGISTRY_CRASH_ROUNDS": rounds}
    return subprocess.run(
        [sys.executable, *arguments], cwd=CHECKOUT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
