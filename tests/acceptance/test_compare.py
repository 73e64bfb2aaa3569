"""`registry compare` as a user calls it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]


METRICS = frozenset({"n_steps", "train_time"})

#: What a loop's recording says of itself.
LOOP = {"recorder": "0.1.0", "trainer": "loop"}


@pytest.fixture
def hand_in(
    record: Callable[..., Any], submission: Callable[..., dict[str, Any]]
) -> Callable[..., None]:
    """Return a function that records runs: (length, outcome, seconds) of one source and version."""

    def add(source: str, version: str, *runs: tuple[int, str, float], **more: Any) -> None:
        documents = []
        for number, (length, outcome, seconds) in enumerate(runs):
            document = submission()
            document["source"]["source_id"] = source
            observation = document["observations"][0]
            observation["run_id"] = f"{source}-{number}"
            observation["outcome"] = outcome
            observation["configuration"]["seq_len"] = length
            if not length:  # it failed before that was known
                del observation["configuration"]["seq_len"]
            observation["configuration"] |= more.get("configured", {})
            observation["environment"] = {"peft_version": version}
            apart = (*METRICS, "configured", "statistic")
            observation |= {name: more[name] for name in more if name not in apart}
            figures = {"step_time": seconds} | {name: more[name] for name in METRICS & more.keys()}
            observation["measurements"] = [
                {"metric": metric, "value": value, "statistic": more.get("statistic", "value")}
                for metric, value in figures.items()
            ]
            if outcome != "ok":
                observation["outcome_detail"] = "it failed"
                del observation["measurements"]
            documents.append(document)
        record(*documents)

    return add


def compared(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the configurations of an answer in JSON."""
    found = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))[
        "configurations"
    ]
    assert isinstance(found, list)
    return found


WELL = [(64, "ok", 1.0), (64, "ok", 1.01), (128, "ok", 2.0), (128, "ok", 2.02)]


