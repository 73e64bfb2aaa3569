"""`registry add` and `registry import`: record measurements."""

from __future__ import annotations

import fcntl
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry_cli.dry_run_text import format_dry_run
from tests.unit.measure.running.test_wrapped_command import RECORD, lines, step

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]
    Submission = Callable[..., dict[str, Any]]
    Snapshot = Callable[[Path], dict[str, bytes | None]]

CHECKOUT = Path(__file__).parents[2]
SOURCE = CHECKOUT / "records" / "sources" / "llama2-lora-3090"


@pytest.fixture(autouse=True)
def mine(registry: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use the test's own registry."""
    monkeypatch.setenv("REGISTRY_PATH", str(registry))
    return registry


@pytest.fixture
def environment(environment: dict[str, str], registry: Path) -> dict[str, str]:
    return {**environment, "REGISTRY_PATH": str(registry)}


def count_mine(run: Run) -> int:
    done = run("query", "select count(*) from observations where source_id = 'my-runs'")
    assert done.stderr == ""
    return int(done.stdout.split()[1])


def test_a_file_is_recorded_and_seen_at_once(
    run: Run, write: Write, submission: Submission
) -> None:
    write("a.json", submission())
    done = run("add", "a.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("added submission ")
    assert ": 1 observation " in done.stdout
    rows = run("query", "from results where source_id = 'my-runs'", "-f", "json")
    assert [row["peak_memory_bytes"] for row in json.loads(rows.stdout)] == [20 * 2**30]


def test_a_shown_id_leads_to_the_observation(
    run: Run, write: Write, submission: Submission
) -> None:
    write("a.json", submission())
    identifier = run("add", "a.json").stdout.split()[-1]
    assert json.loads(run("show", identifier, "-f", "json").stdout)["observation"]["run_id"] == (
        "run-1"
    )


def test_who_takes_a_curated_source_for_their_own_is_told(
    run: Run, write: Write, submission: Submission
) -> None:
    document = submission()
    document["source"] = {"source_id": "litgpt", "kind": "person", "title": "My runs"}
    write("a.json", document)
    done = run("add", "a.json")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: a.json: litgpt is a source of the curated records")
    assert run("add", "a.json").stderr == "a.json: nothing changed\n"


def test_the_same_again_changes_nothing(
    run: Run, write: Write, submission: Submission, snapshot: Snapshot, mine: Path
) -> None:
    write("a.json", submission())
    run("add", "a.json")
    before = snapshot(mine)
    done = run("add", "a.json")
    assert done.returncode == 0
    assert done.stdout.startswith("already recorded: submission ")
    assert done.stderr == "a.json: nothing changed\n"
    assert snapshot(mine) == before


def test_the_same_again_after_a_fold_changes_nothing(
    run: Run, write: Write, submission: Submission, snapshot: Snapshot, mine: Path
) -> None:
    write("a.json", submission())
    run("add", "a.json")
    run("fold")
    before = snapshot(mine)
    assert run("add", "a.json").stdout.startswith("already recorded: submission ")
    assert snapshot(mine) == before


def test_the_order_of_keys_and_blanks_do_not_matter(
    run: Run, write: Write, submission: Submission
) -> None:
    document = submission()
    write("a.json", document)
    turned = json.dumps(dict(reversed(document.items())), indent=7)
    run("add", "a.json")
    assert run("add", "-", stdin=turned).stdout.startswith("already recorded: ")


def test_many_files_are_recorded_together(run: Run, write: Write, submission: Submission) -> None:
    names = [write(f"{number}.json", submission(number)).name for number in range(5)]
    done = run("add", *names)
    assert done.stdout.count("added submission ") == 5
    assert count_mine(run) == 5


def test_a_file_named_twice_is_recorded_once(
    run: Run, write: Write, submission: Submission
) -> None:
    write("a.json", submission())
    lines = run("add", "a.json", "a.json").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["added", "already"]
    assert count_mine(run) == 1


def test_standard_input_is_read(run: Run, submission: Submission) -> None:
    done = run("add", "-", stdin=json.dumps(submission()))
    assert (done.returncode, done.stderr) == (0, "")
    assert count_mine(run) == 1


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\n\n"])
def test_json_lines_are_one_submission_each(
    run: Run, submission: Submission, separator: str
) -> None:
    lines = separator.join(json.dumps(submission(number)) for number in range(3))
    assert run("add", "-", stdin=lines).stdout.count("added submission ") == 3
    assert count_mine(run) == 3


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_line_feeds_end_json_lines(run: Run, submission: Submission, end: str) -> None:
    documents = [submission(number) for number in range(2)]
    for document in documents:
        document["observations"][0]["outcome_detail"] = "a\u2028b\x85c"
    lines = end.join(json.dumps(document, ensure_ascii=False) for document in documents)
    done = run("add", "-", "--dry-run", stdin=f"{lines}{end}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("would add submission ") == 2


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a.json", "sub/b.json"], "1 other JSON file: sub/b.json; name it to add it"),
        (["registry-a.json", "b.json"], "1 other JSON file: b.json; name it to add it"),
        (["a.json", "b.JSON"], "1 other JSON file: b.JSON; name it to add it"),
        (
            ["a.json", *(f"sub/{name}.jsonl" for name in "bcde")],
            "4 other JSON files: sub/b.jsonl, sub/c.jsonl, sub/d.jsonl …; name those to add",
        ),
    ],
)
def test_what_is_not_read_of_a_folder_is_said(
    run: Run, work: Path, submission: Submission, names: list[str], told: str
) -> None:
    for number, name in enumerate(names):
        path = work / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(submission(number)))
    done = run("add", "folder", "--dry-run")
    assert (done.returncode, done.stdout.count("would add ")) == (0, 1)
    assert done.stderr == f"folder: not read: {told}\n"


