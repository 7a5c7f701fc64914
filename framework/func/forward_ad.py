"""Forward-mode automatic differentiation: tensors that carry a tangent along.

A dual tensor is a tensor, its primal, with a directional derivative, its tangent. Ops
on dual tensors give dual tensors: the op's Jacobian times the tangents, by two passes
over its gradient rule. Primal and tangent may both be on the tape, so that gradients
of directional derivatives, and the other way round, can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import ops
from ..autograd import batched
from ..autograd.engine import backward as run_backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, grad_mode, is_grad_enabled
from ..base.dtype import can_cast
from ..base.errors import DTypeError, GradArgumentError, GradError, ShapeError
from ..base.scoped_setting import SettingScope
from ..base.shape import Layout
from ..base.torch_function import disabled_torch_function_impl
from ..dispatch import batching
from ..dispatch.movement import Movement
from ..dispatch.op import Op
from ..eager.base_tensor import assembled
from ..ops.elementwise.unary import lazy_copy
from ..ops.indexing import getitem
from ..tensor import inplace
from ..tensor.tensor import Tensor
from .batched_function import applied as batched_applied
from .batched_tensor import batching_level, levels_of
from .batching_rules import IN_PLACE, batched_call
from .transforms import gradients

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """Parts of a dual tensor.

    Attributes
    ----------
    primal : Tensor
    tangent : Tensor or None
        None for a tensor that is not dual.
    """

    primal: Any
    tangent: Any


class _Level:
    """A block in which tensors may be dual."""

    def __init__(self) -> None:
        # In it no cached call, and no replay of `jit`, takes a dual tensor's place.
        self.block = batching_level()


_levels: list[_Level] = []


class DualTensor(Tensor):
    """Tensor with a tangent; its elements and its tape entry are the primal's."""

    __slots__ = ()

    results = Tensor
    __torch_function__ = disabled_torch_function_impl  # type: ignore[assignment]  # not asked

    @property
    def needs_grad(self) -> Any:
        """Whether the primal requires a gradient."""
        return self.__dict__["_primal"].needs_grad

    @needs_grad.setter
    def needs_grad(self, flag: bool) -> None:
        self.__dict__["_primal"].needs_grad = flag

    @property
    def grad_node(self) -> Any:
        """The tape entry of the primal."""
        return self.__dict__["_primal"].grad_node

    @grad_node.setter
    def grad_node(self, node: Any) -> None:
        self.__dict__["_primal"].grad_node = node

    @property
    def grad_index(self) -> Any:
        """The primal's index among the outputs of its tape entry."""
        return self.__dict__["_primal"].grad_index

    @grad_index.setter
    def grad_index(self, index: int) -> None:
        self.__dict__["_primal"].grad_index = index

    def view_of(self, layout: Layout) -> Any:
        """Return the same elements off the tape, without a tangent."""
        return self.__dict__["_primal"].view_of(layout)

    def alias(self) -> Any:
        """Return the same elements and tape entries, in storages of their own."""
        primal, tangent = self.__dict__["_primal"], _tangent_of(self)
        return (
            primal.alias()
            if tangent is None
            else _dual(primal.alias(), tangent.alias())
        )


def _dual(primal: Any, tangent: Any) -> Any:
    """Return a dual tensor of the innermost level."""
    # A layout of its own, which is in the key of no cached call.
    layout = Layout(*primal.layout)
    made = assembled(Tensor, primal.array, layout, primal.device)
    return _become_dual(made, primal, tangent)


def _become_dual(tensor: Any, primal: Any, tangent: Any) -> Any:
    tensor.__class__ = DualTensor
    vars(tensor).update(_primal=primal, _tangent=tangent, _level=_levels[-1])
    return tensor


def _tangent_of(tensor: object) -> Any:
    """Return the tangent of a tensor at the level that runs; None without one."""
    if not isinstance(tensor, DualTensor) or not _levels:
        return None
    own = tensor.__dict__
    return own["_tangent"] if own["_level"] is _levels[-1] else None


def _primal_of(value: Any) -> Any:
    return value.__dict__["_primal"] if isinstance(value, DualTensor) else value


