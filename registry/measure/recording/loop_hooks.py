"""Tell a recording what a training loop without a Trainer does.

Torch calls a hook after every step of any optimizer. A training is about to begin where an
optimizer is made: from then on the next module that is called in training mode and holds the
optimizer's parameters is the outermost one, and from then on only its own calls are watched.
A model may be trained in evaluation mode too, in which ``from_pretrained`` returns it: a step shows
that the passes before it, with gradients on, were no evaluation.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from registry.measure.recording.batches import merge_arguments
from registry.measure.recording.loop_job import LoopJob
from registry.measure.recording.marks import trouble_noted
from registry.measure.recording.parameters import stepped_by
from registry.measure.recording.session import Session
from registry.measure.recording.trainer_hooks import is_trainer_at_work
from registry.measure.trial_settings import options_of_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from registry.measure.failure import Failure

#: Steps one after another that all begin with a pass without gradients: then it is part of a step,
#: as a reference model's or a rollout's; evaluations are rarer.
_HABIT = 3

#: Steps of another model's optimizers, one after another, after which that model is trained: a
#: critic may have some of them to each step of the model that it is for.
_REST = 10

#: Share of an optimizer's parameters that the outermost module holds at least.
_LEAST_SHARE = 0.5


class LoopRecorder:
    """Records the loops of one thread, one after the other.

    ``bind`` is called where a training begins, which may be in another thread than that which made
    the optimizer.
    """

    def __init__(self, bind: Callable[[LoopRecorder], None]) -> None:
        self.session = Session(options_of_environment())
        self.thread = threading.get_ident()
        self._bind = bind
        self._lock = threading.RLock()
        self._optimizers: list[weakref.ref[Any]] = []
        self._root: weakref.ref[Any] | None = None
        self._global: Any = None
        self._layers: Any = None
        self._own: list[Any] = []
        #: The modules of the training by their identities, while its layers are watched.
        self._parts: set[int] = set()
        #: Trained parameters, which show each gradient and each change, and how often they changed.
        self._watched: list[Any] = []
        self._versions: list[int] = []
        self._largest: tuple[int, weakref.ref[Any]] | None = None
        self._n_forwards = 0
        #: Passes in evaluation mode since the last step, with gradients on.
        self._n_doubtful = 0
        self._trains_in_eval_mode = False
        self._n_steps = 0
        #: Optimizers of another model that have stepped since the last call, one for each step.
        self._others: list[weakref.ref[Any]] = []
        self._recorded: weakref.WeakSet[Any] = weakref.WeakSet()
        self._n_begun = 0
        self._apart_since: float | None = None
        #: Seconds apart of the last steps, as far back as each had some.
        self._apart: list[float] = []
        self._apart_in_step = 0.0
        #: When the last step ended.
        self.border = 0.0

    def expect(self, optimizer: Any) -> None:
        """Look for the module that an optimizer trains."""
        if is_trainer_at_work() or self.session.failure is not None:
            return
        if self._n_steps:  # of the training before: those made together belong together
            self._optimizers.clear()
            self._largest = None
            self._n_steps = 0
        self._others.clear()
        self._optimizers.append(weakref.ref(optimizer))
        self._look()

    def is_training_with(self, optimizer: Any) -> bool:
        """Return whether an optimizer is one of the training that goes on."""
        job = self.session.job if self.session.is_training else None
        return isinstance(job, LoopJob) and optimizer in job.optimizers

    def give_up(self, optimizer: Any) -> bool:
        """Expect nothing of an optimizer any more; return whether anything was expected."""
        kept = [each for each in self._optimizers if each() is not optimizer]
        is_given_up, self._optimizers = len(kept) < len(self._optimizers), kept
        return is_given_up

    def is_over(self) -> bool:
        """Return whether a thread that has ended left nothing to another: no training to begin."""
        return self.session.is_training or not self._alive()

    def begin_in_child(self) -> None:
        """Leave the training to the process that was forked, and look for one of the child's own.

        The child may train with the optimizer that its parent made.
        """
        self._lock = threading.RLock()  # a thread that the child lacks may hold the other one
        self._drop_hooks()
        self.session.leave()
        self.session = Session(self.session.options)
        self._n_steps = 0
        if self._alive():
            self._look()

    def _look(self) -> None:
        if self._global is None:
            modules = sys.modules["torch.nn.modules.module"]
            self._global = modules.register_module_forward_pre_hook(self._before_any)

    def _alive(self) -> list[Any]:
        return [found for each in self._optimizers if (found := each()) is not None]

    def _before_any(self, module: Any, arguments: Any) -> None:
        """Take a module as the outermost one if it is; called before every module until then."""
        if _is_compiling() or not _gradients_are_on():
            return
        with trouble_noted(), self._lock:  # never in the way of the job
            if self._global is None:
                return  # another thread has found one meanwhile
            if is_trainer_at_work():
                self._stop_looking()
            elif self._holds_parameters(module) and module.training:
                self._begin(module)
                self._before_call(module, arguments, _named_arguments())

    def _holds_parameters(self, module: Any) -> bool:
        """Return whether a module holds what is trained.

        Optimizers that one thread made are of one training there, elsewhere each may be of its own.
        """
        own = {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
        if not own:
            return False
        if self._largest is None or len(own) > self._largest[0]:
            self._largest = (len(own), weakref.ref(module))
        wanted = [set(map(id, _trained(optimizer))) for optimizer in self._alive()]
        if self.thread == threading.get_ident():
            wanted = [set().union(*wanted)]
        return any(one and len(one & own) >= _LEAST_SHARE * len(one) for one in wanted)

    def _stop_looking(self) -> None:
        if self._global is not None:
            self._global.remove()
            self._global = None

    def _begin(self, module: Any) -> None:
        """Begin to record the training of a module; one that goes on is over."""
        self._bind(self)
        self._stop_looking()
        self.finish(is_followed=True)
        self._root = weakref.ref(module)
        self._n_forwards = self._n_doubtful = 0
        self._trains_in_eval_mode = not module.training
        self._n_begun += 1
        hook = self._hook_of(self._before_call)
        leave_out_of_copies(sys.modules["torch.nn.modules.module"].Module)
        self._own = [module.register_forward_pre_hook(hook, with_kwargs=True)]
        self._own += [
            inner.register_forward_pre_hook(self._hook_of(self._before_inner))
            for inner in _find_inner(module)
        ]
        self._apart_since, self._apart, self._apart_in_step = None, [], 0.0
        job = LoopJob(module, self._alive())
        self._recorded.update(job.optimizers)
        self._n_steps = max(Counter(self._others).values(), default=0)
        self._others.clear()
        self.session.attach(job)
        stepped = [each for optimizer in job.optimizers[:1] for each in _trained(optimizer)]
        self.session.telling = stepped[-1] if stepped else None
        self._watch_parameters(module)
        self.session.begin_train(self._n_steps)
        self.session.batches.has_samples_first = not _has_time_first(module)
        self.border = time.perf_counter()

    def _watch_parameters(self, module: Any) -> None:
        """Have the first and the last trained parameter tell when a gradient was found.

        A part of the model may have none in a pass. Before 2.1 torch does not tell.
        """
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._watched = [*trained[:1], *trained[1:][-1:]]
        with suppress(AttributeError):
            self._own += [
                parameter.register_post_accumulate_grad_hook(self._note_gradient)
                for parameter in self._watched
            ]

    def _note_gradient(self, _: Any) -> None:
        self.session.batches.note_gradient()

    def _read_versions(self) -> list[int]:
        return [parameter._version for parameter in self._watched]  # noqa: SLF001 - torch offers no other way

    def _hook_of(self, method: Callable[[Any, Any, Any], None]) -> Callable[..., None]:
        """Return a hook of the recording that begins.

        Torch still calls one that was removed during the same call, and without names.
        """
        begun = self._n_begun

        def before(module: Any, arguments: Any, named: Any = None) -> None:
            if not _is_compiling() and begun == self._n_begun:
                with trouble_noted():  # never in the way of the job
                    method(module, arguments, named)

        return mark_passing(before)

    def _is_trained(self, module: Any) -> bool:
        return _gradients_are_on() and (module.training or self._trains_in_eval_mode)

    def _before_inner(self, module: Any, *_: Any) -> None:
        """Note an evaluation that passes the outermost module by, as ``generate`` does."""
        if self.session.is_training and not self._is_trained(module):
            self._begin_apart()

    def _begin_apart(self) -> None:
        """Note an evaluation; it began where the last step ended, with its preparation."""
        is_habit = len(self._apart) >= _HABIT
        if self._apart_since is None and not self._n_forwards and not is_habit:
            self._apart_since = self.border

    def _before_call(self, module: Any, arguments: Any, named: Any) -> None:
        if not self.session.is_training or (_is_in_backward() and self.session.batches.is_open):
            return  # a pass that is computed again for its gradient is no further one
        if module.training:
            self._trains_in_eval_mode = False
        if not self._is_trained(module):
            self._n_doubtful += _gradients_are_on()
            self._begin_apart()
            return
        if self._global is None:
            self._others.clear()
        if self._apart_since is not None:
            self._apart_in_step = time.perf_counter() - self._apart_since
            self.session.note_apart("eval", self._apart_in_step)
            self._apart_since = None
        if not self._n_forwards:
            self.session.begin_step(self._n_steps + 1)
            self._watch_layers()
            self._versions = self._read_versions()
        elif self._versions != self._read_versions():
            self.session.batches.is_repeating = True
        self._n_forwards += 1
        self.session.count(merge_arguments(arguments, named))

    def _watch_layers(self) -> None:
        """Have the layers of the first step tell what they compute in, and whether again.

        A model may set both by itself.
        What is compiled has no layers that are called, and would be compiled again afterwards.
        """
        job = self.session.job
        if self.session.recording.steps or self._layers is not None:
            return
        if isinstance(job, LoopJob) and not job.is_compiled:
            self._parts = {id(module) for module in job.parts()}
            modules = sys.modules["torch.nn.modules.module"]
            self._layers = modules.register_module_forward_pre_hook(self._before_layer)

    def _before_layer(self, module: Any, _: Any) -> None:
        if _is_compiling() or id(module) not in self._parts:
            return
        with trouble_noted():  # never in the way of the job
            job = self.session.job
            if isinstance(job, LoopJob):
                job.note_layer(module)
                job.is_recomputed |= _is_in_backward()

    def _leave_layers(self) -> None:
        if self._layers is not None:
            self._layers.remove()
            self._layers = None

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Close a step: several optimizers that step after one forward pass are one step."""
        with trouble_noted():  # never in the way of the job
            if is_trainer_at_work():
                return
            self._leave_layers()
            is_wanted = any(each is optimizer for each in self._alive())
            if self._global is not None and self._largest is not None and is_wanted:
                module = self._largest[1]()
                if module is not None:  # its parameters are not the optimizer's own tensors
                    self._begin(module)
                    self._n_forwards = 1
            if self.session.is_training and not self._trains_with(optimizer):
                self._note_other(optimizer)
                return
            if self._n_doubtful and not self._n_forwards:  # they were no evaluation
                self._trains_in_eval_mode, self._apart_since = True, None
                self._n_forwards = self._n_doubtful
            if self.session.is_training and self._n_forwards:
                self._n_steps += 1
                self._n_forwards = self._n_doubtful = 0
                self.session.end_step(self._n_steps)
                self._learn_habit()
                self.border = time.perf_counter()

    def _trains_with(self, optimizer: Any) -> bool:
        """Return whether an optimizer steps the model that is recorded, or copies of its weights.

        One that was copied or loaded is known by its parameters alone.
        """
        job = self.session.job
        if not isinstance(job, LoopJob) or any(each is optimizer for each in job.optimizers):
            return True
        held = stepped_by([optimizer])
        return any(id(parameter) in held for parameter in job.model.parameters())

    def _note_other(self, optimizer: Any) -> None:
        """Look for another model where its optimizer steps again and again and this one rests."""
        if self._n_forwards or self._n_doubtful or optimizer in self._recorded:
            return
        self._others.append(weakref.ref(optimizer))
        if len(self._others) >= _REST and self._global is None:
            self._optimizers = [*dict.fromkeys(self._others)]
            self._largest = None
            self._look()

    def _learn_habit(self) -> None:
        """Count passes without gradients as part of the steps, if each of the last has begun so."""
        if len(self._apart) >= _HABIT:
            return
        self._apart = [*self._apart, self._apart_in_step] if self._apart_in_step else []
        self._apart_in_step = 0.0
        if len(self._apart) == _HABIT:
            self.session.count_in("eval", self._apart)

    def finish(self, failure: Failure | None = None, *, is_followed: bool = False) -> None:
        """Complete the record of the training that goes on, if there is one."""
        self._drop_hooks()
        if self.session.is_training:
            self.session.finish_rank(failure, is_followed=is_followed)

    def _drop_hooks(self) -> None:
        self._leave_layers()
        for hook in self._own:
            hook.remove()
        self._own, self._watched = [], []


