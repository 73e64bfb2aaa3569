"""Build the model of a trial on the meta device, then put fake tensors in. Loads torch when called.

The two steps are needed: modules cannot be moved between fakes and real tensors, and what PEFT and
transformers do to parameters works on the meta device as it does on a real one.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from registry.measure.running.model_builder import (
    add_adapters,
    build_random,
    find_linears,
    load_config,
    peft_config,
    torch_dtype,
)

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings
    from registry.predict.dryrun.result import Recipe


def build_meta(settings: Settings, source: dict[str, Any], recipe: Recipe) -> Any:
    """Return the model on the meta device: quantized, with adapters and checkpointing as asked."""
    model = build_random(_unquantized(settings), load_config(source), "meta")
    model.config.use_cache = False
    if settings.quantization != "none":
        _quantize(model, settings)
        if recipe.frozen_fp32:
            prepare = import_module("peft").prepare_model_for_kbit_training
            model = prepare(model, use_gradient_checkpointing=False)
    if settings.method != "full":
        model = _with_adapters(model, settings, recipe)
    if settings.gradient_checkpointing:
        _checkpoint(model, reentrant=recipe.reentrant)
    return model.train()


def _checkpoint(model: Any, *, reentrant: bool) -> None:
    if reentrant:  # gradients flow through a checkpoint of this kind only from its inputs
        model.enable_input_require_grads()
    options = {"use_reentrant": reentrant}
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


def _unquantized(settings: Settings) -> Settings:
    """Return the settings of the model before it is quantized.

    ``flash2`` needs its own package and a GPU; sdpa without a mask keeps the same tensors.
    """
    attention = "sdpa" if settings.attention == "flash2" else settings.attention
    return replace(settings, quantization="none", attention=attention)


def _with_adapters(model: Any, settings: Settings, recipe: Recipe) -> Any:
    if recipe.adapters_fp32:
        return add_adapters(model, settings)
    peft = import_module("peft")
    return peft.get_peft_model(model, peft_config(settings), autocast_adapter_dtype=False)


def _quantize(model: Any, settings: Settings) -> None:
    quantized = _linear_int8 if settings.quantization == "int8" else _linear_4bit
    for name, linear in find_linears(model):
        layer = quantized(linear, settings)
        layer.bias = linear.bias
        model.set_submodule(name, layer.requires_grad_(requires_grad=False))
    model.requires_grad_(requires_grad=False)
    model.is_loaded_in_4bit = settings.quantization in ("nf4", "fp4")
    model.is_loaded_in_8bit = settings.quantization == "int8"


def _linear_4bit(linear: Any, settings: Settings) -> Any:
    bnb = import_module("bitsandbytes")
    options = {"quant_type": settings.quantization, "compress_statistics": settings.double_quant}
    packed, state = bnb.functional.quantize_4bit(linear.weight.data, **options)
    layer = bnb.nn.Linear4bit(
        linear.in_features,
        linear.out_features,
        bias=linear.bias is not None,
        compute_dtype=torch_dtype(settings),
        device="meta",
        **options,
    )
    layer.weight = bnb.nn.Params4bit(
        packed, requires_grad=False, quant_state=state, bnb_quantized=True, module=layer, **options
    )
    return layer


def _linear_int8(linear: Any, settings: Settings) -> Any:
    """Return an int8 layer with CUDA's product; bitsandbytes has another on the CPU."""
    del settings
    torch = import_module("torch")
    bnb = import_module("bitsandbytes")
    product = import_module("bitsandbytes.autograd._functions").MatMul8bitLt

    class Linear(bnb.nn.Linear8bitLt):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            if self.bias is not None and self.bias.dtype != x.dtype:
                self.bias.data = self.bias.data.to(x.dtype)
            self.state.CB = self.weight.data
            return product.apply(x, self.weight, None, self.bias, self.state)

    sizes = (linear.in_features, linear.out_features)
    layer = Linear(*sizes, bias=linear.bias is not None, has_fp16_weights=False, device="meta")
    packed = torch.empty(linear.weight.shape, dtype=torch.int8, device="meta")
    layer.weight = torch.nn.Parameter(packed, requires_grad=False)
    layer.state.SCB = torch.empty(linear.out_features, dtype=torch.float32, device="meta")
    return layer


def fill_with_fakes(model: Any) -> list[Any]:
    """Replace all parameters and buffers by new tensors of the mode at work.

    Return the tensors that belong to quantized weights without being parameters. Tied parameters
    stay tied.
    """
    filled: dict[int, Any] = {}
    beside: list[Any] = []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in filled:
                filled[id(parameter)] = (parameter, _fake_parameter(parameter, beside))
            module._parameters[name] = filled[id(parameter)][1]  # noqa: SLF001 - setattr would refuse the type
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = _fake(buffer)  # noqa: SLF001 - setattr would refuse the type
        state: Any = getattr(module, "state", None)
        if getattr(state, "SCB", None) is not None:
            state.SCB = _fake(state.SCB)
            beside.append(state.SCB)
    return beside


def _fake(tensor: Any) -> Any:
    return import_module("torch").empty(tensor.shape, dtype=tensor.dtype)


def _fake_parameter(parameter: Any, beside: list[Any]) -> Any:
    made = import_module("torch").nn.Parameter(
        _fake(parameter), requires_grad=parameter.requires_grad
    )
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        made.quant_state = state
        for holder in (state, state.state2):
            _fill_state(holder, beside)
    return made


def _fill_state(state: Any, beside: list[Any]) -> None:
    if state is None:
        return
    for name in ("absmax", "code", "offset"):
        if getattr(state, name, None) is not None:
            setattr(state, name, _fake(getattr(state, name)))
            beside.append(getattr(state, name))
