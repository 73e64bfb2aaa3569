"""Models and GPUs are found by id or alias, or what is near is named."""

from __future__ import annotations

from registry.catalogue import Catalogue

CATALOGUE = Catalogue(
    models={
        "llama-2-7b": {
            "model_id": "llama-2-7b",
            "hf_id": "meta-llama/Llama-2-7b-hf",
            "aliases": ["Llama 2 7B"],
        }
    },
    gpus={
        "rtx-3090": {
            "gpu_id": "rtx-3090",
            "name": "GeForce RTX 3090",
            "device_names": ["NVIDIA GeForce RTX 3090"],
        }
    },
)


def test_models_go_by_id_alias_and_hub_name_in_any_case() -> None:
    for name in ("llama-2-7b", "LLAMA-2-7B", " Llama 2 7b ", "meta-llama/Llama-2-7b-hf"):
        assert CATALOGUE.resolve_model(name) == "llama-2-7b"
    assert CATALOGUE.resolve_model("llama-2") is None


def test_gpus_go_by_id_and_by_what_the_driver_calls_them() -> None:
    for name in ("rtx-3090", "geforce rtx 3090", "NVIDIA GeForce RTX 3090"):
        assert CATALOGUE.resolve_gpu(name) == "rtx-3090"


def test_what_is_known_already_stays_as_it_is() -> None:
    extended = CATALOGUE.extended(
        [{"model_id": "llama-2-7b", "n_params": 1}, {"model_id": "new"}], []
    )
    assert set(extended.models) == {"llama-2-7b", "new"}
    assert "n_params" not in extended.models["llama-2-7b"]
    assert extended.gpus == CATALOGUE.gpus


def test_a_catalogue_that_nothing_is_added_to_stays_the_same_one() -> None:
    known = CATALOGUE.models["llama-2-7b"]
    assert CATALOGUE.extended([known], []) is CATALOGUE
    assert CATALOGUE.extended([], []) is CATALOGUE


def test_an_unknown_id_gets_the_nearest_and_the_way_to_add_one() -> None:
    assert CATALOGUE.unknown_gpu("rtx-309") == (
        "unknown gpu 'rtx-309'; did you mean 'rtx-3090'?; expected an id of the catalogue (list "
        "them with `registry gpus`); to add one, describe it under 'gpus' of the "
        "submission"
    )
    assert CATALOGUE.unknown_model("zzz").startswith("unknown model 'zzz'; expected an id")


def test_a_description_takes_no_name_from_what_is_known() -> None:
    evil = {"model_id": "evil", "aliases": ["LLaMA2-7B"]}
    aliases = {"llama-2-7b": {**CATALOGUE.models["llama-2-7b"], "aliases": ["llama2-7b"]}}
    known = Catalogue(aliases, CATALOGUE.gpus)
    assert known.contradiction("models", evil) == (
        "'evil' has the name 'LLaMA2-7B', which is that of 'llama-2-7b'; leave that name out"
    )
    assert known.extended([evil], []).resolve_model("llama2-7b") == "llama-2-7b"


def test_families_in_a_circle_end() -> None:
    cards = [{"gpu_id": one, "family_id": other} for one, other in ("ab", "ba", "cc")]
    known = Catalogue().extended([], cards)
    assert known.kinds_of("a") == ["a", "b"]
    assert known.kinds_of("c") == ["c"]