def _trained(optimizer: Any) -> Iterator[Any]:
    """Return the parameters that an optimizer trains."""
    groups = (group["params"] for group in optimizer.param_groups)
    return (parameter for params in groups for parameter in params if parameter.requires_grad)


def _find_inner(module: Any) -> list[Any]:
    """Return the modules that a module does nothing but wrap, each inside the one before it."""
    found: list[Any] = []
    while module is not None:
        own = {id(parameter) for parameter in module.parameters()}
        inner = (
            child
            for child in module.children()
            if own and {id(parameter) for parameter in child.parameters()} == own
        )
        module = next(inner, None)
        if module is not None:
            found.append(module)
    return found


def _has_time_first(module: Any) -> bool:
    """Return whether a model has parts that take positions before samples: it may do so itself."""
    return any(getattr(part, "batch_first", True) is False for part in module.modules())


def _is_compiling() -> bool:
    """Return whether torch's compiler reads a hook instead of running it: there is none for it."""
    compiler: Any = getattr(sys.modules["torch"], "compiler", None)  # torch has one since 2.1
    return hasattr(compiler, "is_compiling") and bool(compiler.is_compiling())


def _is_in_backward() -> bool:
    return int(sys.modules["torch"]._C._current_graph_task_id()) >= 0  # noqa: SLF001 - torch offers no other way


