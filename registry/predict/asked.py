"""A question in people's words, as the command's options and Python's arguments have it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.catalogue.module_names import ALL_LINEAR, check_modules
from registry.contract import vocabulary
from registry.contract.methods import QUANTIZED
from registry.errors import QuestionError, SourceError, did_you_mean, excerpt
from registry.predict.architecture import (
    architecture_from_config,
    architecture_from_figures,
    architecture_of,
)
from registry.predict.cards import find_family, find_gpu, find_kinds, parse_vram
from registry.predict.formula.methods import HAVE_VIRTUAL_TOKENS, METHODS, has_rank
from registry.predict.question import LOSS_KERNELS, Question, vary_below
from registry.predict.sample_lengths import read_lengths
from registry.predict.sharding import FSDP_VERSIONS
from registry.reading.bounded_file import open_regular, read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue import Catalogue
    from registry.predict.architecture import Accelerator, Architecture
    from registry.predict.sample_lengths import SampleLengths

#: Fields of a question that are called otherwise than the option.
_FIELDS = {
    "gpus": "n_gpus",
    "nodes": "n_nodes",
    "batch": "micro_batch_size",
    "accum": "grad_accum_steps",
    "targets": "lora_target_modules",
    "train_embeddings": "trains_embeddings",
    "checkpointing": "gradient_checkpointing",
    "dtype": "compute_dtype",
}
_OPTIONS = {field: option for option, field in _FIELDS.items()}


@dataclass(frozen=True)
class Asked:
    """What is asked: each field is the option of its name, ``seq_len`` that of ``--seq-len``.

    None is what nobody said.
    """

    model: str | None = None
    #: A config.json, the folder of one, or a model of the catalogue.
    config: str | None = None
    params: str | float | None = None
    layers: int | None = None
    hidden: int | None = None
    vocab: int | None = None
    gpu: tuple[str, ...] = ()
    vram: str | None = None
    gpus: int = 1
    nodes: int | None = None
    method: str = "lora"
    quant_bits: int | None = None
    quant_method: str | None = None
    double_quant: bool | None = None
    quantized_experts: bool | None = None
    seq_len: int | str = 2048
    batch: int = 1
    accum: int | None = None
    lora_rank: int | None = None
    targets: str | tuple[str, ...] | None = None
    train_embeddings: bool = False
    checkpointing: bool | None = None
    attention: str | None = None
    dtype: str | None = None
    param_dtype: str | None = None
    loss_kernel: str | None = None
    optimizer: str | None = None
    optimizer_in_backward: bool | None = None
    virtual_tokens: int | None = None
    packing: bool | None = None
    longest_sample: int | None = None
    mean_tokens: float | str | None = None
    #: A file of the tokens of each sample, instead of the two before.
    lengths: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    sharding: str | None = None
    offload: str | None = None
    stack: str | None = None

    @cached_property
    def sample_lengths(self) -> SampleLengths | None:
        """The lengths that the file states; raises QuestionError for what is no such file."""
        return None if self.lengths is None else read_lengths(str(self.lengths))

    def having(self, settings: Mapping[str, Any]) -> Asked:
        """Return it with fields of a question changed, such as ``micro_batch_size``."""
        named = {_OPTIONS.get(name, name): value for name, value in settings.items()}
        if named.get("sharding") == "fsdp" and self.sharding in FSDP_VERSIONS:
            named["sharding"] = self.sharding  # the generation that was asked for
        known: dict[str, Any] = {field.name: field.default for field in fields(self)}
        return replace(
            self,
            **{n: known[n] if v is None else v for n, v in named.items() if n in known},
        )

    def command(self, name: str = "fit") -> str:
        """Return the command that asks this.

        >>> Asked(model="llama-2-7b", gpu=("rtx-3090",), batch=2, checkpointing=False).command()
        'registry fit --model llama-2-7b --gpu rtx-3090 --method lora --batch 2 --no-checkpointing'
        """
        words = ["registry", name]
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default or field.name == "method":
                words += _words(field.name.replace("_", "-"), value)
        return shlex.join(words)


def _words(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    if option == "targets" and not isinstance(value, str):
        return [f"--{option}", ",".join(value)]
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values for word in (f"--{option}", str(each))]


def ask(**words: Any) -> Asked:
    """Return what is asked by keywords; None is the same as leaving one out.

    Raises TypeError for one that no option is called like, QuestionError for a switch that is no
    truth value.
    """
    known = [field.name for field in fields(Asked)]
    for name in words:
        if name not in known:
            near = did_you_mean(_OPTIONS.get(name, name), known)
            meant = f"; did you mean {_OPTIONS[name]!r}?" if name in _OPTIONS else near
            raise TypeError(f"unexpected argument {name!r}{meant}; expected {', '.join(known)}")
    gpu = words.get("gpu")
    several = gpu if isinstance(gpu, (tuple, list)) else (gpu,) if gpu else ()
    config = words.get("config")
    for name, values in (("gpu", several), ("config", () if config is None else (config,))):
        for value in values:
            if not isinstance(value, str if name == "gpu" else str | PathLike):
                kind = "the name of a card" if name == "gpu" else "the path of a config.json"
                raise QuestionError(f"{name}: found {excerpt(value)}; expected {kind}")
    named = {"gpu": tuple(several), "config": None if config is None else str(config)}
    defaults: dict[str, Any] = {field.name: field.default for field in fields(Asked)}
    given: dict[str, Any] = {
        name: defaults[name] if value is None else value for name, value in words.items()
    }
    for name in _SWITCHES:
        if name in given and not isinstance(given[name], bool | None):
            raise QuestionError(f"{name}: found {given[name]!r}; expected True or False")
    return Asked(**{**given, **named})


#: Fields that are true or false, or open.
_SWITCHES = tuple(field.name for field in fields(Asked) if str(field.type).startswith("bool"))


def choices(name: str) -> list[str]:
    """Return the words that an option takes."""
    if name == "method":
        return [*QUANTIZED, *vocabulary("method")]
    if name == "loss_kernel":
        return ["whole", *dict.fromkeys(LOSS_KERNELS.values())]
    if name == "sharding":
        return [*vocabulary("sharding"), *FSDP_VERSIONS]
    return list(vocabulary({"param_dtype": "dtype"}.get(name, name)))


def explain_objective(word: str) -> str | None:
    """Return why an objective, such as dpo, is no method, and the way out; None for other words."""
    if word in choices("method") or word not in vocabulary("objective"):
        return None
    return (
        f"found {word!r}, which is an objective: the memory of its other models and passes is not "
        "computed; expected a method such as full, lora or qlora, answered for supervised "
        "fine-tuning; to see what was measured: "
        f"registry query \"from results where objective = '{word}'\""
    )


#: Dtypes in which no framework that is computed here holds trainable or frozen weights.
_OF_PRODUCTS = ("fp8", "fp4")
_CHOSEN = (
    "method", "quant_method", "attention", "dtype", "param_dtype", "loss_kernel", "optimizer",
    "sharding", "offload",
)  # fmt: skip
_WHOLE = (
    "layers", "hidden", "vocab", "gpus", "nodes", "seq_len", "batch", "accum",
    "lora_rank", "virtual_tokens", "tensor_parallel", "pipeline_parallel", "longest_sample",
)  # fmt: skip


#: Largest whole number that is asked about: a product of two is still a machine's integer.
_MOST = 1e9
_NEGATIVE = re.compile(r"\s*-\s*[0-9]")
_WHOLE_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)\s*(k?)")
_NUMBER = re.compile(r"([0-9]*\.?[0-9]+(?:e\+?[0-9]{1,2})?)\s*([kmb]?)")


def parse_whole(text: object, where: str, *, thousand: int = 1024) -> int:
    """Return a whole number as people write it; k is ``thousand``. Raise QuestionError for none.

    >>> parse_whole("4k", "seq_len"), parse_whole("1e4", "samples")
    (4096, 10000)
    """
    number = _read_number(text, thousand)
    if number is None or number > _MOST or number != int(number):
        raise QuestionError(
            f"{where}: found {text!r}; expected a whole number such as 4096, 4k or 1e4, 1e9 at most"
        )
    return int(number)


def parse_count(text: object, where: str, *, thousand: int = 1024) -> int:
    """Return a whole number above 0; raise QuestionError for none."""
    is_negative = _NEGATIVE.match(str(text))
    number = 0 if is_negative else parse_whole(text, where, thousand=thousand)
    if not number:
        raise QuestionError(f"{where}: found {text!r}; expected a whole number above 0")
    return number


def parse_mean(text: object, where: str) -> float:
    """Return a mean number of tokens; k is 1024. Raise QuestionError for none above 0.

    >>> parse_mean("1.5k", "mean_tokens"), parse_mean(850.5, "mean_tokens")
    (1536.0, 850.5)
    """
    number = _read_number(text, 1024)
    if number is None or not 0 < number <= _MOST:
        raise QuestionError(
            f"{where}: found {text!r}; expected a number above 0 such as 850, 850.5 or 4k, 1e9 at "
            "most"
        )
    return number


def _read_number(text: object, thousand: int) -> float | None:
    match = _WHOLE_NUMBER.fullmatch(str(text).strip().lower())
    return float(match[1]) * (thousand if match[2] else 1) if match else None


_SCALES = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}


def parse_number(text: object, where: str) -> float:
    """Return a number such as ``8e9``, ``8B`` or ``1.5b``; raise QuestionError for none.

    >>> parse_number("1.5B", "params")
    1500000000.0
    """
    match = _NUMBER.fullmatch(str(text).strip().lower())
    if match is None:
        raise QuestionError(f"{where}: found {text!r}; expected a number such as 8e9 or 8B")
    return float(match[1]) * _SCALES[match[2]]


def build_question(asked: Asked, catalogue: Catalogue) -> Question:
    """Return the question that is asked, without a card where several are.

    Raises QuestionError for what is not known, and for what cannot be run or is not computed.
    """
    stated = _checked(asked)
    method, bits = QUANTIZED.get(asked.method, (asked.method, None))
    bits = stated["quant_bits"] or bits
    fsdp_version = FSDP_VERSIONS.get(str(asked.sharding))
    _refuse_idle(asked, method)
    if asked.quant_method is not None and bits is None:
        raise QuestionError(
            f"quant_method {asked.quant_method}: found no bits; expected --quant-bits (4, 8) "
            "with it, or --method qlora"
        )
    model = find_architecture(asked, catalogue)
    names = {field.name for field in fields(Question)}
    settings = {_FIELDS.get(name, name): value for name, value in stated.items()}
    settings = {name: value for name, value in settings.items() if name in names}
    settings |= {
        "model": model,
        "gpu": find_card(asked, catalogue),
        "method": method,
        "quant_bits": bits,
        **_find_quantization(asked, model, bits),
        "trains_embeddings": asked.train_embeddings and method != "full",  # which trains them too
        "sharding": "fsdp" if fsdp_version else asked.sharding,
        "fsdp_version": fsdp_version,
        "lora_target_modules": _parse_targets(asked.targets),
        **_lengths_of(asked, stated),
    }
    _refuse_modules(model, settings["lora_target_modules"])
    question = Question(**settings)
    _refuse_uneven_heads(question)
    if asked.lora_rank is not None and not has_rank(question):
        raise QuestionError(
            f"lora_rank with method {method}: it has no rank; expected no lora_rank, or --method "
            "lora"
        )
    return question


def _find_quantization(asked: Asked, model: Architecture, bits: int | None) -> dict[str, Any]:
    """Return how the base is quantized: as asked, else as a config.json says of as many bits."""
    known = model.quantizer in choices("quant_method") and model.stored == f"in {bits} bits"
    stored = model.quantizer if known else None
    method, doubles = asked.quant_method or stored, asked.double_quant
    if doubles is None and known and method == stored:
        doubles = model.double_quant
    return {"quant_method": method, "double_quant": doubles}


def _refuse_modules(model: Architecture, targets: tuple[str, ...] | None) -> None:
    """Raise QuestionError for modules that the model's family does not have."""
    if problems := list(check_modules(model.model_type, targets or (), "targets")):
        raise QuestionError("; ".join(problems))


