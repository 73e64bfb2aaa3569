"""Manifests: each says what a version holds, and one that was changed is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import StoreError
from registry.store.manifest import (
    Manifest,
    NewerManifestError,
    list_versions,
    manifest_name,
    read_manifest,
    write_manifest,
)

if TYPE_CHECKING:
    from registry.store.folder import Folder

WAY_OUT = "run `registry repair`, which rebuilds it from the parts and documents that are there"
A, B = "a" * 24, "b" * 24


def put(folder: Folder, version: int, document: Any) -> str:
    """Write any document as a manifest; return where."""
    text = document if isinstance(document, str) else json.dumps(document)
    folder.storage.put(manifest_name(version), text.encode())
    return str(folder.storage.path(manifest_name(version)))


def stated(*parts: Any, **changes: Any) -> dict[str, Any]:
    """Return the first manifest as a document, with another content than it states a hash of."""
    return {**json.loads(Manifest(1, (A,)).format_text()), "parts": list(parts), **changes}


def refusal(folder: Folder, version: int | None = None) -> str:
    with pytest.raises(StoreError) as caught:
        read_manifest(folder, version)
    return str(caught.value)


def test_a_manifest_is_read_as_it_was_written(folder: Folder) -> None:
    first = Manifest(1, (A,))
    second = Manifest(2, (A, B), first.content_hash)
    write_manifest(folder, first)
    write_manifest(folder, second)
    assert read_manifest(folder) == second
    assert read_manifest(folder, 1) == first
    assert list_versions(folder) == [1, 2]
    assert folder.storage.list("tables") == ["manifest-000001.json", "manifest-000002.json"]


def test_a_registry_without_manifest_is_at_version_0(folder: Folder) -> None:
    assert read_manifest(folder) == Manifest(0, (), None)


def test_the_form_of_a_manifest_stays() -> None:
    assert Manifest(1, (A,)).format_text() == (
        '{\n "format": 2,\n "version": 1,\n "previous": null,\n "parts": [\n'
        f'  "{A}"\n ],\n'
        ' "sha256": "7d66f8f74b4b2058359ddcdd93fdbb76bc91e82a99076a08fabab94be7dadee2"\n}\n'
    )


#: A number as no release writes it: the file of version 4 has another name.
RENUMBERED = "manifest-0000004.json"


def test_versions_count_by_number_and_other_files_are_none(folder: Folder) -> None:
    for name in (
        "manifest-1000000.json",
        "manifest-000002.json",
        "manifest-2.json",
        "x.json",
        RENUMBERED,
    ):
        folder.storage.put(f"tables/{name}", b"{}")
    folder.storage.put("tables/manifest-000003.json.2", b"{}")
    folder.storage.put("tables/old-manifest-000003.json", b"{}")
    assert list_versions(folder) == [2, 1_000_000]


def test_a_version_that_is_not_there_is_named_with_those_that_are(folder: Folder) -> None:
    message = f"{folder.tables}: version 7 not found; expected "
    assert refusal(folder, 7) == f"{message}none, because nothing has been folded yet"
    write_manifest(folder, Manifest(1, (A,)))
    assert refusal(folder, 7) == f"{message}1"
    write_manifest(folder, Manifest(3, (A,)))
    assert refusal(folder, 7) == f"{message}one of 1 to 3"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("[]", "list indices must be integers or slices, not str"),
        ({"format": 2}, "'parts'"),
        (stated(B), "its content does not match the hash it states"),
        (stated(A, sha256="0"), "its content does not match the hash it states"),
        (stated(A, A), "its parts are not distinct plain names"),
        (stated("../" + "a" * 21), "its parts are not distinct plain names"),
        (stated(A + "0"), "its parts are not distinct plain names"),
    ],
)
def test_a_changed_manifest_is_refused(folder: Folder, document: Any, reason: str) -> None:
    path = put(folder, 1, document)
    assert refusal(folder) == (
        f"{path}: damaged manifest ({reason}); expected it as `registry fold` writes it; {WAY_OUT}"
    )


def test_a_manifest_under_the_number_of_another_is_refused(folder: Folder) -> None:
    path = put(folder, 2, stated(A))
    assert refusal(folder) == (f"{path}: damaged manifest (it is that of version 1); {WAY_OUT}")


def test_a_manifest_of_a_newer_release_says_to_upgrade(folder: Folder) -> None:
    path = put(folder, 1, stated(A, format=3))
    with pytest.raises(NewerManifestError) as caught:
        read_manifest(folder)
    assert str(caught.value) == (
        f"{path}: found format 3; expected at most 2: a newer release wrote this registry; "
        "upgrade with `pip install -U peft-registry`"
    )


def test_a_manifest_of_an_earlier_release_gives_its_version(folder: Folder) -> None:
    put(folder, 1, {"format": 1, "version": 1})
    assert read_manifest(folder) == Manifest(version=1, format=1)


def test_a_version_that_is_there_is_not_written_again(folder: Folder) -> None:
    write_manifest(folder, Manifest(1, (A,)))
    with pytest.raises(StoreError) as caught:
        write_manifest(folder, Manifest(1, (B,)))
    assert str(caught.value) == (
        f"{folder.storage.path(manifest_name(1))}: another process has committed this version; "
        "repeat the command"
    )
    assert read_manifest(folder).parts == (A,)
