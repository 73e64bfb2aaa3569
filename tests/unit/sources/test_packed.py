"""Files of others are packed and unpacked as they are, or with the numbers of the lines kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import SourceError
from registry.sources.packed import pack_files, unpack_files

if TYPE_CHECKING:
    from pathlib import Path

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))


@given(texts=st.dictionaries(st.sampled_from(["a.txt", "b/c.log", "d.csv"]), TEXT))
def test_what_is_packed_comes_back(
    texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    for number, text in enumerate(pack_files(texts)):
        (folder / f"files-{number}.jsonl").write_text(text, encoding="utf-8", newline="")
    paths = unpack_files(folder, folder / "out")
    found = {
        path.relative_to(folder / "out").as_posix(): path.read_bytes().decode() for path in paths
    }
    assert found == texts


def test_a_json_document_comes_back_as_one(tmp_path: Path) -> None:
    (text,) = pack_files({"run.json": '{\n  "a": [1, 2.50]\n}'})
    (tmp_path / "files.jsonl").write_text(text, encoding="utf-8")
    (path,) = unpack_files(tmp_path, tmp_path / "out")
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": [1, 2.5]}


def test_lines_that_are_kept_keep_their_numbers_and_lose_what_is_cut(tmp_path: Path) -> None:
    log = "start\nstep 1 at /home/me\nnoise\nstep 2 at /home/me\n"
    (text,) = pack_files({"log.txt": log}, keep="^step", cut=" at .*")
    (tmp_path / "files.jsonl").write_text(text, encoding="utf-8")
    (path,) = unpack_files(tmp_path, tmp_path / "out")
    assert path.read_text(encoding="utf-8").split("\n") == ["", "step 1", "", "step 2", ""]


def test_no_packed_file_is_larger_than_two_megabytes() -> None:
    texts = list(pack_files({f"{n}.txt": "x" * 400_000 for n in range(12)}))
    assert len(texts) == 3
    assert all(len(text.encode()) < 2_000_000 for text in texts)


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "", ".", "a\\b", None, 3])
def test_a_name_that_leads_elsewhere_is_refused(name: object, tmp_path: Path) -> None:
    line = json.dumps({"name": name, "text": "x"})
    (tmp_path / "files.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(SourceError, match="expected that of a file"):
        unpack_files(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content",
    [{}, {"text": 1}, {"lines": {"0": "x"}}, {"lines": {"x": "y"}}, {"lines": {"9999999": "far"}}],
)
def test_content_that_is_none_is_refused(content: dict[str, object], tmp_path: Path) -> None:
    line = json.dumps({"name": "a", **content})
    (tmp_path / "files.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(SourceError, match="line 1: found no json, text or lines"):
        unpack_files(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("content", [{"lines": {"5000000": "x"}}, {"text": "x" * 2_000_000}])
def test_files_that_are_too_large_once_unpacked_are_refused(
    content: dict[str, object], tmp_path: Path
) -> None:
    lines = [json.dumps({"name": f"{number}.log", **content}) for number in range(9)]
    (tmp_path / "files.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SourceError, match="found more than 16777216 characters"):
        unpack_files(tmp_path, tmp_path / "out")
    assert sum(path.stat().st_size for path in (tmp_path / "out").iterdir()) < 2**24


def test_a_name_may_stand_once(tmp_path: Path) -> None:
    line = json.dumps({"name": "a", "text": "x"})
    (tmp_path / "files.jsonl").write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(SourceError, match="line 2: found 'a' again"):
        unpack_files(tmp_path, tmp_path / "out")
