"""Names of models and GPUs: described from live objects, matched by the catalogue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from registry.catalogue import Catalogue
from registry.measure.matching import match_to_catalogue
from registry.measure.recording.catalogue_rows import describe_model, format_model_id
from registry.measure.recording.loop_job import LoopJob
from registry.text import format_slug

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = {
    "model_type": "llama",
    "n_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "n_heads": 4,
    "n_kv_heads": 4,
    "vocab_size": 512,
    "tied_embeddings": False,
}

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "tie_word_embeddings": False,
}


def test_an_unknown_model_is_called_by_its_shape() -> None:
    row = describe_model(CONFIG, 1234)
    assert row["model_id"] == "llama-h64-l2-i128-a4-kv4-v512"
    assert row["n_params"] == 1234
    assert {name: row[name] for name in SHAPE} == SHAPE
    assert row["head_dim"] == 16


def test_an_object_is_read_like_a_mapping() -> None:
    assert describe_model(SimpleNamespace(**CONFIG), 1) == describe_model(CONFIG, 1)


def test_the_text_part_of_a_model_of_several_modalities_has_the_shape() -> None:
    config = {"model_type": "vlm", "text_config": CONFIG}
    row = describe_model(config, None)
    assert (row["model_type"], row["hidden_size"]) == ("vlm", 64)


def test_a_hub_name_is_kept_and_a_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = describe_model({**CONFIG, "_name_or_path": "Qwen/Qwen2.5-7B"}, 1)
    assert (hub["model_id"], hub["hf_id"]) == ("qwen2.5-7b", "Qwen/Qwen2.5-7B")
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "hf_id" not in describe_model({**CONFIG, "_name_or_path": "models/mine"}, 1)
    assert "hf_id" not in describe_model({**CONFIG, "_name_or_path": "/data/models/mine"}, 1)


def test_slugs_are_lower_case_and_never_empty() -> None:
    assert format_slug("Qwen2.5_7B (chat)") == "qwen2.5_7b-chat"
    assert format_slug("///") == "unknown"
    assert format_model_id({}) == "model"


def document(**model: object) -> dict[str, object]:
    return {
        "models": [{"model_id": "found", **SHAPE, **model}],
        "gpus": [{"gpu_id": "nvidia-x", "device_names": ["NVIDIA X"]}],
        "observations": [{"configuration": {"model_id": "found", "gpu_id": "nvidia-x"}}],
    }


CATALOGUE = Catalogue(
    models={
        "base": {"model_id": "base", "n_params": 5, **SHAPE},
        "chat": {"model_id": "chat", "n_params": 5, **SHAPE},
        "hub": {"model_id": "hub", "hf_id": "some/model"},
    },
    gpus={"x": {"gpu_id": "x", "device_names": ["NVIDIA X"]}},
)


def configuration(matched: dict[str, object]) -> dict[str, str]:
    observations = matched["observations"]
    assert isinstance(observations, list)
    row: dict[str, str] = observations[0]["configuration"]
    return row


def test_the_catalogues_names_are_used_and_its_rows_not_repeated() -> None:
    matched = match_to_catalogue(document(), CATALOGUE)
    assert configuration(matched) == {"model_id": "base", "gpu_id": "x"}
    assert "models" not in matched
    assert "gpus" not in matched


def test_of_models_of_one_shape_the_preferred_is_taken() -> None:
    assert (
        configuration(match_to_catalogue(document(), CATALOGUE, prefer="chat"))["model_id"]
        == "chat"
    )


def test_another_number_of_parameters_is_another_model() -> None:
    matched = match_to_catalogue(document(n_params=6), CATALOGUE)
    assert configuration(matched)["model_id"] == "found"
    assert matched["models"] == [{"model_id": "found", **SHAPE, "n_params": 6}]


def test_a_hub_name_goes_before_the_shape() -> None:
    matched = match_to_catalogue(document(hf_id="Some/Model"), CATALOGUE)
    assert configuration(matched)["model_id"] == "hub"


def test_two_models_of_one_name_are_told_apart() -> None:
    catalogue = Catalogue(
        models={"net-h8": {"model_id": "net-h8", "hidden_size": 8, "head_dim": 4}}
    )
    found = document(model_id="net-h8")
    row = {"model_id": "net-h8", "hidden_size": 8, "head_dim": 2}
    found["models"] = [row]
    found["observations"] = [{"configuration": {"model_id": "net-h8"}}]
    matched = match_to_catalogue(found, catalogue)
    (described,) = matched["models"]
    assert described == {**row, "model_id": described["model_id"]}
    assert described["model_id"].startswith("net-h8-")
    assert configuration(matched)["model_id"] == described["model_id"]
    again = catalogue.extended([described], ())
    assert match_to_catalogue(found, again)["models"] == [described]


NAMESAKES = Catalogue(
    models=CATALOGUE.models,
    gpus={
        "rtx-3080-10gb": {
            "gpu_id": "rtx-3080-10gb",
            "memory_bytes": 10 * 2**30,
            "device_names": ["NVIDIA GeForce RTX 3080"],
        },
        "rtx-3080-12gb": {"gpu_id": "rtx-3080-12gb", "memory_bytes": 12 * 2**30},
    },
)


@pytest.mark.parametrize(
    ("gib", "gpu_id"),
    [
        (9.78, "rtx-3080-10gb"),  # a driver sees a little less
        (11.76, "rtx-3080-12gb"),
        (19.7, "nvidia-geforce-rtx-3080-20gb"),
    ],
)
def test_of_cards_of_one_name_the_memory_tells(gib: float, gpu_id: str) -> None:
    found = document()
    found["gpus"] = [
        {
            "gpu_id": "nvidia-geforce-rtx-3080",
            "device_names": ["NVIDIA GeForce RTX 3080"],
            "memory_bytes": int(gib * 2**30),
        }
    ]
    found["observations"] = [
        {"configuration": {"model_id": "base", "gpu_id": "nvidia-geforce-rtx-3080"}}
    ]
    matched = match_to_catalogue(found, NAMESAKES)
    assert configuration(matched)["gpu_id"] == gpu_id
    described = [] if gpu_id in NAMESAKES.gpus else [gpu_id]
    assert [row["gpu_id"] for row in matched.get("gpus", ())] == described
    # described once, it is known by its name and memory
    again = NAMESAKES.extended((), matched.get("gpus", ()))
    assert configuration(match_to_catalogue(found, again))["gpu_id"] == gpu_id
    assert "gpus" not in match_to_catalogue(found, again)


def test_what_is_known_and_only_described_otherwise_is_not_described_again() -> None:
    found = document(model_id="base", n_params=5, max_positions=9)
    found["observations"] = [{"configuration": {"model_id": "base", "gpu_id": "nvidia-x"}}]
    found["gpus"] = [{"gpu_id": "x", "memory_bytes": 7}]
    known = Catalogue(
        models={"base": {**CATALOGUE.models["base"], "max_positions": 8}},
        gpus={"x": {"gpu_id": "x", "memory_bytes": 8, "device_names": ["NVIDIA X"]}},
    )
    matched = match_to_catalogue(found, known)
    assert matched.keys() == {"observations"}


def test_what_is_no_word_is_no_kind_of_a_model() -> None:
    for kind in ("/home/me/model", "a\nb", "x" * 5000, 5):
        row = describe_model({"model_type": kind, "hidden_size": 8}, 320)
        assert (row["model_id"], row["model_type"]) == ("other-h8-p320", "other")


def test_the_number_of_parameters_counts_where_the_shape_does_not_say_it() -> None:
    config = {"model_type": "net", "hidden_size": 8}
    ids = [describe_model(config, n)["model_id"] for n in (320, 640)]
    assert ids == ["net-h8-p320", "net-h8-p640"]


@pytest.mark.parametrize(("kind", "expected"), [("acme", "acme"), (5, "net"), (None, "net")])
def test_a_model_type_that_is_no_text_gives_way_to_the_class(kind: object, expected: str) -> None:
    class Net:
        config = SimpleNamespace(model_type=kind, hidden_size=8)

        def modules(self) -> list[Net]:
            return [self]

    row = describe_model(LoopJob(Net(), []).config, 320)
    assert (row["model_type"], row["hidden_size"]) == (expected, 8)