def enter_dual_level() -> int:
    """Begin a block in which tensors may be dual; see `dual_level`.

    Returns
    -------
    int
        Its number, 0.

    Raises
    ------
    GradError
        If one has begun: levels do not nest.
    """
    if _levels:
        raise GradError("enter_dual_level: a level has begun, and they do not nest")
    level = _Level()
    level.block.__enter__()
    _levels.append(level)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the block that `enter_dual_level` has begun; tensors lose their tangents.

    Raises
    ------
    GradError
        If none has begun, or `level` is not its number.
    """
    if not _levels or level not in (None, 0):
        raise GradError(f"exit_dual_level: level is {level}; no such one has begun")
    _levels.pop().block.__exit__(None, None, None)


class dual_level(SettingScope):  # noqa: N801 - PyTorch's name
    """Block in which tensors may be dual: have a tangent beside their elements.

    Raises
    ------
    GradError
        When it is entered in another one: levels do not nest.

    Notes
    -----
    The functions of `func` nest instead. Functions of `fw.jit` run op by op inside.

    Examples
    --------
    >>> from vkbackend.framework.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 0.0]))
    ...     forward_ad.unpack_dual(x * x).tangent.tolist()
    [2.0, 0.0]
    """

    def __init__(self) -> None:
        super().__init__(batching.levels, ())

    def _recreate_cm(self) -> dual_level:
        return dual_level()

    def __enter__(self) -> Any:
        return enter_dual_level()

    def __exit__(self, *raised: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return a view of a tensor with a tangent of its shape.

    Parameters
    ----------
    tensor : Tensor
        Of floats or complex numbers.
    tangent : Tensor
        Direction in which it varies; cast to the dtype of the tensor.
    level : int, optional
        Number of the level: 0.

    Raises
    ------
    GradError
        Outside of a level, or if the tensor has a tangent.
    GradArgumentError
        If they are not of floats or complex numbers.
    ShapeError
        If their shapes differ.
    """
    if not _levels or level not in (None, 0):
        raise GradError("make_dual: there is no level; call it in `with dual_level():`")
    for name, each in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(each, Tensor):
            raise TypeError(
                f"make_dual: {name} is a {type(each).__name__}; it must be a tensor"
            )
        if not each.dtype.is_differentiable:
            raise GradArgumentError(
                f"make_dual: {name} is {each.dtype.name}; only float and complex"
                " tensors have tangents"
            )
    if tensor.shape != tangent.shape:
        raise ShapeError(
            f"make_dual: the tensor has shape {tuple(tensor.shape)}, its tangent"
            f" {tuple(tangent.shape)}; they must have one shape"
        )
    if _tangent_of(tensor) is not None:
        raise GradError("make_dual: the tensor is dual; unpack it first")
    return _dual(tensor.view_as(tensor), tangent.to(tensor.dtype).alias())


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a view of a tensor without its tangent, and the tangent.

    Parameters
    ----------
    tensor : Tensor
    level : int, optional
        Number of the level: 0.

    Returns
    -------
    UnpackedDualTensor
        With the tangent None for a tensor that has none, or outside of a level.
    """
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    primal = _primal_of(tensor)
    return UnpackedDualTensor(primal.view_as(primal), _tangent_of(tensor))


# Ops, functions and gradients


def _dual_call(op: Op[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return the result of an op on dual tensors; see `batching.batched_call`."""
    bound = dict(arguments)
    tangents = {name: _tangent_of(bound[name]) for name in op.tensors}
    given = {name: each for name, each in tangents.items() if each is not None}
    if not any(isinstance(bound[name], DualTensor) for name in op.tensors):
        return batched_call(op, arguments)
    for name in op.tensors:
        bound[name] = _primal_of(bound[name])
    if not given:
        return op(**bound)
    if isinstance(op, Movement):
        # Linear, and the tangent of a view is a view of the tangent.
        ((name, tangent),) = given.items()
        return _dual(op(**bound), op(**{**bound, name: tangent}))
    names = [*given]

    def call(*chosen: Any) -> Any:
        return op(**{**bound, **dict(zip(names, chosen))})

    recorded = any(
        isinstance(bound[name], Tensor) and bound[name].requires_grad
        for name in op.tensors
    )
    return _pushed(call, [bound[name] for name in names], [*given.values()], recorded)