def _refuse_uneven_heads(question: Question) -> None:
    """Raise QuestionError where the devices that share a layer cannot have as many heads each."""
    heads, devices = question.model.n_heads, question.tensor_parallel or 1
    if heads % devices:
        raise QuestionError(
            f"tensor_parallel {devices}: found {heads} attention heads, which so many devices "
            "cannot share evenly; expected a number that divides them"
        )


#: What names of repositories say of weights that are stored quantized.
_QUANTIZED_NAME = re.compile(
    r"(?<![a-z0-9])(awq|gptq|bnb|gguf|exl2|fp8|nf4|nvfp4|mxfp4|w4a16|[48]-?bit|int[48])(?![a-z0-9])"
)


def warn_of_name(asked: Asked, question: Question) -> list[str]:
    """Return a warning where the model's name says that it is quantized and nothing else does."""
    said = _QUANTIZED_NAME.search(str(asked.model or "").lower())
    if said is None or question.quantized:
        return []
    warning = (
        f"{asked.model!r} says that its weights are stored quantized ({said[1]}); it is asked "
        f"about in 16 bits, as {question.model.model_id}: --method qlora asks about 4 bits, and "
        "--quant-method says how"
    )
    return [warning]


def warn_of_unused(question: Question) -> list[str]:
    """Return a warning for each thing that is said of a quantization and changes nothing."""
    model, warnings = question.model, []
    if question.quantized_experts is not None and not (question.quantized and model.n_experts):
        reason = "no weights are quantized" if model.n_experts else "it has none"
        warnings.append(
            f"what is said of quantized experts of {model.model_id} is unused: {reason}"
        )
    if question.double_quant is not None and not question.has_constants:
        warnings.append(
            "what is said of double quantization is unused: only bitsandbytes' 4 bits have it"
        )
    return warnings