def _gradients_are_on() -> bool:
    return bool(sys.modules["torch"].is_grad_enabled())


def _named_arguments() -> dict[str, Any] | None:
    """Return what the module is called with by name: torch does not hand it to a global hook."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - torch's own frame is the only place
    for _ in range(6):
        frame = frame.f_back
        if frame is None:
            return None
        named = frame.f_locals.get("kwargs")
        if isinstance(named, dict) and "self" in frame.f_locals:
            return named
    return None


# Hooks on a job's modules that stay out of its files and of the copies it makes of them.

_MARK = "_registry_passing"

#: Where a module keeps its hooks, and which of them are told what it is called with by name.
_HOOKS, _NAMED = "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"


def mark_passing(hook: Callable[..., None]) -> Callable[..., None]:
    """Have a forward pre-hook left out where its module is pickled or copied."""
    setattr(hook, _MARK, True)
    return hook


def leave_out_of_copies(module_class: Any) -> None:
    """Have the state of modules leave marked hooks out; ``module_class`` is ``torch.nn.Module``.

    A whole model that is saved is the same file with a recorder as without, and a copy of it, such
    as a reference model, is not watched.
    """
    original = module_class.__getstate__
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def state_of(module: Any) -> Any:
        state = original(module)
        hooks = state.get(_HOOKS) if isinstance(state, dict) else None
        ours = {key for key, hook in (hooks or {}).items() if hasattr(hook, _MARK)}
        if not ours:
            return state
        return {**state, **{name: _without(state[name], ours) for name in (_HOOKS, _NAMED)}}

    setattr(state_of, _MARK, True)
    module_class.__getstate__ = state_of


def _without(hooks: Any, ours: set[int]) -> Any:
    return type(hooks)((key, value) for key, value in hooks.items() if key not in ours)
