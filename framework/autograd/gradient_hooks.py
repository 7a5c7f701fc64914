"""Gradient hooks: what users have called while a backward pass runs.

Their order is PyTorch's. At a tensor: its hooks as they were registered, then
`retain_grad`. Then at a node the hooks before its rule, the rule, and those after it;
at a leaf the accumulation into `.grad`, and what is called after that.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base import trace_hooks
from ..base.errors import GradError
from ..base.hooks import RemovableHandle
from ..eager.base_tensor import TensorCore

if TYPE_CHECKING:
    from .tape import GradNode

Hooks = OrderedDict[int, Callable[..., Any]]


class LeafHooks:
    """Hooks of a leaf; another object, of the same dicts, after each change.

    Attributes
    ----------
    gradient : OrderedDict
        Called with the gradient before it is accumulated.
    accumulated : OrderedDict
        Called with the leaf after that.
    before, after : OrderedDict
        Those of its `AccumulateGrad`: called with the gradient in a tuple after those
        on the gradient, and with () and that tuple at the end.
    """

    KINDS = ("gradient", "accumulated", "before", "after")
    __slots__ = KINDS

    gradient: Hooks
    accumulated: Hooks
    before: Hooks
    after: Hooks

    def __init__(self, like: LeafHooks | None = None) -> None:
        for kind in self.KINDS:
            setattr(self, kind, OrderedDict() if like is None else getattr(like, kind))

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return any(getattr(self, kind) for kind in self.KINDS)


class NodeHooks:
    """Hooks of a node of the tape, and of the tensors that are its outputs.

    Attributes
    ----------
    gradient : dict of int to OrderedDict
        Called with the gradient of an output, by its index.
    kept : dict of int to weakref.ref
        Tensors of which `.grad` keeps the gradient, by index.
    before, after : OrderedDict
        Called before the node's rule, with the outputs' gradients, and after it, with
        the inputs' and the outputs'.
    """

    __slots__ = ("after", "before", "gradient", "kept")

    def __init__(self) -> None:
        self.gradient: dict[int, Hooks] = {}
        self.kept: dict[int, weakref.ref[TensorCore]] = {}
        self.before: Hooks = OrderedDict()
        self.after: Hooks = OrderedDict()

    def retains(self, tensor: TensorCore) -> bool:
        """Return whether a tensor's gradient is kept."""
        reference = self.kept.get(tensor.grad_index)
        return reference is not None and reference() is tensor

    def at_output(self, index: int, grad: Any) -> Any:
        """Run the hooks of an output, and keep its gradient; return the gradient."""
        found = self.gradient.get(index)
        if found:
            grad = hooked(found, grad)
        reference = self.kept.get(index)
        tensor = None if reference is None else reference()
        if tensor is not None:
            own = tensor.own_grad
            tensor.own_grad = grad.alias() if own is None else own + grad
        return grad


def hooked(hooks: Hooks, grad: Any) -> Any:
    """Return a gradient after hooks that may replace it."""
    for hook in [*hooks.values()]:
        answer = hook(grad)
        if answer is not None:
            _check_answer(answer, grad)
            grad = answer
    return grad