def test_what_lies_beside_submissions_otherwise_is_not_spoken_of(
    run: Run, work: Path, submission: Submission, mine: Path
) -> None:
    folder = work / "folder"
    for name in ("registry-a.json", ".cache/b.json", "sub/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(submission()))
    (folder / "config.json").write_text("{}")  # of the training whose record lies there
    (folder / "loop").symlink_to(folder)
    mine.rename(folder / "mine")
    done = run("add", "folder", "--dry-run", "--registry", "folder/mine")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_list_is_one_submission_each(run: Run, write: Write, submission: Submission) -> None:
    write("a.json", [submission(1), submission(2)])
    assert run("add", "a.json").returncode == 0
    assert count_mine(run) == 2


def test_a_byte_order_mark_is_no_part_of_a_document(run: Run, submission: Submission) -> None:
    text = b"\xef\xbb\xbf" + json.dumps(submission()).encode()
    assert run("add", "-", stdin=text).returncode == 0


def test_a_dry_run_records_nothing(
    run: Run, write: Write, submission: Submission, snapshot: Snapshot, mine: Path
) -> None:
    write("a.json", submission())
    before = snapshot(mine)
    done = run("add", "a.json", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("would add submission ")
    assert snapshot(mine) == before


def test_a_dry_run_shows_what_it_would_record_on_a_line_each(
    run: Run, write: Write, submission: Submission
) -> None:
    document = submission()
    (first,) = document["observations"]
    figures = [
        {"metric": "peak_memory", "kind": kind, "scope": "per_gpu", "device_index": 0, "value": v}
        for kind, v in (("allocated", 8 * 2**30), ("reserved", 9 * 2**30))
    ]
    stated = {"model_id": "llama-2-7b", "method": "lora", "lora_rank": 8, "gpu_id": "rtx-3090"}
    more = {"n_nodes": 2, "gpus_per_node": 1, "seq_len": 512, "micro_batch_size": 4}
    speed = [{"metric": "step_time", "value": 1.25}, {"metric": "samples_per_second", "value": 6.4}]
    second = {
        "outcome": "ok",
        "configuration": stated | more,
        "measurements": figures + speed,
        "samples": [{"step": 1, "seconds": 1.25}],
    }
    write("a.json", {**document, "observations": [first, second]})
    shown = run("add", "a.json", "--dry-run").stdout.splitlines()
    assert shown[2] == "  ok: llama-2-7b lora r8, 2x rtx-3090, 9 GiB reserved, 1.25 s/step, 4x512"
    assert all(len(line) <= 80 for line in shown)
    (row,) = map(json.loads, run("add", "a.json", "--dry-run", "--json").stdout.splitlines())
    assert row["observations"][1]["configuration"]["lora_rank"] == 8
    assert len(row["observations"][1]["measurements"]) == 4
    (row,) = map(json.loads, run("add", "a.json", "--json").stdout.splitlines())
    assert "observations" not in row


@pytest.mark.parametrize(
    ("cards", "figures", "shown"),
    [
        (1, "20 max total reserved, 12 max total device", "12 GiB device, no speed"),
        (1, "21 mean total device, 20 value total allocated", "20 GiB allocated, no speed"),
        (1, "19 value total device, 20 max total device", "20 GiB device, no speed"),
        (2, "18 max per_gpu device, 35 max total device", "18 GiB device, no speed"),
        (2, "17 value mean_gpu unknown, 34 value total unknown", "17 GiB, no speed"),
        (2, "34 value total device", "34 GiB device in all, no speed"),
        (2, "9 p90 total -, 4 mean total -, 3 median total -", "no memory, 3 s/step"),
        (2, "2 median mean_gpu -, 4 value total -", "no memory, 4 s/step"),
        (2, "2 median mean_gpu -", "no memory, 2 s/step per GPU"),
    ],
)
def test_a_dry_run_shows_the_figures_that_results_has(cards: int, figures: str, shown: str) -> None:
    rows = []
    for value, statistic, scope, kind in map(str.split, figures.split(", ")):
        is_time = kind == "-"
        of = {"metric": "step_time"} if is_time else {"metric": "peak_memory", "kind": kind}
        number = float(value) * (1 if is_time else 2**30)
        rows.append({**of, "statistic": statistic, "scope": scope, "value": number})
    configuration = {"model_id": "llama-2-7b", "method": "full", "n_gpus": cards}
    line = format_dry_run([{"outcome": "ok", "configuration": configuration, "measurements": rows}])
    unnamed = "1 unnamed card" if cards == 1 else "2 unnamed cards"
    assert list(line) == [f"  ok: llama-2-7b full, {unnamed}, {shown}"]


@pytest.mark.parametrize(
    ("model", "end"),
    [
        ("transformer-xl-base-wt103-2", "a100-sxm4-80gb, 3.052 GiB device, …"),
        ("a-name-of-many-parts-" * 3, "-a-name-of-many-parts- full, …"),
    ],
)
def test_a_line_of_a_dry_run_is_cut_at_80_columns(model: str, end: str) -> None:
    stated = {"model_id": model, "method": "full", "gpu_id": "a100-sxm4-80gb"}
    whole = {"statistic": "value", "scope": "total"}
    memory = {"metric": "peak_memory", "kind": "device", **whole, "value": 3_277_000_000.0}
    time = {"metric": "total_time", **whole, "value": 6000.0}
    row = {"outcome": "ok", "configuration": stated | {"micro_batch_size": 4, "n_gpus": 1}}
    lines = list(format_dry_run([{**row, "measurements": [memory, time]}] * 21))
    assert lines[0].endswith(end)
    assert max(map(len, lines)) <= 80
    assert lines[20:] == ["  … and 1 more observation (--json shows them all)"]


def test_a_dry_run_refuses_what_is_not_valid(
    run: Run, write: Write, submission: Submission
) -> None:
    document = submission()
    document["observations"][0]["configuration"]["gpu_id"] = "rtx-309"
    write("a.json", document)
    done = run("add", "a.json", "--dry-run")
    assert (done.returncode, done.stdout) == (1, "")
    assert "did you mean 'rtx-3090'?" in done.stderr


def test_the_outcome_is_printed_as_json_lines(
    run: Run, write: Write, submission: Submission
) -> None:
    write("a.json", submission(1))
    write("b.json", submission(2))
    run("add", "a.json")
    rows = [
        json.loads(line)
        for line in run("add", "a.json", "b.json", "--json").stdout.split("\n")[:-1]
    ]
    assert [(row["origin"], row["is_new"], row["dry_run"]) for row in rows] == [
        ("a.json", False, False),
        ("b.json", True, False),
    ]
    assert all(len(row["observation_ids"]) == 1 for row in rows)


def test_one_bad_document_of_many_records_none(
    run: Run, write: Write, submission: Submission, snapshot: Snapshot, mine: Path
) -> None:
    write("a.json", submission(1))
    write("b.json", {**submission(2), "colour": "red"})
    before = snapshot(mine)
    done = run("add", "a.json", "b.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: b.json: ")
    assert "colour" in done.stderr
    assert snapshot(mine) == before


def test_all_bad_documents_are_told_together(
    run: Run, write: Write, submission: Submission
) -> None:
    for name in ("a.json", "b.json"):
        write(name, {**submission(), "colour": "red"})
    stderr = run("add", "a.json", "b.json").stderr
    assert "a.json: " in stderr
    assert "b.json: " in stderr


def test_a_file_that_is_not_there_is_a_wrong_call(run: Run) -> None:
    done = run("add", "nothing.json")
    assert done.returncode == 2
    assert done.stderr.endswith("error: Invalid value for FILE: nothing.json: no such file\n")


def test_a_kind_is_named(run: Run, write: Write, submission: Submission) -> None:
    write("a.json", submission())
    assert run("add", "a.json", "--from", "submission").returncode == 0


def test_files_refused_for_one_reason_are_told_together(run: Run, work: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (work / name).write_text("some notes\n", encoding="utf-8")
    done = run("add", "a.txt", "b.txt")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "warning: refused: a.txt, b.txt: not recognized as a training log or result"
    )
    done = run("add", "a.txt", "--from", "mlperf")
    assert "not recognized as mlperf; expected a log of MLPerf training" in done.stderr


def test_a_kind_that_is_unknown_gets_a_hint(run: Run, write: Write, submission: Submission) -> None:
    write("a.json", submission())
    done = run("add", "a.json", "--from", "submision")
    assert done.returncode == 2
    assert "found 'submision'; did you mean 'submission'?; expected auto, submission" in done.stderr


def test_stating_what_a_log_leaves_out_is_not_for_submissions(
    run: Run, write: Write, submission: Submission
) -> None:
    write("a.json", submission())
    done = run("add", "a.json", "--set", "gpu_id=rtx-4090")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "error: --set states what a log does not say; a submission says it itself\n"
    )


@pytest.mark.parametrize("run_id", ["1e5", "1.50"])
def test_a_text_that_looks_like_a_number_is_stated_as_it_is(run: Run, run_id: str) -> None:
    log = CHECKOUT / "tests/fixtures/importers/xtuner/qlora.log"
    done = run("add", str(log), "--set", "gpu_id=a100-80gb", "--set", f"run_id={run_id}", "--json")
    (observation,) = json.loads(done.stdout)["observation_ids"]
    row = json.loads(run("show", observation, "-f", "json").stdout)
    assert row["observation"]["run_id"] == run_id


def test_a_statement_without_its_value_is_refused(run: Run) -> None:
    log = CHECKOUT / "tests/fixtures/importers/xtuner/qlora.log"
    done = run("add", str(log), "--set", "gpu")
    assert "--set: found 'gpu'; expected column=value, such as gpu_id=rtx-4090" in done.stderr


@pytest.mark.parametrize("text", ["", "hello", "\0\0\0", "{}", "[]", "null", "42"])
def test_what_is_no_measurement_is_refused_and_nothing_written(
    run: Run, write: Write, snapshot: Snapshot, mine: Path, text: str
) -> None:
    write("a.json", text)
    before = snapshot(mine)
    for arguments in (["add", "a.json"], ["add", "a.json", "--from", "submission"]):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert "error: " in done.stderr
    assert snapshot(mine) == before


@pytest.mark.parametrize("name", ["truncated", "deep_nesting", "duplicate_key", "nan", "infinity"])
def test_a_broken_document_is_refused_with_exit_1(
    run: Run, snapshot: Snapshot, mine: Path, name: str
) -> None:
    path = CHECKOUT / "tests" / "examples" / "invalid" / f"{name}.json"
    before = snapshot(mine)
    done = run("add", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {path}: ")
    assert snapshot(mine) == before


def test_a_document_beyond_the_limit_is_refused_in_bounded_memory(
    run: Run, work: Path, snapshot: Snapshot, mine: Path
) -> None:
    with (work / "big.json").open("wb") as file:
        file.write(b'{"observations": [')
        file.truncate(2**30)  # a hole: one line of a gibibyte that takes no space
    before = snapshot(mine)
    done = run("add", "big.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "big.json: longer than 268435456 bytes; expected a document below that" in done.stderr
    assert snapshot(mine) == before


@pytest.mark.parametrize("form", ["[%s]", '{"observations": [%s]}'])
def test_a_document_of_too_many_values_is_refused_in_bounded_memory(
    run: Run, work: Path, form: str
) -> None:
    (work / "many.json").write_text(form % ",".join(["[]"] * 10_000_001))
    done = run("add", "many.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: many.json: found more than 20000000 values; expected fewer in one document; "
        "split it\n"
    )


def test_every_valid_example_is_recorded(run: Run) -> None:
    examples = sorted((CHECKOUT / "tests" / "examples" / "valid").glob("*.json"))
    done = run("add", *map(str, examples))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("added submission ") == len(examples)
    assert run("check").returncode == 0


def test_a_document_is_imported_with_its_mapping(run: Run) -> None:
    run("init", "empty", "--empty")
    arguments = [str(SOURCE), "--mapping", str(SOURCE / "mapping.yaml"), "--registry", "empty"]
    dry = run("import", *arguments, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.startswith("would add submission ")
    assert "33 observations" in dry.stdout or "32 observations" in dry.stdout
    done = run("import", *arguments)
    first, *observations = dry.stdout.splitlines()
    assert done.stdout == first.replace("would add", "added") + "\n"
    assert observations[0] == "table 1, row 1; table 4, row 10: ok"
    assert observations[3] == "    total_time = 115.5 (value, total) from '115.5s' in s"
    assert observations[5].startswith("    cells: batch size: '4' | accumulation: '1' | max seq le")
    assert run("import", *arguments).stdout.startswith("already recorded: submission ")
    assert run("check", "--registry", "empty").returncode == 0


def test_a_mended_mapping_adds_and_says_how_to_withdraw_what_it_replaces(
    run: Run, work: Path
) -> None:
    (work / "f.md").write_text("|batch|mem|\n|---|---|\n|1|20|\n|2|30|\n", encoding="utf-8")
    mapping = """
    source: {source_id: ex}
    defaults: {model_id: qwen-7b, method: lora, gpu_id: a100-sxm4-80gb, n_gpus: 1}
    tables:
      - match: {}
        columns:
          batch: {to: micro_batch_size}
          mem: {figure: {metric: peak_memory, default_unit: UNIT, default_reason: the text}}
    """
    for unit in ("GB", "GiB"):
        (work / f"{unit}.yaml").write_text(mapping.replace("UNIT", unit), encoding="utf-8")
    run("init", "mine", "--empty")
    first = run("import", "f.md", "--mapping", "GB.yaml", "--registry", "mine")
    assert first.stderr == ""
    wrong = first.stdout.split()[2].rstrip(":")
    again = run("import", "f.md", "--mapping", "GiB.yaml", "--registry", "mine")
    assert again.stderr == (
        f"warning: submission {wrong} read the same file for ex, and both count; if this one "
        f'replaces it: registry retract {wrong} --reason "read again"\n'
    )
    done = run("retract", wrong, "--reason", "read again", "--registry", "mine")
    assert (done.returncode, done.stdout.count("retracted ")) == (0, 2)
    peaks = "select peak_memory_bytes / 2**30 as gib from results where source_id = 'ex' order by 1"
    left = run("query", peaks, "-f", "csv", "--registry", "mine").stdout
    assert left.split() == ["gib", "20.0", "30.0"]
    third = run("import", "f.md", "--mapping", "GiB.yaml", "--registry", "mine")
    assert third.stderr == ""  # it is recorded already


def test_a_dry_run_shows_what_is_said_of_an_observation_beside_its_figures(
    run: Run, work: Path
) -> None:
    rows = "|0.75(87543 samples/91974.29 seconds)|20GiB*|\n|-|No OOM|\n"
    (work / "f.md").write_text(f"|speed|mem|\n|---|---|\n{rows}", encoding="utf-8")
    mapping = """
    source: {source_id: ex}
    defaults: {model_id: qwen-7b, method: lora, gpu_id: a100-sxm4-80gb, n_gpus: 1}
    footnotes: {'*': {evidence: extrapolated}}
    tables:
      - match: {}
        columns:
          speed: {figure: {metric: samples_per_second, unit: sample/s}}
          mem: {figure: {metric: peak_memory}}
    """
    (work / "f.yaml").write_text(mapping, encoding="utf-8")
    done = run("import", "f.md", "--mapping", "f.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    said = [line.strip() for line in done.stdout.splitlines() if "=" in line]
    assert "evidence=extrapolated, flags=figures_disagree" in said
    assert "outcome_detail=it fits; the source gives no figure" in said


def test_a_dry_run_of_packed_logs_shows_their_figures(run: Run, work: Path) -> None:
    log = (CHECKOUT / "tests/fixtures/importers/mlperf/result_1.txt").read_text(encoding="utf-8")
    (work / "logs").mkdir()
    packed = json.dumps({"name": "result_1.txt", "text": log})
    (work / "logs/files.jsonl").write_text(f"{packed}\n", encoding="utf-8")
    mapping = "source: {source_id: a}\nlogs: [{importer: mlperf}]\n"
    (work / "logs/mapping.yaml").write_text(mapping, encoding="utf-8")
    done = run("import", "logs", "--mapping", "logs/mapping.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "\nresult_1.txt: interrupted\n" in done.stdout
    (rate,) = [line for line in done.stdout.splitlines() if "samples_per_second" in line]
    assert rate.startswith("    samples_per_second = ")
    assert "(median, total); of " in rate


TABLE = """# Runs

On one card.

| Model | Peak (GiB) | Note* |
|---|---|---|
| Qwen-7B | 17 | a |
"""


def test_without_a_mapping_the_tables_are_listed(run: Run, write: Write) -> None:
    write("doc.md", TABLE)
    done = run("import", "doc.md")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "table 1: Runs (line 5, 1 rows)",
        "  above: On one card.",
        "  'Model'       model_id               Qwen-7B",
        "  'Peak (GiB)'  peak_memory, unit GiB  17",
        "  'Note*'       ?                      a",
        "",
    ]
    assert done.stderr.endswith("registry import doc.md --draft > mapping.yaml\n")


def test_a_draft_imports_once_it_is_filled_in(run: Run, write: Write, mine: Path) -> None:
    write("doc.md", TABLE)
    draft = run("import", "doc.md", "--draft").stdout
    write("open.yaml", draft)
    refused = run("import", "doc.md", "--mapping", "open.yaml")
    assert refused.returncode == 1
    assert refused.stderr.count("found '?', which the draft left for you to fill in") == 5
    filled = {"method": "lora", "gpu_id": "rtx-4090", "n_gpus": "1", "scope": "total"}
    for name, value in filled.items():
        draft = draft.replace(f"{name}: '?'", f"{name}: {value}")
    write("filled.yaml", draft.replace("'*': '?'", "'*': {}"))
    done = run("import", "doc.md", "--mapping", "filled.yaml", "--registry", str(mine))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1 observation from 1 reported place in 1 table\n")


def test_a_document_without_tables_has_nothing_to_list(run: Run, write: Write) -> None:
    write("doc.md", "prose\n")
    done = run("import", "doc.md")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: doc.md: found no table; expected one in Markdown, HTML, reStructuredText, CSV, "
        "JSON, YAML, a notebook or a workbook; save tables of another kind, such as LaTeX, as one "
        "of these\n"
    )


def test_an_import_prints_its_submission_and_records_nothing(
    run: Run, snapshot: Snapshot, mine: Path
) -> None:
    before = snapshot(mine)
    done = run("import", str(SOURCE), "--mapping", str(SOURCE / "mapping.yaml"), "--print")
    assert json.loads(done.stdout)["source"]["source_id"] == "llama2-lora-3090"
    assert snapshot(mine) == before


@pytest.mark.parametrize("mapping", ["", "a: [", "tables: 3", "source_id: x\ntables: []", "\0"])
def test_a_bad_mapping_is_refused(
    run: Run, write: Write, snapshot: Snapshot, mine: Path, mapping: str
) -> None:
    write("doc.md", "| a | b |\n|---|---|\n| 1 | 2 |\n")
    write("map.yaml", mapping)
    before = snapshot(mine)
    done = run("import", "doc.md", "--mapping", "map.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: map.yaml")
    assert snapshot(mine) == before


@pytest.mark.parametrize("option", ["DOC", "--mapping"])
def test_an_import_of_a_device_ends_at_once(run: Run, write: Write, option: str) -> None:
    write("doc.md", "| a | b |\n|---|---|\n| 1 | 2 |\n")
    write("map.yaml", "source: {source_id: x}\ntables: [{match: {}}]\n")
    document, mapping = ("/dev/zero", "map.yaml") if option == "DOC" else ("doc.md", "/dev/zero")
    done = run("import", document, "--mapping", mapping)
    assert (done.returncode, done.stdout) == (1, "")
    what = "a document of tables" if option == "DOC" else "a mapping"
    assert done.stderr == (
        f"error: /dev/zero: found a device, expected {what} in a regular file; "
        "save it in one first\n"
    )


@pytest.mark.parametrize("option", ["DOC", "--mapping"])
def test_an_import_needs_both_files(run: Run, write: Write, option: str) -> None:
    write("a.md", "")
    document, mapping = ("nothing", "a.md") if option == "DOC" else ("a.md", "nothing")
    done = run("import", document, "--mapping", mapping)
    assert done.returncode == 2
    assert f"error: Invalid value for '{option}': " in done.stderr


def test_a_folder_that_a_killed_run_left_is_one_training_of_all_its_ranks(
    run: Run, work: Path
) -> None:
    folder = work / "left"
    folder.mkdir()
    for rank in (0, 1):
        text = lines(step(1, 0.5 + rank), step(2, 0.25 + rank), rank=rank)
        (folder / f"record-{rank}-{rank}-1.jsonl").write_text(text)
    assert run("init", "new", "--empty").returncode == 0
    done = run("add", "left", "--registry", "new")
    assert (done.returncode, done.stderr) == (0, "")
    sql = "select outcome, (select max(seconds) from samples) as longest from observations"
    found = run("query", sql, "--registry", "new")
    assert found.stdout.split() == ["outcome,longest", "interrupted,1.5"]


@pytest.mark.parametrize("name", ["left", "left/record-0-1-1.jsonl"])
@pytest.mark.parametrize("content", ["", "{}", lines(step(1), model=None)])
def test_a_record_that_holds_no_training_is_refused(
    run: Run, work: Path, name: str, content: str
) -> None:
    (work / "left").mkdir()
    (work / "left/record-0-1-1.jsonl").write_text(content)
    done = run("add", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {name}: found no training that can be read; expected ")


def test_retractions_alone_are_a_submission(run: Run, write: Write) -> None:
    row = {"observation_id": "0" * 32, "reason": "gone", "retracted_at": "2026-01-01T00:00:00Z"}
    write("gone.json", {"retractions": [row]})
    done = run("add", "gone.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("added submission ")


def test_a_training_that_ended_before_its_run_was_killed_is_added_beside_the_other(
    run: Run, environment: dict[str, str]
) -> None:
    folder = Path(environment["TMPDIR"]) / "registry-run-1"
    folder.mkdir()
    (folder / "record-0-1-1.json").write_text(json.dumps(RECORD))
    growing = folder / "record-0-1-2.jsonl"
    growing.write_text(lines(step(1), step(2)))
    assert run("init", "new", "--empty").returncode == 0
    python = ("run", "--registry", "new", "--no-keep", "--", sys.executable, "-c", "")
    assert run(*python).stderr.splitlines()[0] == (
        f"{folder}: records of a run that was killed; add them with: registry add {folder}, or "
        "remove the folder"
    )
    assert f"left over: {folder}: records of a run that was killed; " in run("doctor").stdout
    assert run("add", str(folder), "--dry-run").returncode == 0
    assert "killed" in run("doctor").stdout
    assert run("add", str(folder), "--registry", "new").returncode == 0
    assert "killed" not in run(*python).stderr
    assert json.loads(run("doctor", "-f", "json").stdout)["left over"] == []
    found = run("query", "select outcome from results order by all", "--registry", "new")
    assert found.stdout.split() == ["outcome", "interrupted", "ok"]


def test_the_folder_of_a_killed_run_says_what_the_run_knew(
    run: Run, environment: dict[str, str]
) -> None:
    folder = Path(environment["TMPDIR"]) / "registry-run-1"
    folder.mkdir()
    (folder / "run.json").write_text('{"wrapped": "python train.py", "label": "main"}')
    done = run("add", str(folder))
    nothing = f"{folder}: found no training that the killed run recorded; expected one; remove it"
    assert (done.returncode, done.stderr) == (1, f"error: {nothing}\n")
    failure = {"outcome": "error", "detail": "ValueError"}
    for rank in (0, 1):  # each process of a job that fails leaves the record of its own failure
        (row,) = RECORD["observations"]
        failed = {**row, "outcome": "error", "outcome_detail": f"ValueError: {rank}"}
        left = {**RECORD, "observations": [failed]}
        (folder / f"record-{rank}-{rank}-1.json").write_text(json.dumps(left))
    growing = folder / "record-0-1-2.jsonl"
    growing.write_text(lines(step(1), step(2), {"end": {"failure": failure}}))
    assert run("init", "new", "--empty").returncode == 0
    with growing.open("ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        going_on = run("add", str(folder), "--registry", "new")
        alone = run("add", str(growing), "--registry", "new")
        assert f"left over: {folder}: a training run whose registry run " in run("doctor").stdout
    assert (going_on.returncode, going_on.stdout) == (1, "")
    assert going_on.stderr == alone.stderr
    assert going_on.stderr == (
        f"error: {growing}: found a training run that is still in progress; expected one that has "
        "ended; wait for it to end, or stop it, then add it\n"
    )
    done = run("add", str(folder), "--registry", "new")
    assert (done.returncode, done.stderr) == (0, "")
    sql = (
        "select outcome, provenance->>'label' as label, provenance->>'wrapped' as wrapped "
        "from observations"
    )
    found = run("query", sql, "--registry", "new")
    assert found.stdout.splitlines() == ["outcome,label,wrapped", "error,main,python train.py"]


def test_no_name_of_a_dry_run_is_cut() -> None:
    model = "a-name-of-many-parts-" * 4
    row = {"outcome": "ok", "configuration": {"model_id": model, "method": "full"}}
    (line,) = format_dry_run([row])
    assert line == f"  ok: {model} full, …"