def _refuse_idle(asked: Asked, method: str) -> None:
    """Raise QuestionError for what a method has no use for."""
    if method == "full" and asked.targets:
        raise QuestionError(
            "targets with method full: all weights are trained; expected no --targets, or --method "
            "lora"
        )
    has_modules = method not in METHODS or METHODS[method].targets != ()
    stated = (name for name in ("targets", "lora_rank") if getattr(asked, name) is not None)
    if not has_modules and (name := next(stated, None)):
        raise QuestionError(
            f"{name} with method {method}: it has no adapters on modules; expected no {name}, or "
            "--method lora"
        )
    if asked.virtual_tokens is not None and method not in HAVE_VIRTUAL_TOKENS:
        raise QuestionError(
            f"virtual_tokens with method {method}: it has none; expected none, or --method "
            f"{', '.join(HAVE_VIRTUAL_TOKENS)}"
        )


def _checked(asked: Asked) -> dict[str, Any]:
    """Return the fields, whole numbers parsed; raise QuestionError for words that are not known."""
    stated = dict(vars(asked))
    for name in _CHOSEN:
        word, known = stated[name], choices(name)
        if word is not None and word not in known:
            if name == "method" and (reason := explain_objective(str(word))):
                raise QuestionError(f"method: {reason}")
            raise QuestionError(
                f"{name}: found {word!r}{did_you_mean(str(word), known)}; expected one of "
                f"{', '.join(known)}"
            )
    if asked.param_dtype in _OF_PRODUCTS:
        raise QuestionError(
            f"param_dtype {asked.param_dtype}: found a format of products, beside which weights "
            "are held in 16 bits; expected fp32, bf16 or fp16, or --quant-bits for weights that "
            "are stored in fewer bits"
        )
    if not isinstance(asked.stack, str | None):
        raise QuestionError(f"stack: found {asked.stack!r}; expected a source or framework's name")
    for name in _WHOLE:
        if stated[name] is not None:
            stated[name] = parse_count(stated[name], name)
    if asked.quant_bits is not None:
        stated["quant_bits"] = _parse_bits(asked.quant_bits)
    if asked.mean_tokens is not None:
        stated["mean_tokens"] = parse_mean(asked.mean_tokens, "mean_tokens")
    return stated