def hooked_before(hooks: Hooks, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the outputs' gradients after hooks that run before a node's rule."""
    for hook in [*hooks.values()]:
        answer = hook(grads)
        if answer is not None:
            grads = checked_answers(answer, grads)
    return grads


def hooked_after(
    hooks: Hooks, answers: tuple[Any, ...], grads: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the inputs' gradients after hooks that run after a node's rule."""
    for hook in [*hooks.values()]:
        answer = hook(answers, grads)
        if answer is not None:
            answers = checked_answers(answer, answers)
    return answers


def checked_answers(answer: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a node's hook has in the place of gradients, a tensor as a tuple.

    Raises
    ------
    TypeError
        If it is neither, or has something else in the place of a gradient.
    GradError
        If gradients are too many or too few, or not as those that they replace.
    """
    found = (answer,) if isinstance(answer, TensorCore) else answer
    if not isinstance(found, tuple):
        raise TypeError(
            f"hook: it returned a {type(answer).__name__}; it must return a tuple of"
            " gradients, or None to leave them as they are"
        )
    if len(found) != len(grads):
        raise GradError(
            f"hook: it returned {len(found)} gradients; they must be {len(grads)}, as"
            " those that it was given"
        )
    for one, grad in zip(found, grads):
        if one is not None and grad is not None:
            _check_answer(one, grad)
        elif one is not None:
            raise GradError(
                "hook: it returned a gradient in the place of None, where none is"
                " required; return None there"
            )
    return found


def after_accumulation(hooks: LeafHooks, leaf: TensorCore, grad: Any) -> None:
    """Run the hooks of a leaf that has accumulated a gradient."""
    for hook in [*hooks.accumulated.values()]:
        answer = hook(leaf)
        if answer is not None:
            raise TypeError(
                f"hook: one after accumulation returned a {type(answer).__name__}; it"
                " must return None"
            )
    for hook in [*hooks.after.values()]:
        if hook((), (grad,)) is not None:
            raise GradError("hook: one after AccumulateGrad must return None")


def _check_answer(answer: object, grad: TensorCore) -> None:
    if not isinstance(answer, TensorCore):
        raise TypeError(
            f"hook: it returned a {type(answer).__name__}; it must return a tensor, or"
            " None to leave the gradient as it is"
        )
    if answer.shape != grad.shape:
        raise GradError(
            f"hook: it returned a tensor of shape {tuple(answer.shape)}; it must be of"
            " the"
            f" gradient's shape {tuple(grad.shape)}"
        )
    if answer.dtype is not grad.dtype or answer.device is not grad.device:
        raise GradError(
            f"hook: it returned a tensor of {answer.dtype.name} on {answer.device}; it"
            f" must be as the gradient: {grad.dtype.name} on {grad.device}"
        )


def hooks_of(node: GradNode) -> NodeHooks:
    """Return the hooks of a node, made where it has none."""
    if node.hooks is None:
        node.hooks = NodeHooks()
    return node.hooks


def put(hooks: Hooks, hook: Callable[..., Any], *, first: bool = False) -> Any:
    """Register a hook in one of the dicts; return its handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_hook(tensor: TensorCore, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Register a hook on the gradient of a tensor; see `Tensor.register_hook`."""
    if not tensor.needs_grad:
        raise GradError(
            "register_hook: the tensor does not require a gradient; set"
            " requires_grad=True on it, or on what it is computed from"
        )
    if tensor.grad_node is None:
        return register_on_leaf(tensor, hook, "gradient")
    hooks = hooks_of(tensor.grad_node).gradient
    own = hooks.setdefault(tensor.grad_index, OrderedDict())
    handle: RemovableHandle = put(own, hook)
    return handle


def register_after_accumulation(
    tensor: TensorCore, hook: Callable[[Any], Any]
) -> RemovableHandle:
    """Register a hook that a leaf is given once its gradient has been accumulated."""
    if not tensor.needs_grad or tensor.grad_node is not None:
        raise GradError(
            "register_post_accumulate_grad_hook: the tensor is no leaf that requires a"
            " gradient, and only those accumulate one; use register_hook"
        )
    return register_on_leaf(tensor, hook, "accumulated")


def register_on_leaf(
    leaf: TensorCore, hook: Callable[..., Any], kind: str
) -> RemovableHandle:
    """Register a hook of a kind of `LeafHooks`; return its handle."""
    hooks = leaf.hooks or LeafHooks()
    own: Hooks = getattr(hooks, kind)
    reference = weakref.ref(leaf)

    def removed() -> None:
        tensor = reference()
        if tensor is not None and tensor.hooks is not None:
            _changed(tensor, tensor.hooks)

    handle = RemovableHandle(own, on_remove=removed)
    own[handle.id] = hook
    _changed(leaf, hooks)
    return handle


def _changed(leaf: TensorCore, hooks: LeafHooks) -> None:
    """Give a leaf its hooks as another object, which guards of `jit` see."""
    trace_hooks.structure_changed()
    leaf.hooks = LeafHooks(hooks) if hooks else None


def retain_grad(tensor: TensorCore) -> None:
    """Let `.grad` keep the gradient of a tensor; see `Tensor.retain_grad`."""
    if not tensor.needs_grad:
        raise GradError(
            "retain_grad: the tensor does not require a gradient; set"
            " requires_grad=True on what it is computed from"
        )
    if tensor.grad_node is not None:
        hooks_of(tensor.grad_node).kept[tensor.grad_index] = weakref.ref(tensor)


def retains_grad(tensor: TensorCore) -> bool:
    """Return whether `retain_grad` was called on a tensor that is no leaf."""
    node = tensor.grad_node
    return node is not None and node.hooks is not None and node.hooks.retains(tensor)


def move_kept_gradient(tensor: TensorCore, node: GradNode, index: int) -> None:
    """Keep, if a tensor's gradient is kept, that of what an in-place change made it."""
    if retains_grad(tensor) and tensor.grad_node is not None:
        assert tensor.grad_node.hooks is not None
        del tensor.grad_node.hooks.kept[tensor.grad_index]
        hooks_of(node).kept[index] = weakref.ref(tensor)
