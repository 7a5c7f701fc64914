"""Functions with a gradient rule of the user's: `forward` and `backward`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from ..base.errors import GradError
from ..base.inference import refuse_saving
from ..base.scoped_setting import ScopedSetting, SettingScope
from ..base.shape import TensorSpec
from ..eager.base_tensor import TensorCore, assembled
from .batched import rules_for
from .grad_mode import grad_mode, is_grad_enabled
from .gradient_hooks import move_kept_gradient
from .saved_tensors_hooks import pack_hooks, packed_by, unpacked
from .tape import Edge, GradNode, edge_of, next_sequence
from .views import check_overwrite, sharing_tensors


class SavedForBackward(NamedTuple):
    """Tensor saved by a user's function, without what would make a cycle.

    Attributes
    ----------
    tensor : Tensor
        The elements, off the tape; a leaf itself.
    version : int
        Version counter when it was saved.
    edge : Edge or None
        To what made it.
    output : int or None
        Index of the output that it is.
    """

    tensor: Any
    version: int
    edge: Edge | None
    output: int | None


class FunctionCtx:
    """Context of a call of a `Function`: what `forward` leaves to `backward`.

    Any attribute may be set on it. It is the result's `grad_fn`.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument of `forward` whether it requires a gradient.
    saved_tensors : tuple of Tensor or None
        What `save_for_backward` was given.
    """

    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Any) -> None:
        """Save inputs, outputs or other tensors for `backward`; None is allowed.

        Call it once, in `forward` or `setup_context`. A tensor that is changed in place
        before `backward` reads it is an error there.

        Raises
        ------
        TypeError
            If something else than a tensor or None is saved; set that as an attribute.
        """
        for each in tensors:
            if each is not None and not isinstance(each, TensorCore):
                raise TypeError(
                    f"save_for_backward: a {type(each).__name__} was given; it saves"
                    " tensors: set anything else as an attribute of ctx"
                )
        self.__dict__["_to_save"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for `jvp`, which finds them as `saved_tensors`."""
        self.__dict__["saved_for_forward"] = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Mark inputs that `forward` changed in place; it must return them, too."""
        self.__dict__["_dirty"] = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Mark outputs that have no gradient; `backward` is given zeros for them."""
        self.__dict__["_without_gradient"] = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` is given zeros, the default, instead of None."""
        self.__dict__["_materialize"] = bool(value)


class FunctionNode(FunctionCtx, GradNode):
    """Node of a call of a `Function`; each of these has a subclass of it."""

    forward_class: ClassVar[Any]
    has_rule = False

    def __init__(self, args: tuple[Any, ...]) -> None:
        edges = tuple(
            [edge_of(each) if isinstance(each, TensorCore) else None for each in args]
        )
        specs: Any = [
            each.spec if isinstance(each, TensorCore) else None for each in args
        ]
        # No method of its own as the rule, which would make a cycle.
        super().__init__(self.name(), Function.backward, edges, tuple(specs), {})
        self.needs_input_grad = tuple([each is not None for each in edges])
        self._to_save: tuple[Any, ...] = ()
        self.saved_for_forward: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._without_gradient: tuple[Any, ...] = ()
        self._materialize = True
        self._for_jvp: tuple[Any, ...] = ()
        self.selective = False
        self.aliases: tuple[int, ...] = ()
        self._outputs: list[TensorSpec | None] = []

    @property
    def output_count(self) -> int:
        """Number of outputs of `forward`."""
        return len(self._outputs)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Nodes of the tensor arguments; see `GradNode`."""
        found = super().next_functions
        return tuple([each for each, spec in zip(found, self.specs) if spec])

    def name(self) -> str:
        """Return the function's name with "Backward", as PyTorch does."""
        return type(self).__name__

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given, on the tape as it was then.

        Raises
        ------
        GradError
            If a backward pass has freed it, or it was changed in place.
        """
        if self.saved is None:
            raise GradError(
                f"backward: what {self.op_name} saved was freed by an earlier backward;"
                " pass retain_graph=True to that one"
            )
        if "tensors" not in self.saved:
            return self._to_save
        return tuple(
            [None if each is None else self._restored(each) for each in self._kept()]
        )

    saved_variables = saved_tensors

    def _kept(self) -> Any:
        assert self.saved is not None
        return self.saved["tensors"]

    def _restored(self, saved: SavedForBackward) -> Any:
        tensor, edge = saved.tensor, saved.edge
        assert self.saved is not None
        if "unpack" in self.saved:
            tensor = unpacked(self.saved["unpack"], tensor)
        elif tensor.array.version != saved.version:
            raise GradError(
                f"backward: a tensor of shape {tuple(tensor.shape)}, which"
                f" {self.op_name}"
                f" saved, was changed in place: version {tensor.array.version}, saved"
                f" at {saved.version}; change a copy instead"
            )
        if saved.output is not None:
            edge = Edge(self, saved.output)
        if edge is None or not isinstance(edge.target, GradNode):
            return tensor
        again = assembled(type(tensor), tensor.array, tensor.layout, tensor.device)
        again.needs_grad = True
        again.grad_node, again.grad_index = edge.target, edge.output
        return again

    # The call

    def finish(self, answer: Any, args: tuple[Any, ...]) -> Any:
        """Record the outputs of `forward`, and return what the call returns."""
        single = not isinstance(answer, tuple)
        outputs = [answer] if single else [*answer]
        taped = is_grad_enabled() and True in self.needs_input_grad
        self.sequence = next_sequence()
        dirty = {id(each) for each in self._dirty}
        inputs = {id(each) for each in args}
        fixed = {id(each) for each in self._without_gradient}
        if not dirty <= {id(each) for each in outputs}:
            raise GradError(
                f"{self.name()}: forward marked a tensor as dirty that it does not"
                " return; it must return each"
            )
        shared = {id(each.array) for each in args if isinstance(each, TensorCore)}
        made = []
        for at, each in enumerate(outputs):
            if not isinstance(each, TensorCore):
                self._outputs.append(None)
                made.append(each)
                continue
            self._outputs.append(each.spec)
            plain = id(each) in fixed or not each.dtype.is_differentiable
            if id(each) in dirty:
                if taped and not plain:
                    self._overwrite(each, at)
                made.append(each.detach() if plain or not taped else each)
                continue
            own = each
            if id(each) in inputs or each.needs_grad:
                own = each.detach()
            if taped and id(each.array) in shared:
                self.aliases = (*self.aliases, at)
            if taped and not plain:
                own.needs_grad = True
                own.grad_node, own.grad_index = self, at
            made.append(own)
        self._keep(outputs, taped, {id(each) for each in outputs} - inputs)
        return made[0] if single else tuple(made)

    def _overwrite(self, tensor: Any, at: int) -> None:
        """Put an input that was changed in place on the tape as an output."""
        check_overwrite(tensor)
        if len(sharing_tensors(tensor)) > 1:
            record = record_overwrite[0]
            new = assembled(type(tensor), tensor.array, tensor.layout, tensor.device)
            new.needs_grad, new.grad_node, new.grad_index = True, self, at
            record(tensor, new, made=True)
            return
        move_kept_gradient(tensor, self, at)
        tensor.needs_grad = True
        tensor.grad_node, tensor.grad_index = self, at

    def _keep(self, outputs: list[Any], taped: bool, own: set[int]) -> None:
        """Save what `save_for_backward` was given."""
        if not taped:
            return
        places = {id(each): at for at, each in enumerate(outputs) if id(each) in own}
        kept: list[SavedForBackward | None] = []
        for each in self._to_save:
            if each is None:
                kept.append(None)
                continue
            if each.array.version < 0:
                refuse_saving(self.name())
            output = places.get(id(each))
            edge = None if output is not None else edge_of(each)
            leaf = edge is not None and not isinstance(edge.target, GradNode)
            tensor = each if leaf else each.detach()
            kept.append(SavedForBackward(tensor, each.array.version, edge, output))
        if self.forward_class.jvp is not Function.jvp:
            forward = self.saved_for_forward or self._to_save
            self._for_jvp = tuple(
                [None if each is None else each.detach() for each in forward]
            )
        self._to_save = self._dirty = self._without_gradient = ()
        self.saved_for_forward = ()
        self.saved = {"tensors": kept}
        hooks = pack_hooks.top.value
        if hooks is not None:
            pack, self.saved["unpack"] = hooks
            for at, saved in enumerate(kept):
                if saved is not None:
                    kept[at] = saved._replace(tensor=_packed(pack, saved))

    # The backward pass

    def run(self, grads: tuple[Any, ...], *, selective: bool) -> tuple[Any, ...]:
        """Return the gradients of the arguments, by the user's rule."""
        self.selective = selective
        if linearizing.top.value and self.forward_class.jvp is not Function.jvp:
            return _JvpNode(self, self.materialized(grads)).slopes()
        if self._materialize:
            grads = self.materialized(grads)
        answers = self._rule()(self, *grads)
        if not isinstance(answers, tuple):
            answers = (answers,)
        count = len(self.edges)
        if len(answers) < count or any(each is not None for each in answers[count:]):
            raise GradError(
                f"{self.op_name}: backward returned {len(answers)} gradients for"
                f" {count} arguments of forward; return one each, None where there is"
                " none"
            )
        for at, answer in enumerate(answers[:count]):
            self._check(at, answer)
        found: tuple[Any, ...] = answers[:count]
        return found

    def _rule(self) -> Any:
        own = self.forward_class
        if own.backward is not Function.backward:
            return own.backward
        return own.vjp

    def materialized(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return gradients with zeros instead of None."""
        (like, *_) = [each for each in grads if each is not None]
        return tuple(
            [
                like.new_zeros(spec.shape).to(spec.dtype)
                if grad is None and spec is not None
                else grad
                for grad, spec in zip(grads, self._outputs)
            ]
        )

    def _check(self, at: int, answer: Any) -> None:
        """Raise `GradError` where a gradient does not go with its argument."""
        spec: TensorSpec | None = self.specs[at]
        if answer is None:
            return
        if spec is None:
            raise GradError(
                f"{self.op_name}: backward returned a gradient for argument {at}, which"
                " is no tensor; return None for it"
            )
        if not isinstance(answer, TensorCore):
            raise GradError(
                f"{self.op_name}: backward returned a {type(answer).__name__} for"
                f" argument {at}; return a tensor or None"
            )
        if self.edges[at] is not None and not _sums_to(answer.shape, spec.shape):
            raise GradError(
                f"{self.op_name}: backward returned a gradient of shape"
                f" {tuple(answer.shape)} for argument {at}, whose shape is"
                f" {tuple(spec.shape)}"
            )


linearizing: ScopedSetting = ScopedSetting(False)
"""Whether a pass is run for directional derivatives, which functions may have rules of.

Such a pass is linear in the gradients that it starts with, and differentiated by them.
"""


class _JvpNode(GradNode):
    """Node of the gradients of a call, whose own gradient is by the function's `jvp`.

    They are zeros: only what they depend on is asked for.
    """

    has_rule = False

    def __init__(self, call: FunctionNode, grads: tuple[Any, ...]) -> None:
        self._call = call
        self._like = grads[0]
        edges = tuple([None if each is None else edge_of(each) for each in grads])
        specs: Any = tuple([None if each is None else each.spec for each in grads])
        super().__init__(f"{call.name()} jvp", Function.backward, edges, specs, {})

    @property
    def output_count(self) -> int:
        """Number of arguments of the call."""
        return len(self._call.specs)

    def slopes(self) -> tuple[Any, ...]:
        """Return the gradients of the call's arguments."""
        found: list[Any] = []
        for at, (edge, spec) in enumerate(zip(self._call.edges, self._call.specs)):
            if edge is None:
                found.append(None)
                continue
            slope = self._like.new_zeros(spec.shape).to(spec.dtype)
            slope.needs_grad, slope.grad_node, slope.grad_index = True, self, at
            found.append(slope)
        return tuple(found)

    def run(self, grads: tuple[Any, ...], *, selective: bool) -> tuple[Any, ...]:
        """Return the directional derivatives of the call's outputs."""
        like = next(each for each in grads if each is not None)
        tangents = [
            like.new_zeros(spec.shape).to(spec.dtype)
            if tangent is None and spec is not None
            else tangent
            for tangent, spec in zip(grads, self._call.specs)
        ]
        ctx = FunctionCtx()
        ctx.__dict__.update(vars(self._call))
        ctx.__dict__["saved_tensors"] = self._call._for_jvp
        answers = self._call.forward_class.jvp(ctx, *tangents)
        return answers if isinstance(answers, tuple) else (answers,)


def _packed(pack: Callable[[Any], Any], saved: SavedForBackward) -> Any:
    """Return what a hook makes of a saved tensor."""
    tensor = saved.tensor
    if (saved.edge or saved.output) is not None and not tensor.needs_grad:
        tensor = tensor.detach()
        tensor.needs_grad = tensor.dtype.is_differentiable
    return packed_by(pack, tensor)


def _sums_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a shape is one that `wanted` broadcasts to."""
    if len(shape) < len(wanted):
        return False
    pairs = zip(reversed(shape), reversed(wanted))
    return all(size == own or own == 1 for size, own in pairs)


record_overwrite: list[Callable[..., None]] = []
"""Recorder of changes in place of tensors with views, which is above this package."""


class Function(FunctionCtx):
    """Base of functions with a gradient rule of their own.

    A subclass has static methods: `forward(ctx, *args)`, or `forward(*args)` and
    `setup_context(ctx, inputs, output)`; and `backward(ctx, *grads)`, which is given
    one gradient for each output and returns one for each argument of `forward`. Call
    it by `apply`.

    Notes
    -----
    Gradients of gradients go through what `backward` does with ops, also with
    `ctx.saved_tensors`. On a device its ops are lazy as all others. Under `fw.jit`
    both methods run while the function is traced, and their ops are replayed.

    Examples
    --------
    >>> class Square(fw.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = fw.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).sum().backward()
    >>> x.grad.tolist()
    [6.0]
    """

    _node_class: ClassVar[type[FunctionNode]]
    generate_vmap_rule = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the class a node class of its own name."""
        super().__init_subclass__(**options)
        name = f"{cls.__name__}Backward"
        cls._node_class = type(name, (FunctionNode,), {"forward_class": cls})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a call of an instance, as functions are applied by their class."""
        raise GradError(
            f"{type(self).__name__}: functions are not called; use"
            f" {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Return the function's result; override it."""
        raise NotImplementedError("Function.forward: a subclass must override it")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what `backward` needs, where `forward` has no `ctx`; override it."""
        raise NotImplementedError("Function.setup_context: a subclass may override it")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients of the arguments; override it."""
        raise NotImplementedError(
            "Function.backward: a subclass must override it, or vjp, to be"
            " differentiated"
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients of the arguments; another name of `backward`."""
        raise NotImplementedError(
            "Function.backward: a subclass must override it, or vjp, to be"
            " differentiated"
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the directional derivative of each output; may be overridden.

        It is given one tangent for each argument of `forward`, and finds what
        `save_for_forward` was given as `saved_tensors`. Without it, it is computed by
        `backward`.
        """
        raise NotImplementedError("Function.jvp: a subclass may override it")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return the results of a batch, and their batch dimensions; may be overridden.

        Without it, `forward` and `backward` run on batched tensors.
        """
        raise NotImplementedError("Function.vmap: a subclass may override it")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the result of `forward`, which `backward` differentiates.

        Keyword arguments are given by position where `forward` has them so.

        Raises
        ------
        GradError
            If an input that `forward` changes in place is a leaf.
        """
        apart = cls.setup_context is not Function.setup_context
        if apart:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        elif kwargs:
            bound = inspect.signature(cls.forward).bind(None, *args, **kwargs)
            args, kwargs = bound.args[1:], bound.kwargs
        rules = rules_for(*args)
        if rules is not None:
            return rules.apply(cls, args, kwargs)
        ctx = cls._node_class(args)
        with SettingScope(grad_mode, False):
            if apart:
                answer = cls.forward(*args)
                cls.setup_context(ctx, args, answer)
            else:
                answer = cls.forward(ctx, *args, **kwargs)
        return ctx.finish(answer, args)


Function.__init_subclass__()


class InplaceFunction(Function):
    """Function with an argument `inplace`, kept for programs that derive from it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that is not differentiated itself: it runs unrecorded.

    Differentiating its results raises `GradError`.

    Parameters
    ----------
    fn : callable
        The `backward` of a `Function`.
    """

    @functools.wraps(fn)
    def backward(ctx: Any, *grads: Any) -> Any:
        recorded = is_grad_enabled() and any(
            isinstance(each, TensorCore) and each.needs_grad for each in grads
        )
        with SettingScope(grad_mode, False):
            answers = fn(ctx, *grads)
        if not recorded:
            return answers
        single = not isinstance(answers, tuple)
        edges = tuple([edge_of(each) for each in grads if each is not None])
        made = [_refusing(each, edges) for each in ((answers,) if single else answers)]
        return made[0] if single else tuple(made)

    return backward


def _refusing(answer: Any, edges: tuple[Edge | None, ...]) -> Any:
    """Return a gradient whose own gradient, by the given edges, is refused."""
    if not isinstance(answer, TensorCore) or not answer.dtype.is_differentiable:
        return answer

    def refuse(grad: Any) -> Any:
        raise GradError(
            "backward: a function marked with @once_differentiable is differentiated"
            " twice; leave the decorator out if its backward is written with ops"
        )

    made = answer.detach()
    made.needs_grad = True
    made.grad_node = GradNode("once differentiable", refuse, edges, (), {})
    return made
