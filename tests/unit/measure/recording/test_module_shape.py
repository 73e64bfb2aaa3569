"""Models that carry no configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from registry.measure.recording.loop_job import LoopJob, read_module_shape


class ModuleList(list[Any]):
    """A list of modules, by the name that torch gives it."""


class Net:
    """A model of some modules."""

    def __init__(self, *modules: Any) -> None:
        self._modules = modules

    def modules(self) -> list[Any]:
        return list(self._modules)


WORDS = SimpleNamespace(num_embeddings=512, embedding_dim=128)
PLACES = SimpleNamespace(num_embeddings=64, embedding_dim=128)
LAYERS = ModuleList([1, 2, 3, 4])


def test_the_shape_is_read_from_the_modules() -> None:
    attention = SimpleNamespace(num_heads=4, num_kv_heads=2)
    assert read_module_shape(Net(PLACES, WORDS, ModuleList([1]), LAYERS, attention)) == {
        "vocab_size": 512,
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }


def test_what_no_module_shows_is_left_out() -> None:
    assert read_module_shape(Net(SimpleNamespace(num_heads=4))) == {}


def test_a_model_with_a_configuration_is_what_that_says() -> None:
    stated = SimpleNamespace(config={"n_layer": 2, "n_embd": 8})
    job = LoopJob(Net(stated, WORDS, LAYERS), [])
    assert job.config == {"model_type": "net", "n_layer": 2, "n_embd": 8}
    assert LoopJob(Net(WORDS), []).config["hidden_size"] == 128
