"""Build the model of a trial. Runs in the job's own process; loads torch when called."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from registry.measure.words import ATTENTION, BITS, DTYPES, foreign_name

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings

#: Spread of random weights, as transformers initializes most architectures.
_INITIAL_STD = 0.02

#: Modules that stay unquantized, as transformers leaves them.
_NOT_QUANTIZED = ("lm_head", "embed_out", "output_layer")


#: Methods that train what is no linear layer, norms and tokens: what they train is PEFT's choice.
_OWN_TARGETS = ("ln_tuning", "trainable_tokens")
_ALL = ["all-linear"]


def build_model(settings: Settings, source: dict[str, Any], device: str) -> Any:
    """Return the model on its device, in its dtype, quantized and with adapters where asked."""
    if settings.weights == "pretrained":
        model = _load_pretrained(settings, source, device)
    else:
        model = build_random(settings, load_config(source), device)
    model.config.use_cache = False
    if settings.quantization != "none":
        model = _prepare_quantized(model)
    return model if settings.method == "full" else add_adapters(model, settings)


def torch_dtype(settings: Settings) -> Any:
    """Return torch's dtype of a trial."""
    return getattr(import_module("torch"), foreign_name(DTYPES, settings.dtype))


def load_config(source: dict[str, Any]) -> Any:
    """Return the transformers configuration that a model source describes."""
    auto = import_module("transformers").AutoConfig
    if source["kind"] == "hub":
        return auto.from_pretrained(source["hf_id"], local_files_only=True, trust_remote_code=False)
    config = dict(source["config"])
    return auto.for_model(config.pop("model_type"), **config)


def build_random(settings: Settings, config: Any, device: str) -> Any:
    """Return a model with random weights, made where it is used: nothing is downloaded."""
    torch = import_module("torch")
    auto = import_module("transformers").AutoModelForCausalLM
    options = {
        "dtype": torch_dtype(settings),
        "attn_implementation": foreign_name(ATTENTION, settings.attention),
    }
    if settings.quantization == "none":
        with torch.device(device):
            return auto.from_config(config, **options)
    with import_module("accelerate").init_empty_weights(include_buffers=False):
        model = auto.from_config(config, **options)
    model.to(dtype=torch_dtype(settings))
    _quantize_layers(model, settings, device)
    _fill_rest(model, device)
    model.tie_weights()
    model.is_loaded_in_4bit = BITS[settings.quantization] == 4  # noqa: PLR2004 - as the name says
    model.is_loaded_in_8bit = not model.is_loaded_in_4bit
    return model


def _quantize_layers(model: Any, settings: Settings, device: str) -> None:
    """Replace linear layers one by one, so that one layer at a time exists unquantized."""
    for name, linear in find_linears(model):
        model.set_submodule(name, _quantized_linear(linear, settings, device))


def find_linears(model: Any) -> list[tuple[str, Any]]:
    """Return the linear layers that are quantized, by their names."""
    linear = import_module("torch").nn.Linear
    return [
        (name, module)
        for name, module in model.named_modules()
        if type(module) is linear and name.split(".")[-1] not in _NOT_QUANTIZED
    ]


def _quantized_linear(linear: Any, settings: Settings, device: str) -> Any:
    torch = import_module("torch")
    bnb = import_module("bitsandbytes")
    dtype = torch_dtype(settings)
    weight = torch.empty(linear.out_features, linear.in_features, dtype=dtype, device=device)
    weight.normal_(0, _INITIAL_STD)
    shape = (linear.in_features, linear.out_features)
    common = {"bias": linear.bias is not None, "device": "meta"}
    if settings.quantization == "int8":
        layer = bnb.nn.Linear8bitLt(*shape, has_fp16_weights=False, **common)
        packed = bnb.nn.Int8Params(weight.cpu(), requires_grad=False, has_fp16_weights=False)
    else:
        options = {
            "quant_type": settings.quantization,
            "compress_statistics": settings.double_quant,
        }
        layer = bnb.nn.Linear4bit(*shape, compute_dtype=dtype, **options, **common)
        packed = bnb.nn.Params4bit(weight, requires_grad=False, module=layer, **options)
    layer.weight = packed.to(device)
    if linear.bias is not None:
        bias = torch.zeros(linear.out_features, dtype=dtype, device=device)
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    return layer.requires_grad_(requires_grad=False)


