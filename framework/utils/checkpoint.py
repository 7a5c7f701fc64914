"""Activation checkpointing: what a function saved is computed again in `backward`.

The tape of a checkpointed function stays, but its nodes keep nothing. The first node
that a backward pass visits runs the function again, and takes what the same node of
that run saved; so do the others. Random draws are repeated from their record.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from ..autograd import Function, differentiate
from ..autograd.grad_mode import enable_grad, is_grad_enabled, no_grad
from ..autograd.saved_tensors_hooks import collecting_nodes
from ..autograd.tape import GradNode, Saved, next_sequence
from ..base.dtype import FLOAT
from ..base.errors import GradError
from ..base.modes import autocast_again
from ..base.philox import StreamRecord, recording_streams, replaying_streams
from ..base.public_names import public_names as _public_names
from ..base.scoped_setting import ScopedSetting, SettingScope
from ..jit.pytree import tree_map
from ..nn import Module
from ..ops.elementwise.order import after
from ..tensor.tensor import Tensor

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "checkpoint",
    "checkpoint_modules",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(GradError):
    """A checkpointed function that does other things when it runs again."""


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return no states: devices draw by `fw.get_rng_state`, all by one.

    Parameters
    ----------
    *args : object
        Without effect.
    """
    return [], []


def set_device_states(
    devices: Any, states: Any, *, device_type: str | None = None
) -> None:
    """Do nothing; see `get_device_states`.

    Parameters
    ----------
    devices, states, device_type : object
        Without effect.
    """


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing: of the first run and of the second."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)` without what it saves for `backward`.

    The backward pass runs the function a second time, so that a network of `n` layers
    in checkpointed segments needs the memory of the segments' ends and of one segment.

    Parameters
    ----------
    function : callable
        What is called; it must do the same when it runs again.
    *args, **kwargs
        Its arguments; only with `use_reentrant=False` by keyword.
    use_reentrant : bool or None, default None
        False keeps the function's tape: gradients may be asked for in every way, also
        of tensors that the function reaches otherwise, and of gradients. True runs the
        function unrecorded, and a whole backward pass within the one that comes; an
        argument must then require a gradient, and `autograd.grad` is refused. None
        means True, with a warning.
    context_fn : callable
        Returns two contexts, for the first run and for the second.
    determinism_check : {"default", "none"}
        Whether the ops and shapes of the second run are compared with the first.
    debug : bool, default False
        Accepted; errors name the op in any case.
    early_stop : bool, default True
        Whether the second run ends once all that was saved is there, so that what the
        function does after that is left out; see `set_checkpoint_early_stop`.
    preserve_rng_state : bool, default True
        Whether the second run gets the random numbers of the first.

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    ValueError
        If `use_reentrant` is True beside keyword arguments or `context_fn`.
    CheckpointError
        In `backward`, if the second run records other ops than the first.
    GradError
        In `backward`, if an argument was changed in place.

    Notes
    -----
    The second run has the autocast mode of the first. Under `fw.jit` both are traced;
    the replay computes each where the trace did.

    Examples
    --------
    >>> from vkbackend.framework.utils.checkpoint import checkpoint
    >>> x = fw.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
    >>> [round(each, 4) for each in x.grad.tolist()]
    [-2.4784, 3.3129]
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: use_reentrant is not given; it counts as True, and"
            " use_reentrant=False supports more",
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        stops = early_stop if _early_stop.top.value is None else _early_stop.top.value
        options = context_fn(), determinism_check, preserve_rng_state, stops
        return _recorded(function, args, kwargs, *options)
    if kwargs:
        raise ValueError(
            f"checkpoint: keyword arguments {', '.join(kwargs)} beside"
            " use_reentrant=True; pass use_reentrant=False"
        )
    if context_fn is not noop_context_fn or debug:
        raise ValueError(
            "checkpoint: context_fn or debug beside use_reentrant=True; pass"
            " use_reentrant=False"
        )
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def _recorded(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    contexts: Contexts,
    determinism_check: str,
    preserve: bool,
    stops: bool,
) -> Any:
    """Run a function on the tape, whose nodes then drop what they saved."""
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint: determinism_check is {determinism_check!r}; it must be"
            ' "default" or "none"'
        )
    first, second = contexts
    streams = StreamRecord()
    start = next_sequence()
    made: list[GradNode] = []
    with first, recording_streams(streams), collecting_nodes(made.append):
        result = function(*args, **kwargs)
    if not is_grad_enabled():
        return result
    nodes = _nodes_since(start, result)

    def again(second_run: _SecondRun) -> list[GradNode]:
        since = next_sequence()
        replay = replaying_streams(streams) if preserve else nullcontext()
        given, named = second_run.waiting((args, kwargs))
        with enable_grad(), second, replay, mode():
            if places is None:
                return _nodes_since(since, function(*given, **named))
            return _nodes_until(places, since, lambda: function(*given, **named))

    places = _saving_places(nodes, made) if stops else None
    if places is not None:
        nodes = nodes[: len(places)]
    del made
    mode = autocast_again()
    second_run = _SecondRun(again, nodes, (*args, *kwargs.values()))
    second_run.compares = determinism_check == "default"
    tree_map(result, second_run.watch)
    for at, node in enumerate(nodes):
        # Another pass over the tape is not known by its calls alone.
        node.kind = None
        lazy: Any = _LazySaved(second_run, at)
        node.saved = lazy
    return result


