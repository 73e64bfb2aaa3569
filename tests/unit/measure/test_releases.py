"""Labels, versions, and what differs between the environments of two sides."""

from __future__ import annotations

import pytest

from registry.errors import SourceError
from registry.measure.releases import (
    add_provenance,
    find_differences,
    find_pooled,
    find_telling,
    list_versions,
    parse_label,
    read_label,
)


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "x" * 101, "\x1b[31m"])
def test_what_cannot_be_shown_is_no_label(text: str) -> None:
    with pytest.raises(SourceError, match="expected a name of 1 to 100 characters"):
        parse_label(text)


def test_a_label_stands_in_each_observation_and_beside_what_was_there() -> None:
    document = {"source": {}, "observations": [{"provenance": {"exit": "0"}}, {}]}
    labelled = add_provenance(document, label="main")
    assert [read_label(each) for each in labelled["observations"]] == ["main", "main"]
    assert labelled["observations"][0]["provenance"]["exit"] == "0"
    assert [read_label(each) for each in document["observations"]] == [None, None]


@pytest.mark.parametrize("provenance", [None, {}, {"label": 7}])
def test_a_run_without_a_name_has_no_label(provenance: object) -> None:
    assert read_label({"provenance": provenance}) is None


def test_a_framework_is_named_with_its_version() -> None:
    assert list_versions({"framework": "trl", "framework_version": "1.0"}) == {
        "framework": "trl 1.0"
    }
    assert list_versions({"framework": "ms-swift"}) == {"framework": "ms-swift"}


def row(label: str | None = None, **environment: object) -> dict[str, object]:
    return {"environment": environment, "provenance": {"label": label}}


def test_versions_come_before_the_machine_and_what_a_side_does_not_state_is_left_out() -> None:
    a = [row(peft_version="1", trl_version="1", n_cpus=2), row(peft_version="2", n_cpus=2)]
    b = [row(peft_version="2", n_cpus=4, settings={"OMP_NUM_THREADS": "1"})]
    assert [str(change) for change in find_differences(a, b)] == ["peft: 1, 2 → 2", "n_cpus: 2 → 4"]
    assert find_differences(b, b) == []


def test_runs_of_two_labels_or_versions_are_pooled_and_one_that_failed_early_is_not() -> None:
    assert find_pooled([row("x", peft_version="1"), row("x")]) == {}
    assert find_pooled([row("x"), row()]) == {"label": ("no label", "x")}
    found = find_pooled([row("x", peft_version="2"), row("y", peft_version="1", n_cpus=8)])
    assert found == {"label": ("x", "y"), "peft": ("1", "2")}


def test_only_what_is_not_the_same_tells_apart() -> None:
    assert find_telling([{"a": 1, "b": 1}, {"a": 1, "b": 2, "c": 3}]) == ["b"]