@pytest.mark.parametrize("outcome", ["oom", "error"])
def test_what_was_ok_and_fails_is_the_first_line(
    run: Run, hand_in: Callable[..., None], outcome: str
) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *WELL[:2], (128, outcome, 0.0), (128, outcome, 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith(
        f"WAS OK, IS {outcome.upper()} IN 2 OF 2 RUNS: model="
    )
    assert done.stdout.splitlines()[0].endswith("seq_len=128")
    assert run("compare", "old-release", "new-release").returncode == 0


def test_of_several_failures_a_lack_of_memory_comes_first(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("a", "90.1", *WELL)  # ids of sources are taken whole, however short
    hand_in("b", "91.0", (64, "error", 0.0), (64, "error", 0.0), (128, "oom", 0.0))
    done = run("compare", "a", "b", "--fail")
    assert done.returncode == 1
    assert done.stdout.startswith("WAS OK, IS OOM: ")


def test_what_is_missing_fails(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *WELL[:2])
    done = run("compare", "old-release", "new-release", "--fail")
    assert (done.returncode, done.stdout[:20]) == (1, "WAS OK, IS MISSING: ")


@pytest.mark.parametrize("outcome", ["not_run", "unknown"])
def test_what_no_run_of_b_is_said_to_have_ended_well_is_missing(
    run: Run, hand_in: Callable[..., None], outcome: str
) -> None:
    hand_in("old-release", "90.1", *WELL[:2])
    hand_in("new-release", "91.0", (64, outcome, 0.0), (64, outcome, 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert (done.returncode, done.stdout[:20]) == (1, "WAS OK, IS MISSING: ")
    assert f"  note    {outcome} in 2 of 2 runs of b\n" in done.stdout
    assert run("compare", "new-release", "old-release", "--fail").returncode == 0


def test_single_runs_are_told_apart_by_their_outcome(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", WELL[0])
    hand_in("new-release", "91.0", (64, "oom", 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert (done.returncode, done.stdout[:16]) == (1, "WAS OK, IS OOM: ")


def test_versions_of_a_package_are_compared_and_repeats_give_the_noise(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *((length, "ok", 1.3 * seconds) for length, _, seconds in WELL))
    done = run("compare", "peft=90", "peft=91.0", "--fail", "-f", "json")
    found = compared(done)
    assert done.returncode == 1
    assert [(len(one["a"]), len(one["b"]), one["worse"]) for one in found] == [(2, 2, True)] * 2
    assert all(1.2 < one["time"]["low"] < 1.3 < one["time"]["high"] < 1.4 for one in found)
    assert "selects no observation" in run("compare", "peft=0.2", "peft=9").stderr


def test_noise_is_not_worse(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", (64, "ok", 1.0), (64, "ok", 1.3))
    hand_in("new-release", "91.0", (64, "ok", 1.1), (64, "ok", 1.35))
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 0
    assert "2 and 2 runs" in done.stdout


def labelled(label: str) -> dict[str, Any]:
    return {"provenance": {"label": label}}


def test_labels_are_compared(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("first", "90.1", *WELL, **labelled("main"))
    hand_in("second", "90.1", *((n, "ok", 2 * t) for n, _, t in WELL), **labelled("my branch"))
    done = run("compare", "label=main", "label=my branch", "--fail", "-f", "json")
    assert done.returncode == 1
    assert [round(one["time"]["value"]) for one in compared(done)] == [2, 2]
    listed = json.loads(run("ls", "--label", "my branch", "-f", "json").stdout)
    assert {row["source_id"] for row in listed} == {"second"}
    assert len(listed) == len(WELL)
    refused = run("ls", "--label", "my-branch")
    assert refused.returncode == 2
    assert "label 'my-branch' is not known; did you mean 'my branch'?" in refused.stderr
    unknown = run("compare", "label=main", "label=my-branch")
    assert unknown.returncode == 2
    assert unknown.stderr.splitlines()[-1] == (
        "error: label=my-branch: selects no observation; did you mean 'my branch'?; expected one "
        "of main, my branch; a run gets one with: registry run --label NAME -- CMD, or registry "
        "run PLAN --label NAME"
    )


def test_the_same_runs_on_both_sides_are_no_comparison(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("runs", "90.1", *WELL)
    done = run("compare", "runs", "runs")
    assert (done.returncode, done.stdout) == (2, "")
    assert "4 runs are on both sides; expected two sets of runs; all are from one" in done.stderr
    hand_in("others", "91.0", *WELL)
    done = run("compare", "peft=90.1", "runs")
    assert "peft=90.1 and runs: 4 runs are on both sides; expected" in done.stderr


def test_the_way_out_of_sides_that_overlap_works(run: Run, hand_in: Callable[..., None]) -> None:
    same = {"peft_version": "90.1"}
    hand_in("runs", "90.1", *WELL)
    done = run("compare", "peft=90.1", "runs")
    assert "run each release under its own label (registry run --label NAME" in done.stderr
    assert done.stderr.endswith("compare with: registry compare label=NAME label=OTHER\n")
    hand_in("first", "", *WELL, environment=same, **labelled("A"))
    way_out = run("compare", "label=A", "label=A").stderr.strip().rpartition("with: registry ")[2]
    assert way_out == "compare label=A label=NAME"
    hand_in("second", "", *WELL, environment=same, **labelled("NAME"))  # what it asks for
    assert run(*way_out.split()).returncode == 0
    way_out = run("compare", "peft=90.1", "label=A").stderr.strip().rpartition("with: registry ")[2]
    assert set(way_out.split()) == {"compare", "label=A", "label=NAME"}
    assert run(*way_out.split()).returncode == 0


def test_the_way_out_of_versions_of_which_one_selects_the_other(
    run: Run, hand_in: Callable[..., None]
) -> None:
    for version in ("90.1", "90.1.2", "90.2"):
        hand_in("runs", version, *WELL)
    way_out = run("compare", "peft=90", "runs").stderr.strip().rpartition("with: registry ")[2]
    assert way_out == "compare peft=90.1 peft=90.2"
    assert run(*way_out.split()).returncode == 0


def test_two_releases_in_one_selection_are_named_with_the_way_to_compare_them(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("old-release", "90.2", (64, "ok", 1.2), (128, "ok", 2.4))
    done = run("compare", "old-release", "old-release")
    assert (done.returncode, done.stdout) == (2, "")
    assert "and they are from several releases (peft 90.1, 90.2); expected two" in done.stderr
    way_out = done.stderr.strip().rpartition("compare them with: registry ")[2]
    assert way_out == "compare peft=90.1 peft=90.2"
    assert run(*way_out.split()).returncode == 0
    hand_in("new-release", "91.0", *WELL)
    done = run("compare", "old-release", "new-release")
    assert done.returncode == 0
    assert (
        "warning: A (old-release) pools runs from several releases: peft 90.1, 90.2; select one by "
        "its label or version (registry environments lists them)\n"
    ) in done.stderr


def test_other_threads_kernel_and_memory_are_named_and_no_hindrance(
    run: Run, hand_in: Callable[..., None]
) -> None:
    host = {"os": "Linux 6.1", "n_cpus": 4, "host_memory_bytes": 2**34}
    other = {"os": "Linux 6.8", "n_cpus": 4, "host_memory_bytes": 2**35}
    threads = ({"settings": {"OMP_NUM_THREADS": n}} for n in ("1", "2"))
    one, two = (
        {"peft_version": "90.1", **each, **more}
        for each, more in zip((host, other), threads, strict=True)
    )
    hand_in("first", "", *WELL, environment=one, observed_at="2026-05-01T10:00:00Z")
    hand_in("second", "", *WELL, environment=two, observed_at="2026-05-02T10:00:00Z")
    done = run("compare", "first", "second", "--fail")
    assert done.returncode == 0
    assert done.stdout.count("time    b / a = 1.000") == 2
    assert done.stderr.splitlines() == [
        "differs: os: Linux 6.1 → Linux 6.8",
        "differs: host_memory_bytes: 17179869184 → 34359738368",
        "differs: OMP_NUM_THREADS: 1 → 2",
        (
            "warning: the runs of A and B did not alternate, so whatever changed on the machine "
            "between them also affects the ratio; for a plan, registry bench alternates A and B; "
            "for a command, alternate registry run --label A -- CMD and registry run --label B "
            "-- CMD several times"
        ),
    ]


def test_a_command_is_not_sent_to_bench(run: Run, hand_in: Callable[..., None]) -> None:
    for day, name in enumerate(("old", "new"), start=1):
        more = {"provenance": {"label": name, **LOOP}, "observed_at": f"2026-05-0{day}T10:00:00Z"}
        hand_in(name, "90.1", *WELL, **more)
    said = run("compare", "label=old", "label=new").stderr
    assert "did not alternate" in said
    assert "for a command, alternate registry run --label A -- CMD and" in said
    assert "bench" not in said


def test_a_summary_for_a_pull_request(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *WELL[:2], (128, "oom", 0.0), (128, "oom", 0.0))
    done = run("compare", "old-release", "new-release", "--fail", "-f", "markdown")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "### Training: old-release → new-release",
        "",
        "**1 of 2 is worse: it fails.**",
        "",
        "| configuration | outcome | time b / a | memory b / a | runs a, b | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
        (
            "| model=llama-2-7b method=lora seq\\_len=128 | **was ok, is oom in 2 of 2 runs** "
            "|  |  | 2, 0 | worse: outcome |"
        ),
        (
            "| model=llama-2-7b method=lora seq\\_len=64 | ok | 1.000 (0.970 to 1.031) |  | 2, 2 "
            "| not worse |"
        ),
        "",
        "What differs: peft: 90.1 → 91.0.",
        "",
        "- model=llama-2-7b method=lora seq\\_len=128: oom in 2 of 2 runs of b.",
    ]


UNTOLD = "cannot be told for 1 of 1 whether it is worse by more than a factor of 1.05; "


def test_one_run_a_side_gives_no_verdict(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", (64, "ok", 1.0))
    hand_in("new-release", "91.0", (64, "ok", 1.201))
    sides = ("compare", "old-release", "new-release", "--fail")
    done = run(*sides)
    way_out = "run both sides again: an interval needs two runs on each"
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == [
        "  verdict cannot be told: no interval of time",
        f"{UNTOLD}{way_out}",
    ]
    (found,) = compared(run(*sides, "-f", "json"))
    assert found["time"]["value"] == pytest.approx(1.201)
    assert (found["worse"], found["verdict"]) == (False, "cannot be told")
    assert found["why"] == ["no interval of time"]
    summary = run(*sides, "-f", "markdown").stdout
    assert f"**C{UNTOLD[1:]}{way_out}.**" in summary
    assert "| 1.201 |  | 1, 1 | cannot be told: no interval of time |" in summary


def test_an_interval_across_the_factor_gives_no_verdict(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", (64, "ok", 1.0), (64, "ok", 1.3), *WELL[2:])
    hand_in("new-release", "91.0", (64, "ok", 1.1), (64, "ok", 1.2), *WELL[2:])
    sides = ("compare", "old-release", "new-release", "--fail")
    for form in ("text", "markdown"):
        done = run(*sides, "-f", form)
        assert done.returncode == 0
        assert UNTOLD[1:].replace("1 of 1", "1 of 2") + "1 is not worse; more" in done.stdout
        assert "none of 2" not in done.stdout.lower()
    verdicts = {each["verdict"] for each in compared(run(*sides, "-f", "json"))}
    assert verdicts == {"cannot be told", "not worse"}


def test_what_is_not_worse_says_so_in_the_last_line(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *WELL)
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == (
        "not worse: none of 2 is worse by more than a factor of 1.05"
    )


def test_a_failure_is_said_even_where_a_fails_as_well(
    run: Run, hand_in: Callable[..., None]
) -> None:
    mixed = (*WELL[:2], (64, "error", 0.0))
    hand_in("old-release", "90.1", *mixed)
    hand_in("new-release", "91.0", *mixed, (256, "oom", 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 0
    assert "  note    error in 1 of 3 runs of a\n" in done.stdout
    assert "  note    error in 1 of 3 runs of b\n" in done.stdout
    assert "seq_len=256\n  a none that succeeded   b none that succeeded\n" in done.stdout
    assert "  verdict cannot be told: no run of b succeeded\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("cannot be told for 1 of 2 whether it is")


def test_a_run_that_dies_before_its_first_step_is_of_the_configuration_that_it_fits(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", *WELL[:2])
    hand_in("new-release", "91.0", *WELL[:2], (0, "error", 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 1
    assert done.stdout.startswith("WAS OK, IS ERROR IN 1 OF 3 RUNS: ")
    hand_in("dead", "91.0", (0, "oom", 0.0))
    done = run("compare", "old-release", "dead", "--fail")
    assert (done.returncode, done.stdout[:15]) == (1, "WAS OK, IS OOM:")
    hand_in("several", "90.1", *WELL)  # of which of two is not known
    done = run("compare", "several", "new-release", "--fail", "-f", "json")
    notes = [found["remarks"] for found in compared(done)]
    assert notes == [[], ["error in 1 of 1 run of b"], []]  # missing, failed, compared


def test_an_early_failure_of_a_counts_as_much_as_a_late_one_of_b(
    run: Run, hand_in: Callable[..., None]
) -> None:
    early, late = (0, "error", 0.0), (64, "error", 0.0)
    for name, failed in (("old", early), ("new", late), ("newer", early)):
        hand_in(name, "90.1", *WELL[:2], failed)
    for sides in (("old", "new"), ("new", "old"), ("old", "newer")):
        done = run("compare", *sides, "--fail", "-f", "json")
        (found,) = compared(done)
        assert (done.returncode, found["verdict"]) == (0, "not worse")
        assert found["remarks"] == [f"error in 1 of 3 runs of {side}" for side in "ab"]


def test_the_runs_that_failed_are_named(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old", "90.1", *WELL[:2])
    hand_in("new", "91.0", *WELL[:2], (64, "error", 0.0))
    listed = run("ls", "--source", "new", "--outcome", "error", "-f", "json").stdout
    (failed,) = (row["id"] for row in json.loads(listed))
    (found,) = compared(run("compare", "old", "new", "-f", "json"))
    assert (found["failed_a"], found["failed_b"]) == ([], [failed])
    assert f"  note    failed in b: {failed}\n" in run("compare", "old", "new").stdout


def test_json_states_the_verdict_as_the_text_does(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old", "90.1", *WELL)
    hand_in("same", "91.0", *WELL)
    hand_in("alone", "91.0", WELL[0])
    hand_in("dead", "91.0", *WELL[:2], (128, "oom", 0.0))
    sides = {"same": "not worse", "alone": "worse", "dead": "worse"}
    for b, verdict in sides.items():
        found = json.loads(run("compare", "old", b, "-f", "json").stdout)
        assert (found["verdict"], found["a"], found["b"]) == (verdict, "old", b)
        assert found["summary"] == run("compare", "old", b).stdout.splitlines()[-1]
        failing = [one["label"] for one in found["configurations"] if one["regression"]]
        assert found["failed"] == failing
        assert (len(failing), found["factor"], found["memory_factor"]) == (b != "same", 1.05, 1.05)
        assert found["differs"] == [{"name": "peft", "a": ["90.1"], "b": ["91.0"]}]


def test_a_failure_of_a_that_fits_two_configurations_is_named_by_itself(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old", "90.1", *WELL, (0, "oom", 0.0))
    hand_in("new", "91.0", *WELL)
    done = run("compare", "old", "new", "--fail")
    assert done.returncode == 0
    assert "  note    oom in 1 of 1 run of a\n" in done.stdout


def test_lengths_that_a_loop_has_only_seen_tell_no_configurations_apart(
    run: Run, hand_in: Callable[..., None]
) -> None:
    varied = {"configured": {"length_distribution": "variable"}}
    for name, lengths in (("v1", (96, 95, 96)), ("v2", (94, 95))):
        runs = [(length, "ok", 1.0 + n / 100) for n, length in enumerate(lengths)]
        hand_in(name, "90.1", *runs, provenance={"label": name, **LOOP}, **varied)
    hand_in(
        "crashed",  # in its first step: all that it saw had one length
        "90.1",
        (53, "error", 0.0),
        provenance={"label": "v1", **LOOP},
        configured={"length_distribution": "full"},
    )
    sides = ("compare", "label=v1", "label=v2", "--fail")
    done = run(*sides)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].endswith(" seq_len=94-96")
    assert "  note    differs: longest sequence seen: 95-96 → 94-95\n" in done.stdout
    assert "  note    error in 1 of 4 runs of a\n" in done.stdout
    assert "longest sequence seen: 95-96 → 94-95" in run(*sides, "-f", "markdown").stdout


@pytest.mark.parametrize(
    "why",
    [
        {"provenance": {"recorder": "0.1.0", "trainer": "SFTTrainer"}},  # its own limit
        {"provenance": LOOP, "configured": {"length_distribution": "full"}},
        {},
    ],
)
def test_lengths_that_were_chosen_tell_configurations_apart(
    run: Run, hand_in: Callable[..., None], why: dict[str, Any]
) -> None:
    why = {"configured": {"length_distribution": "variable"}, **why}
    hand_in("old-release", "90.1", *WELL, **why)
    hand_in("new-release", "91.0", *WELL[:2], **why)
    done = run("compare", "old-release", "new-release", "--fail")
    assert (done.returncode, done.stdout[:20]) == (1, "WAS OK, IS MISSING: ")


def test_a_trainer_without_a_limit_has_only_seen_its_length(
    run: Run, hand_in: Callable[..., None]
) -> None:
    said = {"inferences": {"seq_len": "the longest sequence that was seen"}}
    varied = {"configured": {"length_distribution": "variable"}}
    recorded = {"provenance": {"recorder": "0.1.0", "trainer": "Trainer"}}
    hand_in("old-release", "90.1", *WELL, **varied, **recorded, **said)
    hand_in("new-release", "91.0", *WELL[:2], **varied, **recorded)  # by an older recorder
    done = run("compare", "old-release", "new-release", "--fail", "-f", "json")
    assert [len(found["a"]) for found in compared(done)] == [4]


def test_where_nothing_is_shared_the_nearest_two_are_named_with_what_differs(
    run: Run, hand_in: Callable[..., None]
) -> None:
    for name, batch, alpha in (("old", 2, 8), ("new", 3, 8), ("newer", 4, 16)):
        chosen = {"micro_batch_size": batch, "lora_alpha": alpha}
        hand_in(name, "90.1", *WELL[:2], configured=chosen, **labelled(name))
    hand_in("newer", "90.1", *WELL[:2], configured={"micro_batch_size": 3}, **labelled("new"))
    done = run("compare", "label=old", "label=new")
    assert done.returncode == 2
    assert "the configurations differ in micro_batch_size (2 → 3); expected" in done.stderr
    way_out = done.stderr.strip().rpartition("by their ids: registry ")[2]
    assert "differ in micro_batch_size (2 → 3)" in run(*way_out.split()).stdout


def test_failures_are_said_where_nothing_is_shared(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", *WELL[:2])
    hand_in("new-release", "91.0", (128, "error", 0.0), (256, "error", 0.0))
    done = run("compare", "old-release", "new-release", "-f", "markdown")
    problem = "share no configuration; error in 2 of 2 runs of b; in the nearest two, "
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stdout.splitlines()[:2] == ["### Training: old-release → new-release", ""]
    assert done.stdout.splitlines()[2].startswith("**Nothing could be compared:** 2 and 2 obs")
    assert problem in done.stdout


def test_other_commands_steps_and_flags_are_named_beside_the_pair(
    run: Run, hand_in: Callable[..., None]
) -> None:
    for source, script, n_steps in (("one", "loop.py", 12), ("two", "two.py", 1)):
        more: dict[str, Any] = {"flags": ["short_run"]} if n_steps == 1 else {}
        more |= {"provenance": {"label": source, "command": script}}
        hand_in(source, "90.1", (64, "ok", 1.0), (64, "ok", 1.0), **more, n_steps=n_steps)
    done = run("compare", "label=one", "label=two")
    assert [line for line in done.stdout.splitlines() if line.startswith("  note")] == [
        "  note    differs: command: loop.py → two.py",
        "  note    differs: n_steps: 12 → 1",
        "  note    flagged short_run: 2 of 2 runs of b",
    ]
    assert (
        ": differs: command: loop.py → two.py; differs: n\\_steps"
        in run("compare", "label=one", "label=two", "-f", "markdown").stdout
    )


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["python", "my loop.py"], "python 'my loop.py'"),
        (["python", 3], '["python",3]'),
        ({"argv": ["x"]}, '{"argv":["x"]}'),
        (7, "7"),
    ],
)
def test_a_command_may_be_stated_in_any_form(
    run: Run, hand_in: Callable[..., None], command: Any, shown: str
) -> None:
    hand_in("one", "90.1", *WELL[:2], provenance={"label": "one", "command": "loop.py"})
    hand_in("two", "90.1", *WELL[:2], provenance={"label": "two", "command": command})
    done = run("compare", "label=one", "label=two")
    assert done.returncode == 0
    assert f"  note    differs: command: loop.py → {shown}\n" in done.stdout
    assert "differs" not in run("compare", "label=two", "label=two").stdout


@pytest.mark.parametrize("figures", [("median", "max"), ("max", "median"), ("value", "mean")])
def test_figures_of_two_statistics_are_not_held_against_each_other(
    run: Run, hand_in: Callable[..., None], figures: tuple[str, str]
) -> None:
    for source, factor, statistic in zip("ab", (1.0, 1.9), figures, strict=True):
        runs = ((n, outcome, factor * seconds) for n, outcome, seconds in WELL[:2])
        hand_in(source, "90.1", *runs, statistic=statistic, train_time=20.0)
    done = run("compare", "a", "b", "--fail")
    assert done.returncode == 0
    assert "b / a" not in done.stdout
    note = "they have no time or rate in common: those of A and B are other metrics or statistics"
    assert f"  note    {note} (mean, median)\n" in done.stdout
    assert "  verdict cannot be told: no time in common\n" in done.stdout


def test_figures_far_apart_give_json(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("a", "90.1", (64, "ok", 1e-100), (64, "ok", 1e3))
    hand_in("b", "90.1", *WELL[:2])
    (found,) = compared(run("compare", "a", "b", "-f", "json"))
    assert found["verdict"] == "cannot be told"
    assert found["time"]["low"] < found["time"]["value"] < found["time"]["high"]
    assert "interval 0.000 to 1.01e+304, 2 and 2 runs" in run("compare", "a", "b").stdout


@pytest.mark.parametrize("option", ["--factor", "--memory-factor"])
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_factor_is_a_finite_number(run: Run, option: str, number: str) -> None:
    done = run("compare", "a", "b", "--fail", option, number)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        f"error: Invalid value for '{option}': '{number}' is not a finite number.\n"
    )


def test_a_pause_is_seen_in_the_whole_time_and_not_judged(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", *WELL[:2], train_time=20.0)
    hand_in("new-release", "91.0", *WELL[:2], train_time=26.0)
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 0
    assert (
        "  train_time: 20 s and 26 s, b / a = 1.300  [median of each side, not judged]\n"
    ) in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not worse: ")


def test_what_cannot_be_compared_is_no_regression(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", WELL[0], WELL[1])
    hand_in("new-release", "91.0", WELL[2], WELL[3])
    for words in (["old-release", "new-release"], ["none", "new-release"], ["a.toml", "b.toml"]):
        assert run("compare", *words, "--fail").returncode == 2, words


def test_environments_are_listed_with_labels_and_what_tells_them_apart(
    run: Run, hand_in: Callable[..., None]
) -> None:
    same = {"cpu": "EPYC", "n_cpus": 2, "packages": {"numpy": "2.3", "safetensors": "0.6"}}
    old = {"peft_version": "90.1", **same, "settings": {"OMP_NUM_THREADS": "1"}}
    new = {"peft_version": "91.0", **same, "packages": {"numpy": "2.4", "safetensors": "0.6"}}
    at = "2026-05-01T10:00:00Z"
    hand_in("first", "", *WELL, environment=old, observed_at=at, **labelled("main"))
    at = "2026-05-03T10:00:00Z"
    hand_in("second", "", *WELL[:2], environment=new, observed_at=at)
    done = run("environments", "--no-curated", "-f", "json")
    newest, oldest = json.loads(done.stdout)
    newest_id = newest.pop("id")
    assert len(newest_id) == 12
    assert newest == {
        "label": None,
        "peft": "91.0",
        "transformers": None,
        "torch": None,
        "others": "numpy 2.4",
        "machine": "rtx-3090; 2 processors",
        "n": 2,
        "first": "2026-05-03",
        "last": "2026-05-03",
    }
    assert (oldest["label"], oldest["n"], oldest["others"]) == ("main", 4, "numpy 2.3")
    assert run("compare", oldest["id"], newest_id, "--fail").returncode == 1  # one is missing
    assert "main" in run("environments", "--label", "main", "-f", "table").stdout
    unknown = run("environments", "--label", "mai")
    assert unknown.returncode == 2
    assert unknown.stderr.endswith(
        "error: label 'mai' is not known; did you mean 'main'?; expected one of main\n"
    )


def test_rounds_in_common_are_compared_and_other_runs_left_out(
    run: Run, hand_in: Callable[..., None]
) -> None:
    for number, load in enumerate((1.0, 2.0, 4.0)):
        for name, seconds in (("old", 1.0), ("new", 1.2)):
            how = {"provenance": {"label": name, "bench": "b1", "round": number}}
            row = (64, "ok", load * seconds * (1 + number / 1000))
            hand_in(f"{name}-{number}", "90.1", row, **how)
    (ratio,) = compared(run("compare", "label=old", "label=new", "-f", "json"))
    assert ratio["time"]["note"] == "3 alternating rounds"
    hand_in("alone", "90.1", (64, "ok", 100.0), **labelled("new"))
    (ratio,) = compared(run("compare", "label=old", "label=new", "-f", "json"))
    assert (ratio["time"]["n_a"], ratio["time"]["n_b"], len(ratio["b"])) == (3, 3, 4)
    assert ratio["time"]["low"] == pytest.approx(1.2)
    assert "alternating rounds" not in run("compare", "label=old", "alone", "-f", "json").stdout


def test_runs_that_took_turns_are_compared_pair_by_pair(
    run: Run, hand_in: Callable[..., None]
) -> None:
    """A machine that slows down by a tenth with each pair hides no slowdown by a tenth."""
    order = ("old", "new", "new", "old", "old", "new", "new", "old")
    seconds = {"old": 1.0, "new": 1.1}
    for place, name in enumerate(order):
        how = {"provenance": {"label": name}, "observed_at": f"2026-05-0{place + 1}T10:00:00Z"}
        drift = 1.1 ** (place // 2) * (1 + place / 1000)
        hand_in(f"run-{place}", "90.1", (64, "ok", drift * seconds[name]), **how)
    (ratio,) = compared(run("compare", "label=old", "label=new", "-f", "json"))
    assert ratio["time"]["note"] == "4 alternating rounds"
    assert 1.09 < ratio["time"]["low"] < 1.1 < ratio["time"]["high"] < 1.11
    assert run("compare", "label=old", "label=new", "--fail").returncode == 1
    late = {"provenance": {"label": "new"}, "observed_at": "2026-05-09T10:00:00Z"}
    hand_in("run-8", "90.1", (64, "ok", 1.7), **late)  # of no pair
    (ratio,) = compared(run("compare", "label=old", "label=new", "-f", "json"))
    assert ratio["time"]["note"] is None
    assert ratio["verdict"] == "cannot be told"


def test_strict_fails_where_it_cannot_be_told(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old", "90.1", (64, "ok", 1.0))
    hand_in("new", "90.1", (64, "ok", 1.0))
    for options, status in (((), 0), (("--fail",), 0), (("--strict",), 1)):
        assert run("compare", "old", "new", *options).returncode == status
    for number in range(1, 4):
        hand_in("old", "90.1", (64, "ok", 1.0 + number / 1e4))
        hand_in("new", "90.1", (64, "ok", 1.0 + number / 1e4))
    assert run("compare", "old", "new", "--strict").returncode == 0
    hand_in("slow", "90.1", *((64, "ok", 2.0 + number / 1e4) for number in range(4)))
    assert run("compare", "old", "slow", "--strict").returncode == 1


def test_what_was_withdrawn_is_in_no_comparison(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", (64, "ok", 1.0), provenance={"label": "old"})
    hand_in("new-release", "91.0", (64, "ok", 1.0), (64, "ok", 9.0), provenance={"label": "new"})
    listed = json.loads(run("query", OF_NEW, "-f", "json").stdout)
    good, bad = (row["id"] for row in listed)
    assert run("retract", bad, "--reason", "the card was shared").returncode == 0
    found = compared(run("compare", "label=old", "label=new", "-f", "json"))
    assert [one["b"] for one in found] == [[good]]
    assert run("environments", "--label", "new", "-f", "jsonl").stdout.count('"n":1,') == 1
    done = run("compare", "label=old", bad)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"error: {bad}: selects only what was withdrawn ({bad}: the card was shared); expected "
        "others; registry environments lists labels and versions that have some"
    )
    assert run("retract", good, "--reason", "so was this").returncode == 0
    done = run("compare", "label=old", "label=new")
    assert done.stderr.splitlines()[-1].startswith("error: label=new: selects only what was with")
    assert run("environments", "--label", "new").stderr == (
        "error: label 'new' is not known; expected one of old\n"
    )


OF_NEW = """
select observation_id[:12] as id
from results
where source_id = 'new-release'
order by seconds_per_step
"""


def test_first_digits_that_several_ids_have_select_none(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", WELL[0])
    done = run("query", "select observation_id as id from results order by all", "-f", "jsonl")
    ids = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    begin = next(a[:4] for a, b in pairwise(ids) if a[:4] == b[:4])
    done = run("compare", begin, "old-release")
    assert done.returncode == 2
    assert f"error: {begin}: " in done.stderr
    assert f" ids of observations or environments start with this ({begin}" in done.stderr
    assert done.stderr.endswith("; expected one; give more digits\n")
