"""The training steps of a dry run. Loads torch."""

from __future__ import annotations

import logging
import time
import warnings
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from registry.measure.running.model_builder import torch_dtype
from registry.predict.dryrun import cuda_operators
from registry.predict.dryrun.fake_model import build_meta, fill_with_fakes
from registry.predict.dryrun.fake_operators import fake_operators
from registry.predict.dryrun.notes import collect_notes
from registry.predict.dryrun.optimizers import build_optimizer
from registry.predict.dryrun.result import DryRun, Recipe
from registry.predict.dryrun.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.measure.trial_settings import Settings

#: The second step is the first that begins with optimizer states.
_N_STEPS = 2

#: More micro-batches than two change nothing: the second begins with gradients.
_MAX_MICRO_BATCHES = 2


def run_training(settings: Settings, source: dict[str, Any], recipe: Recipe) -> DryRun:
    """Return the memory of two training steps on fake tensors, on one device."""
    began = time.monotonic()
    fake_mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode
    with _quiet():
        model = build_meta(settings, source, recipe)
        with fake_mode(allow_non_fake_inputs=True):
            training = _Training(settings, recipe, model, fill_with_fakes(model))
            training.run()
    return training.result(time.monotonic() - began)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' advice on real training out of the caller's output."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class _Training:
    """One model, its optimizer, and the tracker that watches them."""

    def __init__(self, settings: Settings, recipe: Recipe, model: Any, beside: list[Any]) -> None:
        self._torch = import_module("torch")
        self._settings = settings
        self._recipe = recipe
        self._model = model
        self._dtype = torch_dtype(settings)
        self._vocab_size = int(model.config.get_text_config().vocab_size)
        self._trainable = [item for item in model.parameters() if item.requires_grad]
        self._on_cuda = recipe.device == "cuda"
        workspace = cuda_operators.workspace_bytes if self._on_cuda else cuda_operators.no_workspace
        self._tracker = Tracker(self._vocab_size, workspace)
        self._buckets: Any = None
        self._track_model(beside)
        self._optimizer = build_optimizer(settings.optimizer, model)

    def _track_model(self, beside: list[Any]) -> None:
        track = self._tracker.track
        adapters = [] if self._settings.method == "full" else self._trainable
        known = {id(item) for item in adapters}
        track([item for item in self._model.parameters() if id(item) not in known], "weights")
        track([*self._model.buffers(), *beside], "weights")
        track(adapters, "adapters")
        if self._on_cuda:
            for _ in range(2):
                self._tracker.hold(self._recipe.cublas_workspace_bytes, "other")
        if self._settings.n_gpus > 1 and self._settings.sharding == "ddp":
            # DDP reduces gradients in buckets beside them (gradient_as_bucket_view is off).
            sizes = [item.numel() * item.element_size() for item in self._trainable]
            self._tracker.hold(sum(sizes), "gradients")
        for parameter in self._trainable:
            parameter.register_post_accumulate_grad_hook(
                lambda item: self._tracker.relabel(item.grad, "gradients")
            )

    def run(self) -> None:
        """Execute the steps."""
        with ExitStack() as modes:
            modes.enter_context(fake_operators())
            if self._on_cuda:
                modes.enter_context(cuda_operators.cuda_operators())
            modes.enter_context(self._tracker)
            for _ in range(_N_STEPS):
                for _ in range(min(self._settings.grad_accum_steps, _MAX_MICRO_BATCHES)):
                    self._micro_batch()
                self._update()

    def _micro_batch(self) -> None:
        self._tracker.phase = "forward"
        shape = (self._settings.micro_batch_size, self._settings.seq_len)
        tokens = self._torch.randint(0, self._vocab_size, shape)
        outputs = self._outputs(tokens)
        loss = outputs.loss
        if not self._recipe.keeps_outputs:
            del outputs
        self._tracker.phase = "backward"
        loss.backward()

    def _outputs(self, tokens: Any) -> Any:
        with self._autocast():
            if self._recipe.loss == "upcast":
                outputs = self._model(input_ids=tokens, labels=tokens)
            else:
                outputs = self._own_loss(self._model(input_ids=tokens), tokens)
        if self._recipe.outputs_fp32 and self._mixed:
            outputs.logits = outputs.logits.float()
        return outputs

    def _own_loss(self, outputs: Any, tokens: Any) -> Any:
        if self._recipe.loss == "shifted":
            outputs.logits = outputs.logits.float()
        shifted = outputs.logits[..., :-1, :].contiguous()
        targets = tokens[..., 1:].reshape(-1)
        cross_entropy = self._torch.nn.functional.cross_entropy
        outputs.loss = cross_entropy(shifted.view(-1, shifted.shape[-1]), targets)
        return outputs

    @property
    def _mixed(self) -> bool:
        return self._recipe.autocast and self._settings.dtype != "fp32"

    def _autocast(self) -> Any:
        return self._torch.autocast("cpu", dtype=self._dtype) if self._mixed else nullcontext()

    def _update(self) -> None:
        self._tracker.phase = "optimizer"
        if self._recipe.clip_gradients:
            self._torch.nn.utils.clip_grad_norm_(self._trainable, 1.0, foreach=True)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def result(self, seconds: float) -> DryRun:
        """Return what was found."""
        allocator = self._tracker.allocator
        return DryRun(
            peak_allocated_bytes=allocator.peak_allocated_bytes,
            peak_reserved_bytes=allocator.peak_reserved_bytes,
            breakdown=self._tracker.peak_by_kind,
            paged_bytes=getattr(self._optimizer, "paged_bytes", 0),
            phase=self._tracker.peak_phase,
            trainable_params=sum(item.numel() for item in self._trainable),
            seconds_taken=seconds,
            notes=collect_notes(
                self._settings, self._recipe, (name for name, _ in self._model.named_parameters())
            ),
        )
