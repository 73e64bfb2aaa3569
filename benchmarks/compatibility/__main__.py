"""Put other people's training scripts under the recorder, and compare what it records.

Run from the checkout, in an environment with ``pip install -e '.[train,test]' -c constraints.txt``:

    python -m benchmarks.compatibility [NAME…] --sources CLONES --python trl=ENV/bin/python

Each case runs with the interpreter of its environment: "train" is the one that runs this; the
others are named with ``--python``. A framework that pins other versions needs an environment of its
own, without the registry in it. Scripts that no package installs are read from clones in CLONES,
named after their repositories. ``--list`` says what each case needs. Trials go to ``results.json``
beside this file, and from there to ``docs/compatibility.md``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.compatibility.case import HERE, Case, Place
from benchmarks.compatibility.framework_cases import CASES as FRAMEWORKS
from benchmarks.compatibility.huggingface_cases import CASES as HUGGINGFACE
from benchmarks.compatibility.judge import compare
from benchmarks.compatibility.loop_cases import CASES as LOOPS
from benchmarks.compatibility.page import format_page
from benchmarks.compatibility.trial import Trial, read_trials, run_case, write_trials

CASES: dict[str, Case] = {case.name: case for case in (*HUGGINGFACE, *LOOPS, *FRAMEWORKS)}

PAGE = HERE.parents[1] / "docs" / "compatibility.md"


def main() -> None:
    """Run the cases that are named, else all, and write the page."""
    options = parse_options()
    if options.list:
        for case in CASES.values():
            clone = f", a clone of {case.repository}" if case.repository else ""
            print(f"{case.name:18} {case.environment:10} {', '.join(case.packages)}{clone}")
        return
    pythons = dict(each.split("=", 1) for each in options.python)
    for name in [] if options.page else options.names or CASES:
        case = CASES[name]
        python = Path(pythons.get(case.environment, _default_python(case)))
        place = Place(python, options.sources.resolve(), options.work.resolve() / name)
        trial = run_case(case, place)
        write_trials(options.results, [trial], list(CASES))
        print(format_verdict(trial), flush=True)
    if options.results == RESULTS:
        PAGE.write_text(format_page(describe_trials(RESULTS)))


RESULTS = HERE / "results.json"


def parse_options() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*CASES, []], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="what each case needs")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page")
    parser.add_argument("--sources", type=Path, default=Path("sources"), metavar="CLONES")
    work = Path(tempfile.gettempdir()) / "registry-compatibility"
    parser.add_argument("--work", type=Path, default=work, help="folder for what the cases write")
    parser.add_argument("--python", action="append", default=[], metavar="ENVIRONMENT=PATH")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    return parser.parse_args()


def describe_trials(path: Path) -> list[dict[str, Any]]:
    """Return the trials of a file, each with what its case says of it."""
    known = [(trial, CASES[trial["name"]]) for trial in read_trials(path) if trial["name"] in CASES]
    return [{**trial, "title": case.title, "remark": case.remark} for trial, case in known]


def _default_python(case: Case) -> str:
    return sys.executable if case.environment == "train" else f"no-{case.environment}"


def format_verdict(trial: Trial) -> str:
    """Return what came of a trial in one line."""
    if trial.not_run or not trial.n_observations:
        return f"{trial.name}: not recorded: {trial.not_run or trial.returncode}"
    wrong = [each for each in compare(vars(trial)) if each.fits is False]
    texts = [f"{each.name} {each.recorded} is not {each.independent}" for each in wrong]
    return f"{trial.name}: {trial.outcome}, {'; '.join(texts) or 'all figures fit'}"


if __name__ == "__main__":
    main()
