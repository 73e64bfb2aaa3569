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
from registry.predict.dryrun.fake_operators import register_flash

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings
    from registry.predict.dryrun.result import Recipe


def build_meta(settings: Settings, source: dict[str, Any], recipe: Recipe) -> Any:
    """Return the model on the meta device: quantized, with adapters and checkpointing as asked."""
    model = _build_plain(settings, source, recipe)
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


def _build_plain(settings: Settings, source: dict[str, Any], recipe: Recipe) -> Any:
    """Return the model before it is quantized.

    transformers is told of the stand-in for FlashAttention once the model is there: it has no
    place among the words of a trial.
    """
    flash = settings.attention == "flash2"
    plain = replace(
        settings,
        quantization="none",
        attention="eager" if flash else settings.attention,
        dtype="fp32" if recipe.weights_fp32 else settings.dtype,
    )
    model = build_random(plain, load_config(source), "meta")
    if flash:
        model.set_attn_implementation(register_flash())
    return model


#: What families call their fused projections of attention.
_FUSED_NAMES = ("qkv_proj", "c_attn", "query_key_value", "Wqkv", "W_pack")


def _with_targets(model: Any, settings: Settings) -> Settings:
    """Return the settings with modules that the family has, where it has none of those stated."""
    there = {name.split(".")[-1] for name, _ in model.named_modules()}
    if there.intersection(settings.lora_target_modules):
        return settings
    found = tuple(name for name in _FUSED_NAMES if name in there)
    return replace(settings, lora_target_modules=found or ("all-linear",))


def _with_adapters(model: Any, settings: Settings, recipe: Recipe) -> Any:
    if recipe.family_targets:
        settings = _with_targets(model, settings)
    if recipe.adapters_fp32:
        return add_adapters(model, settings)
    peft = import_module("peft")
    return peft.get_peft_model(model, peft_config(settings), autocast_adapter_dtype=False)


def _quantize(model: Any, settings: Settings) -> None:
    quantized = _linear_int8 if settings.quantization == "int8" else _linear_4bit
    for name, linear in [*find_linears(model), *_transposed(model)]:
        layer = quantized(linear, settings)
        layer.bias = linear.bias
        model.set_submodule(name, layer.requires_grad_(requires_grad=False))
    model.requires_grad_(requires_grad=False)
    model.is_loaded_in_4bit = settings.quantization in ("nf4", "fp4")
    model.is_loaded_in_8bit = settings.quantization == "int8"


def _transposed(model: Any) -> list[tuple[str, Any]]:
    """Return GPT-2's layers, which transformers quantizes too, as linear ones."""
    torch = import_module("torch")
    conv1d = import_module("transformers.pytorch_utils").Conv1D
    found = []
    for name, module in model.named_modules():
        if type(module) is conv1d:
            sizes, dtype = module.weight.shape, module.weight.dtype
            linear = torch.nn.Linear(*sizes, bias=False, device="meta", dtype=dtype)
            linear.bias = module.bias
            found.append((name, linear))
    return found


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
