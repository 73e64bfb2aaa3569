"""Parts: named by what they hold, and refused where they are other than that."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from registry.catalogue import Catalogue
from registry.contract.arrow import table_schema
from registry.contract.fingerprint import contract_stamp
from registry.errors import StoreError
from registry.store.catalogue_files import catalogue_text, hash_catalogue, read_part_catalogue
from registry.store.manifest import read_manifest
from registry.store.parquet import ordered_table
from registry.store.parts import CURATED, Part, check_files, format_part, part_name, read_part
from tests.unit.store.registries import add_numbers

if TYPE_CHECKING:
    from registry.api import Registry
    from registry.store.folder import Folder

WAY_OUT = "run `registry repair`, which rebuilds it from the parts and documents that are there"


@pytest.fixture
def part(db: Registry) -> Part:
    """Return the part of two folded submissions."""
    add_numbers(db, 0, 1)
    db.fold()
    folder = db.location.own
    return read_part(folder, read_manifest(folder).parts[0])


def refusal(folder: Folder, part: Part) -> str:
    with pytest.raises(StoreError) as caught:
        read_part(folder, part.name)
    return str(caught.value)


def test_a_part_says_what_it_holds(folder: Folder, part: Part) -> None:
    description = (part.path / "part.json").read_bytes()
    assert part.name == part_name(description) == hashlib.sha256(description).hexdigest()[:24]
    document = json.loads(description)
    assert part.contract == document["contract"] == contract_stamp()
    assert part.path == folder.parts / part.name
    there = {path.name for path in part.path.iterdir()} - {"part.json"}
    assert set(document["files"]) == there
    for name, entry in document["files"].items():
        data = (part.path / name).read_bytes()
        assert entry["size"] == len(data)
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
        assert ("rows" in entry) == name.endswith(".parquet")


def test_rows_files_and_ids_are_those_of_a_table(part: Part) -> None:
    assert (part.rows("observations"), part.rows("samples"), part.rows("retractions")) == (2, 4, 0)
    assert part.file("observations") == part.path / "observations.parquet"
    assert part.file("retractions") is None
    ids = part.ids("observations")
    assert ids is not None
    assert len(ids) == 2
    assert part.ids("retractions") is None


def test_a_part_is_current_under_one_contract_and_catalogue(part: Part) -> None:
    assert part.is_current(part.catalogue)
    assert not part.is_current("0")
    assert not Part("x", part.path, "0", part.catalogue).is_current(part.catalogue)


def test_the_way_out_is_that_of_the_layer(part: Part) -> None:
    assert part.way_out == "run `registry repair`"
    assert Part(CURATED, part.path, "", "").way_out == (
        "install the package again, or in a checkout run `registry build`"
    )


def test_a_missing_or_changed_description_is_refused(folder: Folder, part: Part) -> None:
    path = part.path / "part.json"
    path.write_bytes(path.read_bytes() + b" ")
    assert refusal(folder, part) == (
        f"{path}: its content does not match the part's name; expected it as "
        f"`registry fold` wrote it; {WAY_OUT}"
    )
    path.unlink()
    assert refusal(folder, part) == (
        f"{path}: found no such file; expected the part that a manifest names; {WAY_OUT}"
    )


def test_each_file_that_is_not_as_it_was_written_is_named(part: Part) -> None:
    assert list(check_files(part)) == []
    missing, changed, link = (
        part.path / f"{name}.parquet" for name in ("citations", "samples", "sources")
    )
    missing.unlink()
    changed.write_bytes(b"x")
    link.rename(part.path.parent / "elsewhere")
    link.symlink_to(part.path.parent / "elsewhere")
    assert set(check_files(part)) == {
        f"{missing}: found no such file; {WAY_OUT}",
        f"{changed}: found content that differs from what was written; {WAY_OUT}",
        f"{link}: found no such file; {WAY_OUT}",
    }


def test_tables_without_rows_have_no_file() -> None:
    names = ("models", "gpus", "observations", "retractions")
    assert format_part({name: table_schema(name).empty_table() for name in names}) == {}


def test_only_what_was_erased_is_among_the_erased_ids() -> None:
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    rows = [
        {"observation_id": digits * 16, "reason": "r", "retracted_at": moment, "erased": erased}
        for digits, erased in (("ab", True), ("cd", None))
    ]
    contents = format_part({"retractions": ordered_table("retractions", rows)})
    assert contents["erased.ids"] == (b"\xab" * 16, None)
    assert len(contents["retractions.ids"][0]) == 2 * 16
    assert contents["retractions.parquet"][1] == 2


def test_described_models_lie_beside_the_tables(folder: Folder, part: Part) -> None:
    model = {"model_id": "tiny", "n_params": 1_000}
    gpu = {"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}
    text = (part.path / "catalogue.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"models": [model], "gpus": [gpu]}
    assert text.endswith("\n")
    described = read_part_catalogue(folder, part)
    assert (described.models, described.gpus) == ({"tiny": model}, {"gpu-a": gpu})


def test_a_changed_catalogue_of_a_part_is_refused(folder: Folder, part: Part) -> None:
    path = part.path / "catalogue.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        read_part_catalogue(folder, part)
    assert str(caught.value) == (
        f"{path}: cannot be read (it differs from what was written); expected models and GPUs as "
        "they were written; run `registry repair`"
    )


def test_a_catalogue_is_stored_sorted_by_id() -> None:
    models = {key: {"n_params": 1, "model_id": key} for key in ("ä", "b")}
    catalogue = Catalogue(models=models, gpus={"g": {"gpu_id": "g"}})
    text = catalogue_text(catalogue)
    rows = {
        "models": [{"model_id": key, "n_params": 1} for key in ("b", "ä")],
        "gpus": [{"gpu_id": "g"}],
    }
    assert text == json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    expected = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert hash_catalogue(text) == hash_catalogue(text.encode()) == expected


@pytest.mark.parametrize(
    "files",
    [
        [],
        {"../../../x.parquet": {"size": 1, "sha256": "0", "rows": 1}},
        {"/x.parquet": {"size": 1, "sha256": "0", "rows": 1}},
        {"observations.parquet": {"size": 1, "sha256": "0", "rows": "many"}},
        {"observations.parquet": {"size": -1, "sha256": "0"}},
        {"observations.parquet": {"size": 1, "sha256": "0", "more": 1}},
        {"observations.parquet": []},
    ],
)
def test_a_description_reaches_nothing_outside_of_its_part(
    folder: Folder, part: Part, files: object
) -> None:
    document = json.loads((part.path / "part.json").read_bytes())
    description = json.dumps({**document, "files": files}).encode()
    name = part_name(description)
    path = part.path.rename(part.path.with_name(name))
    (path / "part.json").write_bytes(description)
    with pytest.raises(StoreError) as caught:
        read_part(folder, name)
    assert str(caught.value) == (
        f"{path}: found a description that names no files of the part with their size, hash and "
        f"rows; expected one; {WAY_OUT}"
    )
