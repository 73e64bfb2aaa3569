"""An independent stopwatch in every Python process of a case: it shares no code with the recorder.

Every optimizer step is stamped as it ends, and every batch that an embedding looks up while
gradients are on is noted by its shape, the first of a step with the moment. Each process writes
``stamps-PID.json`` at its end.
"""

# ruff: noqa: ANN001, ANN002, ANN202 - plain Python for any interpreter
import atexit
import importlib.abc
import json
import os
import sys
import time
from pathlib import Path

_began = []
_ended = []
_shapes = []
_grouped = []


class _Watch(importlib.abc.MetaPathFinder):
    """Waits for torch's modules; it loads none."""

    def find_spec(self, fullname, *_):
        if fullname.startswith("torch.") and "torch.optim.optimizer" in sys.modules:
            _install()


def _install():
    optimizer = sys.modules["torch.optim.optimizer"]
    sparse = sys.modules.get("torch.nn.modules.sparse")
    if sparse is None or not hasattr(sparse, "Embedding"):
        return
    if not hasattr(optimizer, "register_optimizer_step_post_hook"):
        return
    sys.meta_path.remove(_watch)
    optimizer.register_optimizer_step_post_hook(_note_step)
    lookup = sparse.Embedding.forward

    def forward(self, ids):
        import torch  # noqa: PLC0415 - loaded by now

        # position embeddings look up positions alone, of no sample
        if torch.is_grad_enabled() and self.training and ids.ndim == 2:
            if not _shapes:
                _began.append(time.perf_counter())
            _shapes.append(tuple(ids.shape))
        return lookup(self, ids)

    sparse.Embedding.forward = forward


def _note_step(*_):
    if _shapes:  # several optimizers that step after one forward pass are one step
        _ended.append(time.perf_counter())
        _grouped.append(_shapes.copy())
        _shapes.clear()


def _write():
    if _ended:
        said = {"pid": os.getpid(), "began": _began, "ended": _ended, "shapes": _grouped}
        folder = Path(os.environ["COMPATIBILITY_STAMPS"])
        (folder / f"stamps-{os.getpid()}.json").write_text(json.dumps(said))


if "COMPATIBILITY_STAMPS" in os.environ:
    _watch = _Watch()
    sys.meta_path.insert(0, _watch)
    atexit.register(_write)