def _pushed(
    call: Callable[..., Any], primals: list[Any], tangents: list[Any], recorded: bool
) -> Any:
    """Return dual results of a function: its Jacobian times tangents beside each.

    `recorded` says whether a gradient of the results may be asked for.
    """
    recorded = is_grad_enabled() and recorded
    with enable_grad():
        inputs = [
            lazy_copy(each)
            if recorded and each.requires_grad
            else each.detach().requires_grad_()
            for each in primals
        ]
        answer = call(*inputs)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        at = [
            k
            for k, each in enumerate(outputs)
            if isinstance(each, Tensor) and each.requires_grad
        ]
        chosen = [outputs[k] for k in at]
        duals = [
            each.detach().new_zeros(each.shape).requires_grad_() for each in chosen
        ]
        seeds = [lazy_copy(each) for each in duals]
        slopes = gradients(chosen, seeds, inputs, create_graph=True)
        more = recorded or any(each.requires_grad for each in tangents)
        products = gradients(slopes, tangents, duals, more)
    made = [
        each.detach() if isinstance(each, Tensor) and not recorded else each
        for each in outputs
    ]
    for k, product in zip(at, products):
        # A rule may pass a tangent on; each is changed in place apart.
        own = product.alias()
        made[k] = _dual(made[k], own if more else own.detach())
    if not isinstance(answer, tuple):
        return made[0]
    kind: Any = type(answer)
    return kind._make(made) if hasattr(kind, "_make") else tuple(made)