def _fill_rest(model: Any, device: str) -> None:
    """Give values to the parameters that are not quantized, and move the buffers."""
    torch = import_module("torch")
    filled: dict[int, Any] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_meta:
                if id(parameter) not in filled:
                    filled[id(parameter)] = (parameter, _random_like(torch, parameter, device))
                setattr(module, name, filled[id(parameter)][1])
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))


def _random_like(torch: Any, parameter: Any, device: str) -> Any:
    tensor = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
    if parameter.dim() > 1:
        tensor.normal_(0, _INITIAL_STD)
    else:
        tensor.fill_(1)
    return torch.nn.Parameter(tensor)


def _load_pretrained(settings: Settings, source: dict[str, Any], device: str) -> Any:
    transformers = import_module("transformers")
    return transformers.AutoModelForCausalLM.from_pretrained(
        source["hf_id"],
        dtype=torch_dtype(settings),
        attn_implementation=foreign_name(ATTENTION, settings.attention),
        quantization_config=_quantization_config(settings),
        device_map={"": device},
        trust_remote_code=False,
        use_safetensors=True,  # never a pickle
    )


def _quantization_config(settings: Settings) -> Any:
    config = import_module("transformers").BitsAndBytesConfig
    if settings.quantization == "none":
        return None
    if settings.quantization == "int8":
        return config(load_in_8bit=True)
    return config(
        load_in_4bit=True,
        bnb_4bit_quant_type=settings.quantization,
        bnb_4bit_use_double_quant=settings.double_quant,
        bnb_4bit_compute_dtype=torch_dtype(settings),
    )


def _prepare_quantized(model: Any) -> Any:
    """Freeze the base and hold its unquantized parts in fp32, as PEFT prepares a QLoRA run.

    Checkpointing is left to the trainer.
    """
    peft = import_module("peft")
    return peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)


def add_adapters(model: Any, settings: Settings) -> Any:
    """Return the model with the adapters of the trial's method."""
    peft = import_module("peft")
    return peft.get_peft_model(model, peft_config(settings))


def peft_config(settings: Settings) -> Any:
    """Return PEFT's own configuration of the method; fields in ``settings.peft`` go first."""
    config_class = _peft_class(settings.method)
    stated: dict[str, Any] = {"task_type": "CAUSAL_LM"}
    if settings.method in ("lora", "dora"):
        stated |= {
            "r": settings.lora_rank,
            "lora_alpha": settings.lora_alpha,
            "lora_dropout": settings.lora_dropout,
            "use_rslora": settings.use_rslora,
            "use_dora": settings.method == "dora",
        }
    accepted = inspect.signature(config_class).parameters
    targets = list(settings.lora_target_modules)
    if "target_modules" in accepted and not (settings.method in _OWN_TARGETS and targets == _ALL):
        stated["target_modules"] = targets[0] if targets == _ALL else targets
    if settings.trains_embeddings:
        stated["modules_to_save"] = ["embed_tokens", "lm_head"]
    return config_class(**{**stated, **settings.peft})


def _peft_class(method: str) -> Any:
    peft = import_module("peft")
    if method in ("lora", "dora"):
        return peft.LoraConfig
    mapping = import_module("peft.mapping").PEFT_TYPE_TO_CONFIG_MAPPING
    known = {str(getattr(kind, "value", kind)).lower(): found for kind, found in mapping.items()}
    if method not in known:
        raise ValueError(
            f"PEFT has no method {method!r}; expected one of {', '.join(sorted(known))}"
        )
    return known[method]
