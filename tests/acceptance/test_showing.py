"""`registry show` and `registry ls`; colours."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]


def ask(run: Run, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("query", sql, "-f", "json").stdout)
    return rows


@pytest.fixture
def identifier(run: Run) -> str:
    """Return the id of an observation that was made at 8,192 tokens."""
    done = run("ls", "--model", "qwen-7b", "--seq-len", "8192", "--method", "lora", "-f", "json")
    identifier: str = json.loads(done.stdout)[0]["id"]
    return identifier


def test_a_prefix_shows_the_observation_whole(run: Run, identifier: str) -> None:
    done = run("show", identifier[:8])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"observation {identifier}")
    for part in ("configuration", "environment", "figures", "reported in", "as written: "):
        assert f"\n{part}" in done.stdout or part in done.stdout
    assert run("show", identifier[:8].upper()).stdout == done.stdout


def test_an_observation_as_json_has_figures_cells_and_reasons(run: Run, identifier: str) -> None:
    document = json.loads(run("show", identifier, "--format", "json").stdout)
    assert document["observation"]["observation_id"].startswith(identifier)
    assert document["configuration"]["model_id"] == "qwen-7b"
    assert document["citations"][0]["cells"]
    assert any("raw" in figure for figure in document["measurements"])


def test_every_seed_figure_shows_its_raw_cell(run: Run) -> None:
    sql = (
        "select count(*) as n from measurements join observations using (observation_id) "
        "where source_id in ('qwen-finetune-profile', 'llama2-lora-3090', 'swift-benchmark', "
        "'llm-train-throughput') "
        "and origin = 'reported' and raw is null"
    )
    assert ask(run, sql) == [{"n": 0}]


def test_a_text_that_would_act_on_a_terminal_is_shown_not_sent(
    run: Run, registry: Path, write: Callable[[str, Any], Path], submission: Callable[..., Any]
) -> None:
    document = submission()
    document["observations"][0]["run_id"] = "a\u202eb\u200bc\u2028d"
    write("a.json", document)
    assert run("add", "a.json", "--registry", "mine").returncode == 0
    assert registry.is_dir()
    sql = "select observation_id from observations where contains(run_id, chr(8238))"
    (row,) = json.loads(run("query", sql, "-f", "json", "--registry", "mine").stdout)
    shown = run("show", row["observation_id"], "--registry", "mine").stdout
    assert r"a\u202eb\u200bc\u2028d" in shown
    assert shown.replace("\n", "").isprintable()


def test_an_unknown_id_is_a_wrong_call(run: Run) -> None:
    done = run("show", "zzzz")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "error: zzzz: no observation id starts with this; expected one that `registry ls` lists\n"
    )


def test_a_slip_in_an_id_names_the_ids_that_begin_alike(run: Run, identifier: str) -> None:
    slipped = identifier[:11] + ("0" if identifier[11] != "0" else "1")
    done = run("show", slipped)
    assert done.returncode == 2
    assert f"{slipped}: no observation id starts with this; did you mean " in done.stderr
    assert identifier in done.stderr


def test_a_short_id_is_a_wrong_call(run: Run) -> None:
    done = run("show", "abc")
    assert done.returncode == 2
    assert done.stderr.endswith("error: found 'abc'; expected at least 4 digits of an id\n")


def test_an_ambiguous_prefix_names_the_candidates(
    run: Run, registry: Path, write: Callable[[str, Any], Path], submission: Callable[..., Any]
) -> None:
    names = [write(f"{number}.json", submission(number)).name for number in range(500)]
    assert run("add", *names, "--registry", "mine").returncode == 0
    assert registry.is_dir()
    sql = (
        "select observation_id[:4] as prefix from observations group by all "
        "having count(*) > 1 order by all limit 1"
    )
    (row,) = json.loads(run("query", sql, "-f", "json", "--registry", "mine").stdout)
    done = run("show", row["prefix"], "--registry", "mine")
    assert (done.returncode, done.stdout) == (1, "")
    assert "observation ids start with this (" in done.stderr
    assert done.stderr.endswith("); give more digits\n")


def test_quotes_in_an_id_are_no_sql(run: Run) -> None:
    done = run("show", "' or 1=1 --")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (["--model", "qwen-7b"], "model_id = 'qwen-7b'"),
        (["--gpu", "rtx-3090"], "gpu_id = 'rtx-3090'"),
        (["--gpu", "RTX3090"], "gpu_id = 'rtx-3090'"),
        (["--gpu", "rtx-3090", "--gpu", "l4"], "gpu_id in ('rtx-3090', 'l4')"),
        (["--method", "qlora"], "lower(method_label) = 'qlora'"),
        (["--method", "lora"], "(method = 'lora' or lower(method_label) = 'lora')"),
        (["--source", "swift-benchmark"], "source_id = 'swift-benchmark'"),
        (["--outcome", "oom"], "outcome = 'oom'"),
        (["--seq-len", "8192"], "seq_len = 8192"),
        (["--outcome", "ok", "--seq-len", "512"], "outcome = 'ok' and seq_len = 512"),
    ],
)
def test_ls_lists_what_a_filter_leaves(run: Run, arguments: list[str], condition: str) -> None:
    listed = json.loads(run("ls", *arguments, "-f", "json", "--limit", "100000").stdout)
    found = ask(run, "select observation_id[:12] as id from results where " + condition)  # noqa: S608 - ours
    assert found
    assert {row["id"] for row in listed} == {row["id"] for row in found}


@pytest.mark.parametrize("column", ["model_id", "gpu_id", "source_id"])
def test_lists_count_the_observations_that_ls_lists(run: Run, column: str) -> None:
    command = {"model_id": "models", "gpu_id": "gpus", "source_id": "sources"}[column]
    chosen = ("--method", "qlora", "--outcome", "oom", "-f", "json")
    rows = json.loads(run(command, *chosen).stdout)
    listed = Counter(row[column] for row in json.loads(run("ls", *chosen).stdout) if row[column])
    assert len(rows) > 1
    assert {row[column]: row["n"] for row in rows} == listed


def test_sources_are_filtered_by_model_and_card(run: Run) -> None:
    rows = json.loads(
        run("sources", "--model", "qwen-7b", "--seq-len", "8192", "-f", "json").stdout
    )
    held = ask(
        run,
        "select source_id, count(*) as n from results"
        " where model_id = 'qwen-7b' and seq_len = 8192 group by all order by all",
    )
    assert held
    assert [(row["source_id"], row["n"]) for row in rows] == [
        (row["source_id"], row["n"]) for row in held
    ]


def test_ls_says_that_there_is_more(run: Run) -> None:
    done = run("ls", "--limit", "2")
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "only the first 2 are shown; raise --limit for more\n"


def test_ls_writes_a_file(run: Run, work: Path) -> None:
    assert run("ls", "--limit", "2", "-o", "x.jsonl").stdout == ""
    assert len((work / "x.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "--model", "qwen-7bb"], "model 'qwen-7bb' is not known; did you mean 'qwen-7b'?; "),
        (["ls", "--gpu", "rtx-309"], "gpu 'rtx-309' is not known; did you mean 'rtx-3090'?; "),
        (["ls", "--method", "qlorra"], "method 'qlorra' is not known; did you mean 'qlora'?; "),
        (
            ["ls", "--source", "swift-benchmrk"],
            "source 'swift-benchmrk' is not known; did you mean 'swift-benchmark'?; ",
        ),
        (["models", "--family", "lama"], "family 'lama' is not known; did you mean 'llama'?; "),
        (["models", "--gpu", "rtx-309"], "gpu 'rtx-309' is not known; did you mean 'rtx-3090'?; "),
        (["gpus", "--vendor", "nvida"], "vendor 'nvida' is not known; did you mean 'nvidia'?; "),
        (["gpus", "--model", "qwen-7bb"], "model 'qwen-7bb' is not known; did you mean "),
        (["gpus", "--memory", "lots"], "--memory: "),
        (["ls", "--model", "qwen-7b", "--model", "qwen-14b"], "found --model 2 times; expected it"),
        (["sources", "--gpu", "rtx-309"], "gpu 'rtx-309' is not known; did you mean 'rtx-3090'?; "),
        (
            ["environments", "--source", "swift-benchmrk"],
            "source 'swift-benchmrk' is not known; did you mean 'swift-benchmark'?; ",
        ),
        (["environments", "--label", "none-such"], "label 'none-such' is not known"),
        (["ls", "--gpu="], "gpu '' is not known"),
        (["ls", "--model="], "model '' is not known"),
    ],
)
def test_an_unknown_word_in_a_filter_is_a_wrong_call(
    run: Run, arguments: list[str], said: str
) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {said}" in done.stderr


def test_a_known_word_without_an_observation_is_an_answer(run: Run) -> None:
    done = run("ls", "--source", "swift-benchmark", "--gpu", "rtx-3090")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert done.stderr == "no observation matches\n"


def test_a_source_that_is_pending_is_known(
    run: Run, registry: Path, write: Callable[[str, Any], Path], submission: Callable[..., Any]
) -> None:
    write("a.json", submission())
    assert run("add", "a.json", "--registry", "mine").returncode == 0
    assert registry.is_dir()
    done = run("ls", "--source", "my-runs", "--registry", "mine")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)


def test_models_and_cards_are_listed_with_what_the_records_hold(run: Run) -> None:
    models = json.loads(run("models", "--recorded", "-f", "json").stdout)
    held = ask(
        run, "select model_id, count(*) as n from results where model_id is not null group by all"
    )
    assert {row["model_id"]: row["n"] for row in models} == {
        row["model_id"]: row["n"] for row in held
    }
    gpus = json.loads(run("gpus", "--model", "llama-2-7b", "-f", "json").stdout)
    sql = "select gpu_id, count(*) as n from results where model_id = 'llama-2-7b' group by all"
    held = [row for row in ask(run, sql) if row["gpu_id"]]
    assert {row["gpu_id"]: row["n"] for row in gpus} == {row["gpu_id"]: row["n"] for row in held}
    every = json.loads(run("gpus", "-f", "json").stdout)
    assert len(every) == len(ask(run, "from gpus"))
    assert any(row["n"] == 0 for row in every)


def test_cards_are_listed_by_their_memory(run: Run) -> None:
    rows = json.loads(run("gpus", "--memory", "80GiB", "--vendor", "nvidia", "-f", "json").stdout)
    assert rows
    assert all(row["memory_gib"] >= 80 and row["vendor"] == "nvidia" for row in rows)


def read_error_on_terminal(command: Path, environment: dict[str, str], cwd: Path) -> bytes:
    leader, follower = pty.openpty()
    subprocess.run(
        [command, "query", "selct"], cwd=cwd, env=environment, stderr=follower, check=False
    )
    os.close(follower)
    shown = os.read(leader, 65_536)
    os.close(leader)
    return shown


def test_errors_are_coloured_on_a_terminal_only(
    command: Path, environment: dict[str, str], work: Path, run: Run
) -> None:
    environment.pop("NO_COLOR", None)
    assert b"\x1b[31merror: " in read_error_on_terminal(command, environment, work)
    assert "\x1b" not in run("query", "selct").stderr


def test_no_color_is_honoured(command: Path, environment: dict[str, str], work: Path) -> None:
    shown = read_error_on_terminal(command, {**environment, "NO_COLOR": "1"}, work)
    assert b"error: " in shown
    assert b"\x1b" not in shown


def test_ls_has_the_peak_of_the_fullest_card_where_no_total_is_known(run: Run) -> None:
    asked = "select observation_id[:12] as id, peak_memory_bytes_per_gpu / 1073741824 as peak"
    known = ask(run, f"{asked} from results where source_id = 'primus-pipeline'")
    listed = json.loads(run("ls", "--source", "primus-pipeline", "-f", "json").stdout)
    peaks = {row["id"]: row["peak_gib_per_gpu"] for row in listed}
    assert peaks == {row["id"]: row["peak"] for row in known}
    assert any(row["peak_gib"] is None and row["peak_gib_per_gpu"] for row in listed)


def test_show_says_nothing_twice(run: Run, registry: Path) -> None:
    own = ("--registry", str(registry))
    for name, figures in (("multi_gpu", MULTI_GPU), ("oom", "\nfigures\n  none\n")):
        done = run("add", str(EXAMPLES / f"{name}.json"), "--json", *own)
        (observation_id,) = json.loads(done.stdout)["observation_ids"]
        assert figures in run("show", observation_id, *own).stdout


EXAMPLES = Path(__file__).parents[1] / "examples" / "valid"
#: A sum has bounds that are its value, and a time may be as short as it gets.
MULTI_GPU = """
  peak_memory              59500000000 bytes (55.41 GiB)  (max, total, device)
                           derived: sum over 2 cards
  samples_per_second       3.2 sample/second  (total)
                           derived: batch / step time
  step_time                5 s  (median, total)
"""


def test_the_longest_sequence_that_fitted_is_one_that_was_trained_on(
    run: Run, record: Callable[..., Any]
) -> None:
    configuration = {"model_id": "llama-3.1-8b", "method": "lora", "seq_len": 8192}
    figures = [
        {"metric": "step_time", "value": 3.0},
        {"metric": "sequence_length", "statistic": "max", "value": 700},
    ]
    observation = {"outcome": "ok", "configuration": configuration, "measurements": figures}
    source = {"source_id": "mine", "kind": "person"}
    record({"source": source, "observations": [observation]})
    listed = run("models", "--recorded", "--no-curated", "-f", "json").stdout
    assert [row["longest_fitted"] for row in json.loads(listed)] == [700]