def _applied(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `cls.apply` of arguments of which some are dual, or batched."""
    tangents = tuple([_tangent_of(each) for each in args])
    if not any(isinstance(each, DualTensor) for each in args):
        return batched_applied(cls, args, kwargs)
    primals = tuple(map(_primal_of, args))
    if all(each is None for each in tangents):
        return cls.apply(*primals, **kwargs)
    if cls.jvp is not Function.jvp:
        return _by_own_rule(cls, primals, tangents, kwargs)
    places = [at for at, each in enumerate(tangents) if each is not None]

    def call(*chosen: Any) -> Any:
        given = [*primals]
        for at, each in zip(places, chosen):
            given[at] = each
        return cls.apply(*given, **kwargs)

    recorded = any(isinstance(e, Tensor) and e.requires_grad for e in primals)
    return _pushed(
        call, [primals[at] for at in places], [tangents[at] for at in places], recorded
    )


def _with_zeros(primal: Any, tangent: Any) -> Any:
    """Return a tangent, of a tensor without one zeros."""
    if tangent is not None or not isinstance(primal, Tensor):
        return tangent
    return primal.new_zeros(primal.shape) if primal.dtype.is_differentiable else None


def _by_own_rule(
    cls: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], kwargs: Any
) -> Any:
    """Return dual results of a function whose class has a `jvp`."""
    ctx = cls._node_class(primals)
    with SettingScope(grad_mode, False):
        if cls.setup_context is not Function.setup_context:
            answer = cls.forward(*primals)
            cls.setup_context(ctx, primals, answer)
        else:
            answer = cls.forward(ctx, *primals, **kwargs)
    saved, ctx._to_save = ctx._to_save, ctx.saved_for_forward or ctx._to_save
    if ctx._materialize:
        tangents = tuple(map(_with_zeros, primals, tangents))
    products = cls.jvp(ctx, *tangents)
    ctx._to_save = saved
    answer = ctx.finish(answer, primals)
    if not isinstance(answer, tuple):
        return answer if products is None else _dual(answer, products)
    if not isinstance(products, tuple):
        products = (products,)
    return tuple(
        [
            each if product is None else _dual(each, product)
            for each, product in zip(answer, products)
        ]
    )


def _gradients(
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
    inputs: Sequence[Any],
    create_graph: bool,
) -> list[Any]:
    """Return gradients of dual tensors: their tangents are the tangents' gradients."""
    if levels_of([*outputs, *cotangents, *inputs]):
        return gradients(outputs, cotangents, inputs, create_graph)
    wanted = [_primal_of(each) for each in inputs]
    seeds = [_primal_of(each) for each in cotangents]
    pairs = [(_primal_of(each), seed) for each, seed in zip(outputs, seeds)]
    moved = [(_tangent_of(each), seed) for each, seed in zip(outputs, seeds)]
    moved += [
        (primal, _tangent_of(each)) for (primal, _), each in zip(pairs, cotangents)
    ]
    found = _asked(pairs, wanted, create_graph)
    tangents = _asked(moved, wanted, create_graph)
    return [
        each if each is None or tangent is None else _dual(each, tangent)
        for each, tangent in zip(found, tangents)
    ]


def _asked(pairs: list[Any], wanted: list[Any], create_graph: bool) -> list[Any]:
    given = [
        (output, seed)
        for output, seed in pairs
        if output is not None and seed is not None and output.requires_grad
    ]
    if not given:
        return [None] * len(wanted)
    return run_backward(
        [output for output, _ in given],
        [seed for _, seed in given],
        inputs=wanted,
        retain_graph=True,
        create_graph=create_graph,
    )


# Changes in place


def _has_dual(*values: Any) -> bool:
    return any(_tangent_of(each) is not None for each in values)


def _assign(x: Any, source: Any) -> Any:
    """Replace the elements of a tensor, and its tangent, which it may get."""
    if not _has_dual(x, source):
        if any(isinstance(each, DualTensor) for each in (x, source)):
            return inplace.assign(_primal_of(x), _primal_of(source))
        return IN_PLACE.assign(x, source)
    _make_changeable(x)
    inplace.assign(_primal_of(x), _primal_of(source))
    tangent = _tangent_of(source)
    inplace.assign(_tangent_of(x), 0 if tangent is None else tangent)
    return x


def _make_changeable(x: Any) -> None:
    """Make a tensor dual, with a tangent of zeros, if it is not."""
    if _tangent_of(x) is not None:
        return
    if type(x) is not Tensor:
        raise GradError(
            f"in place: a {type(x).__name__} is changed by a dual tensor; change a"
            " tensor without a class of its own"
        )
    primal = assembled(Tensor, x.array, x.layout, x.device)
    primal.needs_grad = x.needs_grad
    primal.grad_node, primal.grad_index = x.grad_node, x.grad_index
    primal.views = x.views
    if x.views is not None:
        x.views[:] = [type(each)(primal) if each() is x else each for each in x.views]
    zeros = x.detach().new_zeros(x.shape)
    x.layout = Layout(*x.layout)
    _become_dual(x, primal, zeros)


def _change(
    x: Any, op: Callable[..., Any], operands: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    if not _has_dual(x, *operands, *options.values()):
        return IN_PLACE.change(x, op, operands, options)
    new = op(x.alias(), *operands, **options)
    if not can_cast(new.dtype, x.dtype):
        raise DTypeError(
            f"in place: the result is {new.dtype.name}, which {x.dtype.name} does not"
            " hold; write x = f(x), or cast the tensor first"
        )
    return _assign(x, new)


def _set_item(x: Any, index: object, value: Any) -> None:
    if not _has_dual(x, value):
        IN_PLACE.set_item(x, index, value)
        return
    _make_changeable(x)
    chosen = getitem.region(index, x.shape)
    view = getitem.slice_of(x, chosen)
    if not chosen.arrays and not chosen.flips:
        _assign(view, value)
        return
    if not isinstance(value, Tensor):
        value = ops.fill_like(_primal_of(x).detach(), (), value, x.dtype)
    _assign(view, getitem.updated(view.alias(), chosen, value.to(x.dtype)))


def install() -> None:
    """Have calls with dual tensors answered by these rules."""
    in_place = batching.InPlaceRules(
        lambda *tensors: bool(levels_of(tensors)) or _is_dual(*tensors),
        _assign,
        _change,
        _set_item,
    )
    batching.register(_dual_call, in_place)
    batched.register(
        batched.BatchedRules(
            lambda *tensors: bool(levels_of(tensors)) or _is_dual(*tensors),
            _applied,
            _gradients,
        )
    )


def _is_dual(*values: object) -> bool:
    return any(isinstance(each, DualTensor) for each in values)