def _nodes_since(start: int, result: Any) -> list[GradNode]:
    """Return the nodes behind a result that were recorded after a number, in order."""
    found: dict[int, GradNode] = {}
    stack: list[Any] = []

    def visit(part: Any) -> Any:
        if isinstance(part, Tensor) and part.grad_node is not None:
            stack.append(part.grad_node)
        return part

    tree_map(result, visit)
    while stack:
        node = stack.pop()
        if isinstance(node, GradNode) and node.sequence > start:
            if node.sequence not in found:
                found[node.sequence] = node
                stack += [edge.target for edge in node.edges if edge is not None]
    return [found[number] for number in sorted(found)]


def _saving_places(nodes: list[GradNode], made: list[GradNode]) -> list[int] | None:
    """Return where nodes stand among all that were made, up to the last that saves.

    None where that is not known: a second run then goes on to its end.
    """
    numbers = {id(each): at for at, each in enumerate(made)}
    if any(id(each) not in numbers or type(each.saved) is not dict for each in nodes):
        return None
    saving = [at for at, node in enumerate(nodes) if _saves_tensors(node)]
    if not saving:
        return None
    return [numbers[id(each)] for each in nodes[: saving[-1] + 1]]


def _saves_tensors(node: GradNode) -> bool:
    return any(type(each) is Saved for each in (node.saved or {}).values())


class _Stop(BaseException):
    """Ends a second run that has saved everything; no `except Exception` stops it."""


def _nodes_until(
    places: list[int], since: int, run: Callable[[], Any]
) -> list[GradNode]:
    """Run a function until all nodes of these places are made, and return those."""
    made: list[GradNode] = []

    def collect(node: GradNode) -> None:
        made.append(node)
        if len(made) > places[-1]:
            raise _Stop

    try:
        with collecting_nodes(collect):
            result = run()
    except _Stop:
        return [made[at] for at in places]
    return _nodes_since(since, result)


