"""Read a spec from standard input, make the dry run, write its result: JSON in, JSON out."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any, TextIO

from registry.errors import RegistryError
from registry.measure.running.plan_model import parse_settings
from registry.predict.dryrun import Recipe, dry_run


def main(spec_file: TextIO, answer_file: TextIO) -> int:
    """Answer one spec; return the exit status."""
    spec = json.load(spec_file)
    try:
        with redirect_stdout(sys.stderr):  # libraries print; the answer has this channel alone
            answer = {"dry_run": asdict(_run(spec))}
    except RegistryError as error:
        json.dump({"error": str(error)}, answer_file)
        return 1
    json.dump(answer, answer_file)
    return 0


def _run(spec: dict[str, Any]) -> Any:
    settings = parse_settings(spec["settings"], "settings")
    return dry_run(settings, spec["model"], recipe=Recipe(**spec.get("recipe", {})))


if __name__ == "__main__":
    sys.exit(main(sys.stdin, sys.stdout))