def _parse_bits(text: object) -> int:
    """Return a number of bits, of which `check_question` knows those that there are."""
    try:
        return parse_count(text, "quant_bits")
    except QuestionError:
        raise QuestionError(
            f"quant_bits: found {text!r}; expected 2, 3, 4 or 8, or nothing"
        ) from None


def _lengths_of(asked: Asked, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of the samples' lengths, in figures or by a file.

    Samples that are clearly shorter on average than the longest differ in length; packed ones fill
    all sequences alike.
    """
    seq_len: int = stated["seq_len"]
    longest, mean = stated["longest_sample"], stated["mean_tokens"]
    if asked.lengths is not None:
        _refuse_beside_file(asked)
    if (found := asked.sample_lengths) is not None:
        longest, mean = None if asked.packing else found.longest, found.mean_below(seq_len)
    if longest is not None and mean is not None and mean > longest:
        raise QuestionError(
            f"mean_tokens {mean:g} with longest_sample {longest}: expected a mean that is at most "
            "the longest; correct one of them"
        )
    limit = min(longest or seq_len, seq_len)
    varies = mean is not None and not asked.packing and vary_below(limit, mean)
    return {
        "longest_sample": longest,
        "mean_tokens": mean,
        "length_distribution": "variable" if varies else None,
    }


def _refuse_beside_file(asked: Asked) -> None:
    beside = ("longest_sample", "mean_tokens")
    if named := [name for name in beside if getattr(asked, name) is not None]:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in named)
        raise QuestionError(
            f"found --lengths and {options}; expected --lengths alone, which states both"
        )


def _parse_targets(targets: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if targets is None:
        return None
    names = targets.split(",") if isinstance(targets, str) else targets
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise QuestionError(f"targets: found {targets!r}; expected the names of modules")
    stripped = {name.strip() for name in names if name.strip()}
    if not stripped:
        raise QuestionError(
            f"targets: found {targets!r}; expected modules such as q_proj,v_proj, or all-linear"
        )
    # PEFT reads the word in any case
    return tuple(sorted(ALL_LINEAR if one.lower() == ALL_LINEAR else one for one in stripped))


def find_architecture(asked: Asked, catalogue: Catalogue) -> Architecture:
    """Return the model that is asked about: of the catalogue, a config.json, or figures."""
    sizes: dict[str, Any] = {
        name: parse_count(value, name)
        for name in ("layers", "hidden", "vocab")
        if (value := getattr(asked, name)) is not None
    }
    asked = replace(asked, **sizes)
    ways = [name for name in ("model", "config", "params") if getattr(asked, name) is not None]
    figures = [f"--{name}" for name in ("layers", "hidden", "vocab") if getattr(asked, name)]
    if figures and asked.params is None:
        raise QuestionError(
            f"found {' and '.join(figures)} without --params; expected them to describe a model "
            "that is given by its figures: --params 8e9 --layers 32"
        )
    if len(ways) != 1:
        found = " and ".join(f"--{name}" for name in ways) or "no model"
        raise QuestionError(
            f"found {found}; expected one of --model ID, --config FILE, or --params and --layers"
        )
    if asked.config is not None:
        return _read_architecture(asked.config, catalogue)
    if asked.params is not None:
        if asked.layers is None:
            raise QuestionError("--params needs --layers; or give --config config.json")
        n_params = parse_number(asked.params, "params")
        if not _FEWEST <= n_params <= _MOST_PARAMS:
            raise QuestionError(
                f"params: found {asked.params!r}; expected the parameters of a decoder, such as "
                "2.1B, 2.1e9 or 350M"
            )
        return architecture_from_figures(
            int(n_params),
            asked.layers,
            hidden_size=asked.hidden,
            vocab_size=asked.vocab,
        )
    return architecture_of(catalogue.models[find_model(str(asked.model), catalogue)])


#: Fewer than anybody trains: 2.1 is meant as 2.1B.
_FEWEST = 1_000
#: More than any model has.
_MOST_PARAMS = 1e15


def find_config(config: str) -> Path | None:
    """Return the config.json that a file or folder is, or None where neither is there.

    Raises QuestionError for a folder without one.
    """
    path = Path(config).expanduser()
    try:
        if not path.is_dir():
            return path if path.exists() else None
    except OSError:  # no name of a file, such as what a file holds
        return None
    if not (path / "config.json").is_file():
        raise QuestionError(
            f"config {config!r}: found a folder without config.json; expected the folder of a "
            "model, its config.json, or a model of the catalogue"
        )
    return path / "config.json"


def _read_architecture(config: str, catalogue: Catalogue) -> Architecture:
    path = find_config(config)
    if path is not None:
        return architecture_from_config(_read_config(path), config)
    found = catalogue.resolve_model(config)
    if found is None:
        raise QuestionError(
            f"config {excerpt(config, 200)}: found no such file, folder or model"
            f"{catalogue.nearest_model(config)}; expected a config.json, the folder of one, or a "
            "model of the catalogue (list them with `registry models`)"
        )
    return architecture_of(catalogue.models[found])


#: What llama.cpp's files begin with.
_GGUF = b"GGUF"
#: In bytes; they have a few thousand.
_LARGEST_CONFIG = 2**20


def _read_config(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path, what="a config.json") as file:
            is_gguf = file.read(len(_GGUF)) == _GGUF
        if is_gguf:
            raise QuestionError(f"{path}: found weights (GGUF); expected the model's config.json")
        config = json.loads(read_bytes(path, limit=_LARGEST_CONFIG, what="a config.json"))
    except SourceError as error:
        raise QuestionError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"{path}: found no JSON ({error}); expected a config.json") from None
    if not isinstance(config, dict):
        raise QuestionError(f"{path}: found no object; expected a config.json")
    if "peft_type" in config:
        base = config.get("base_model_name_or_path") or "its base model"
        raise QuestionError(
            f"{path}: found the configuration of an adapter ({config['peft_type']}); expected the "
            f"config.json of the model that it adapts, {base}: give that, or --model with its name"
        )
    return config


def find_model(name: str, catalogue: Catalogue) -> str:
    """Return the id of a model of the catalogue; raise QuestionError for an unknown one."""
    found = catalogue.resolve_model(name)
    if found is None:
        problem = catalogue.unknown_model(name).split("; to add")[0]
        raise QuestionError(
            f"{problem}; or describe it: --config config.json, or --params 8e9 --layers 32"
        )
    return found


def find_card(asked: Asked, catalogue: Catalogue) -> Accelerator | None:
    """Return the one card that is asked about, of the catalogue or of a size.

    None for none, several or a family.
    """
    if asked.vram is not None:
        if asked.gpu:
            raise QuestionError("found --gpu and --vram; expected one of them")
        return parse_vram(asked.vram)
    if len(asked.gpu) != 1 or find_family(asked.gpu[0], catalogue):
        return None
    return find_gpu(asked.gpu[0], catalogue)


def find_cards(asked: Asked, catalogue: Catalogue) -> list[Accelerator]:
    """Return the cards that are asked about, the kinds of families among them."""
    card = find_card(asked, catalogue)
    if card is not None:
        return [card]
    found = [card for name in asked.gpu for card in find_kinds(name, catalogue)]
    return list(dict.fromkeys(found))