class _SecondRun:
    """Second run of a checkpointed function, made when something of it is needed."""

    compares = True

    def __init__(
        self,
        again: Callable[[_SecondRun], list[GradNode]],
        nodes: Sequence[GradNode],
        arguments: Sequence[Any],
    ) -> None:
        self._again = again
        self._wanted = [(node.op_name, node.specs) for node in nodes]
        self._arguments = [
            (each, each.array.version) for each in arguments if isinstance(each, Tensor)
        ]
        self._saved: dict[int, dict[str, Any]] | None = None
        self._gradient: Tensor | None = None

    def watch(self, part: Any) -> Any:
        """Note the gradient of a result when it is there."""
        if isinstance(part, Tensor) and part.grad_node is not None:
            part.register_hook(self._note)
        return part

    def _note(self, gradient: Tensor) -> None:
        # A gradient of gradients goes through the arguments themselves.
        recorded = is_grad_enabled()
        self._gradient = None if recorded else gradient

    def waiting(self, arguments: Any) -> Any:
        """Return arguments that are computed when the gradient of the result is.

        A plan would run all second runs of a pass at its begin, each as soon as its
        arguments are there, and hold what they save until it is needed.
        """
        gradient, self._gradient = self._gradient, None
        if gradient is None or not gradient.numel():
            return arguments
        return tree_map(arguments, lambda part: _after(part, gradient))

    def saved(self, at: int) -> dict[str, Any]:
        """Return what a node saved in the second run."""
        if self._saved is None or at not in self._saved:
            self._run()
        assert self._saved is not None
        return self._saved.pop(at)

    def _run(self) -> None:
        for each, version in self._arguments:
            if each.array.version != version:
                raise GradError(
                    f"checkpoint: an argument of shape {tuple(each.shape)} was changed"
                    " in"
                    f" place: version {each.array.version}, given at {version}; change"
                    " a copy instead"
                )
        # An argument, as a closure over this object would be a reference cycle, which
        # holds the arguments of the function.
        nodes = self._again(self)
        if len(nodes) != len(self._wanted):
            raise CheckpointError(
                f"checkpoint: the function recorded {len(nodes)} ops when it ran again,"
                f" {len(self._wanted)} the first time; it must do the same"
            )
        for node, (name, specs) in zip(nodes, self._wanted):
            if self.compares and (node.op_name, node.specs) != (name, specs):
                raise CheckpointError(
                    f"checkpoint: the function recorded {node.op_name} of {node.specs}"
                    f" when it ran again, {name} of {specs} the first time; it must do"
                    " the same"
                )
        self._saved = {at: node.saved or {} for at, node in enumerate(nodes)}


class _LazySaved:
    """What a node saved, from the second run; in the place of a node's dict."""

    def __init__(self, run: _SecondRun, at: int) -> None:
        self._run = run
        self._at = at
        self._found: dict[str, Any] | None = None

    def _dict(self) -> dict[str, Any]:
        if self._found is None:
            # One of a checkpoint inside of this one is lazy itself.
            self._found = dict(self._run.saved(self._at).items())
        return self._found

    def items(self) -> Any:
        return self._dict().items()

    def values(self) -> Any:
        return self._dict().values()

    def __contains__(self, name: object) -> bool:
        return name in self._dict()

    def __getitem__(self, name: str) -> Any:
        return self._dict()[name]


class CheckpointFunction(Function):
    """Function of `checkpoint` with `use_reentrant=True`."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        """Run the function unrecorded."""
        if not any(isinstance(each, Tensor) and each.requires_grad for each in args):
            warnings.warn(
                "checkpoint: no argument requires a gradient, so none flows through;"
                " pass use_reentrant=False",
                stacklevel=4,
            )
        ctx.function, ctx.preserve = function, preserve
        ctx.streams, ctx.mode = StreamRecord(), autocast_again()
        ctx.others = [None if isinstance(each, Tensor) else each for each in args]
        ctx.save_for_backward(
            *[each if isinstance(each, Tensor) else None for each in args]
        )
        with recording_streams(ctx.streams):
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function on the tape, and a backward pass through it."""
        if ctx.selective:
            raise GradError(
                "checkpoint: with use_reentrant=True gradients cannot be asked for by"
                " autograd.grad or inputs=; pass use_reentrant=False"
            )
        saved = ctx.saved_tensors
        first = next((each for each in grads if each is not None), None)
        given = [
            other if each is None else _later_leaf(each, first)
            for each, other in zip(saved, ctx.others)
        ]
        replay = replaying_streams(ctx.streams) if ctx.preserve else nullcontext()
        with enable_grad(), replay, ctx.mode():
            results = ctx.function(*given)
        pairs = [
            (result, grad)
            for result, grad in zip(
                results if isinstance(results, tuple) else (results,), grads
            )
            if isinstance(result, Tensor) and result.requires_grad
        ]
        if not pairs:
            raise GradError(
                "checkpoint: no result requires a gradient; call the function itself"
            )
        differentiate.backward([each for each, _ in pairs], [each for _, each in pairs])
        found = [each.grad if isinstance(each, Tensor) else None for each in given]
        return None, None, *found


def _after(part: Any, gradient: Tensor) -> Any:
    """Return a leaf like a tensor that is computed after a gradient is."""
    if (
        not isinstance(part, Tensor)
        or part.is_wrapper
        or part.dtype not in FLOAT
        or part.device != gradient.device
    ):
        return part
    with no_grad():
        leaf = after(part.detach(), gradient.detach())
    leaf.requires_grad = part.requires_grad
    return leaf


def _later_leaf(tensor: Tensor, gradient: Tensor | None) -> Tensor:
    leaf = tensor
    if gradient is not None and gradient.numel():
        leaf = _after(tensor, gradient)
    return _as_leaf(tensor) if leaf is tensor else leaf


def _as_leaf(tensor: Tensor) -> Tensor:
    leaf = tensor.detach()
    leaf.requires_grad = tensor.requires_grad
    return leaf


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors as leaves that require gradients as they did.

    Parameters
    ----------
    inputs : tuple
        Tensors, and whatever else, which is returned as it is.
    """
    return tuple(
        [_as_leaf(each) if isinstance(each, Tensor) else each for each in inputs]
    )


def checkpoint_modules(modules: Iterable[Module]) -> None:
    """Let modules be checkpointed from now on wherever they are called.

    Parameters
    ----------
    modules : iterable of Module
        As the layers of a model, whose calls are as `checkpoint` has them with
        `use_reentrant=False`. Their names and states stay.

    Examples
    --------
    >>> from vkbackend.framework.utils.checkpoint import checkpoint_modules
    >>> model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    >>> checkpoint_modules(model)
    >>> model(fw.ones(4)).sum().backward()
    """
    for module in modules:
        call = partial(checkpoint, module.forward, use_reentrant=False)
        module.forward = call  # type: ignore[method-assign]  # of this one alone


def checkpoint_sequential(
    functions: Module | Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Return the result of functions in a row, checkpointed in segments.

    Parameters
    ----------
    functions : Sequential or sequence of callable
        Each is given the result of the one before.
    segments : int
        Number of segments of equal length; the last one is not checkpointed, as its
        backward pass comes first.
    input : Tensor
        Of the first function.
    use_reentrant : bool or None, default None
        As in `checkpoint`.
    **kwargs
        `preserve_rng_state`.

    Raises
    ------
    ValueError
        If there is another keyword argument.
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: use_reentrant is not given; it counts as True, and"
            " use_reentrant=False supports more",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(
            f"checkpoint_sequential: unexpected keyword arguments {', '.join(kwargs)};"
            " it takes preserve_rng_state"
        )
    chain: list[Callable[..., Any]] = (
        list(functions.children()) if isinstance(functions, Module) else [*functions]
    )
    size = len(chain) // segments
    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        input = checkpoint(
            _run_of(chain[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return _run_of(chain[last:])(input)


def _run_of(chain: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for each in chain:
            value = each(value)
        return value

    return run


_early_stop: ScopedSetting = ScopedSetting(None)


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set for a block whether second runs stop early, whatever `early_stop` says.

    Parameters
    ----------
    enable : bool
        Whether they do.
    """
    with SettingScope(_early_stop, bool(enable)):
        yield


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accept whether errors say more; they always name the ops that differ.

    Parameters
    ----------
    enabled : bool or None
        Without effect.
    """
    yield


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
