"""Transforms of functions of tensors: gradients, products with Jacobians, Jacobians.

They nest with each other and with `vmap`. Each call puts copies of its inputs on the
tape; results are off it again unless something outside requires a gradient.
"""

# Longer than most: all transforms read one record of a call, `_Taped`.

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..autograd.engine import backward as run_backward
from ..autograd.function import linearizing
from ..autograd.grad_mode import enable_grad, is_grad_enabled
from ..autograd.tape import GradNode
from ..base.errors import GradArgumentError, GradError
from ..base.scoped_setting import SettingScope
from ..ops.elementwise.unary import lazy_copy
from ..tensor.tensor import Tensor
from .batched_tensor import (
    BatchLevel,
    active_levels,
    batched_along,
    batching_level,
    check_randomness,
    draws,
    levels_of,
    real_of,
    wrapped,
)
from .tree import Structure, flatten, unflatten
from .vmap import vmap

Argnums = int | tuple[int, ...]


class _Taped:
    """A run of a function whose differentiated inputs are on the tape.

    Attributes
    ----------
    outputs : list
        Leaves of the result.
    structure : Structure
        Its structure.
    aux : object
        What else the function returned.
    """

    def __init__(
        self, name: str, func: Callable[..., Any], primals: Any, has_aux: bool = False
    ) -> None:
        self.name = name
        leaves, self.input_structure = flatten(primals)
        levels = active_levels()
        self._outer = is_grad_enabled()
        with enable_grad():
            self.inputs = [
                _variable(name, each, levels, self._outer) for each in leaves
            ]
            # The function may change its arguments in place.
            given = [wrapped(lazy_copy(real_of(e)), levels) for e in self.inputs]
            # Within a transform functions of `jit` are not replayed.
            with batching_level():
                answer = func(*unflatten(given, self.input_structure))
        self.aux = None
        if has_aux:
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise GradError(
                    f"{name}: has_aux is True, but the function returned a"
                    f" {type(answer).__name__}; it must return (result, aux)"
                )
            answer, self.aux = answer
        self.outputs, self.structure = flatten(answer)
        for each in self.outputs:
            if not isinstance(each, Tensor):
                raise GradError(
                    f"{name}: the function returned a {type(each).__name__}; it must"
                    " return tensors"
                )
        self.recorded = self._outer and self._reaches_outside()

    def _reaches_outside(self) -> bool:
        """Return whether the results depend on the tape beside the inputs."""
        own = {id(real_of(each)) for each in self.inputs}
        seen: set[int] = set()
        stack: list[Any] = []
        for each in self.inputs:
            node = real_of(each).grad_node
            if node is not None:
                return True
        stack += [real_of(each).grad_node for each in self.outputs]
        while stack:
            node = stack.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            for edge in node.edges:
                if edge is None:
                    continue
                if isinstance(edge.target, GradNode):
                    stack.append(edge.target)
                elif id(edge.target) not in own:
                    return True
        return False

    def pull(self, cotangents: Sequence[Any], create_graph: bool | None = None) -> Any:
        """Return the inputs' gradients, as a list, for those of the outputs."""
        recorded = self.recorded if create_graph is None else create_graph
        return gradients(self.outputs, cotangents, self.inputs, recorded)

    def peeled(self, value: Any) -> Any:
        """Return a tree off the tape, unless something outside requires gradients."""
        if self.recorded:
            return value
        leaves, structure = flatten(value)
        found = [e.detach() if isinstance(e, Tensor) else e for e in leaves]
        return unflatten(found, structure)

    def result(self) -> Any:
        """Return the function's result."""
        return self.peeled(unflatten(self.outputs, self.structure))

    def with_aux(self, *values: Any, has_aux: bool) -> tuple[Any, ...]:
        """Return values, and what else the function returned."""
        return (*values, self.peeled(self.aux)) if has_aux else values


def _variable(
    name: str, value: Any, levels: tuple[BatchLevel, ...], outer: bool
) -> Any:
    """Return a tensor of the same elements whose gradient can be asked for.

    It is batched along all levels, as its gradient may differ there.
    """
    if not isinstance(value, Tensor):
        raise GradArgumentError(
            f"{name}: a differentiated argument is a {type(value).__name__}; it must"
            " be a tensor, or containers of tensors"
        )
    if not value.dtype.is_differentiable:
        raise GradError(
            f"{name}: a differentiated argument is {value.dtype.name}; only float and"
            " complex tensors have gradients"
        )
    real = real_of(batched_along(value, levels))
    if real.requires_grad and outer:
        return wrapped(lazy_copy(real), levels)
    return wrapped(real.detach().requires_grad_(), levels)


def gradients(
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
    inputs: Sequence[Any],
    create_graph: bool,
) -> list[Any]:
    """Return gradients of tensors that may be batched, zeros where there is no path."""
    pairs = [
        (real_of(output), _aligned_seed(output, cotangent))
        for output, cotangent in zip(outputs, cotangents)
        if cotangent is not None and real_of(output).requires_grad
    ]
    found: list[Any] = [None] * len(inputs)
    wanted = [at for at, each in enumerate(inputs) if real_of(each).requires_grad]
    if pairs and wanted:
        grads = run_backward(
            [output for output, _ in pairs],
            [seed for _, seed in pairs],
            inputs=[real_of(inputs[at]) for at in wanted],
            retain_graph=True,
            create_graph=create_graph,
        )
        for at, grad in zip(wanted, grads):
            found[at] = grad
    return [
        like.detach().new_zeros(like.shape) if grad is None else _as(grad, like)
        for grad, like in zip(found, inputs)
    ]


def _aligned_seed(output: Any, cotangent: Any) -> Any:
    """Return a gradient of the real tensor behind an output.

    Levels of the cotangent that the output has not stay a batch.
    """
    own = levels_of([output])
    more = tuple([each for each in levels_of([cotangent]) if each not in own])
    whole = batched_along(cotangent, _sorted((*own, *more)))
    real = real_of(whole)
    if not more:
        return real
    order = [*more, *own]
    at = [levels_of([whole]).index(each) for each in order]
    rest = range(len(order), real.ndim)
    return wrapped(real.permute((*at, *rest)), more)


def _sorted(levels: tuple[BatchLevel, ...]) -> tuple[BatchLevel, ...]:
    return tuple(sorted(levels, key=lambda level: level.number))


def _as(grad: Any, like: Any) -> Any:
    """Return the gradient of a real tensor as one of the batched tensor."""
    own, more = levels_of([like]), levels_of([grad])
    if not own:
        return grad
    if not more:
        return wrapped(grad, own)
    order = (*more, *own)
    levels = _sorted(order)
    real = real_of(grad)
    rest = range(len(order), real.ndim)
    return wrapped(real.permute((*[order.index(e) for e in levels], *rest)), levels)


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`.

    Parameters
    ----------
    func : callable
        Returns a tensor of no dimensions.
    argnums : int or tuple of int, default 0
        The arguments with respect to which; each a tensor or containers of them.
    has_aux : bool, default False
        Whether `func` returns (result, aux), and the gradient comes with aux.

    Returns
    -------
    callable

    Raises
    ------
    GradError
        In a call, if the result has dimensions or is no tensor.

    Examples
    --------
    >>> second = fw.func.grad(fw.func.grad(lambda x: x**3))
    >>> second(fw.tensor(2.0)).item()
    12.0
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found = _grad_and_value("grad", func, argnums, has_aux, args, kwargs)
        return (found[0], found[1][1]) if has_aux else found[0]

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`, and its result.

    Parameters
    ----------
    func, argnums, has_aux
        As in `grad`; with aux the second part is (result, aux).

    Returns
    -------
    callable
        Its result is (gradient, result).
    """

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value("grad_and_value", func, argnums, has_aux, args, kwargs)

    return both


def _grad_and_value(
    name: str,
    func: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any]:
    call, chosen = _of_arguments(name, func, argnums, args, kwargs)
    taped = _Taped(name, call, chosen, has_aux)
    single = taped.structure.kind is None
    if not single or taped.outputs[0].shape != ():
        shapes = ", ".join(str(each.shape) for each in taped.outputs)
        raise GradError(
            f"{name}: the function returned shape {shapes}; it must return one tensor"
            " of shape (), as by sum()"
        )
    (output,) = taped.outputs
    grads = taped.pull([output.detach().new_ones(())])
    tree = unflatten(taped.peeled(grads), taped.input_structure)
    found = tree[0] if isinstance(argnums, int) else tree
    value = taped.result()
    return found, (value, taped.peeled(taped.aux)) if has_aux else value


def _of_arguments(
    name: str,
    func: Callable[..., Any],
    argnums: Argnums,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of the arguments that are differentiated, and those."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(numbers, tuple) or not all(isinstance(n, int) for n in numbers):
        raise GradError(
            f"{name}: argnums is {argnums!r}; it must be an int or a tuple of int"
        )
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise GradError(
                f"{name}: argnums has {number} for {len(args)} positional arguments"
            )
    places = [number % len(args) for number in numbers]
    if not places or len(set(places)) < len(places):
        raise GradError(f"{name}: argnums is {argnums}; give different numbers")

    def call(*chosen: Any) -> Any:
        given = [*args]
        for place, value in zip(places, chosen):
            given[place] = value
        return func(*given, **kwargs)

    return call, tuple([args[place] for place in places])


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return a function's result, and a function of vectors times its Jacobian.

    Parameters
    ----------
    func : callable
    *primals
        Its arguments: tensors, or containers of them.
    has_aux : bool, default False
        Whether `func` returns (result, aux), which then comes last.

    Returns
    -------
    tuple of (result, callable) or (result, callable, aux)
        The callable takes a tree as the result, and returns a tuple of one gradient
        for each argument.

    Examples
    --------
    >>> _, pull = fw.func.vjp(lambda x: x**2, fw.tensor([1.0, 2.0]))
    >>> pull(fw.ones(2))[0].tolist()
    [2.0, 4.0]
    """
    taped = _Taped("vjp", func, primals, has_aux)

    def pull(
        *cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        leaves, structure = flatten(given)
        _check_tangents("vjp", (leaves, structure), taped.outputs, taped.structure)
        on_tape = any(real_of(each).requires_grad for each in leaves)
        recorded = taped.recorded or (is_grad_enabled() and on_tape)
        grads = taped.pull(leaves, recorded)
        if not recorded:
            grads = [each.detach() for each in grads]
        return unflatten(grads, taped.input_structure)

    return taped.with_aux(taped.result(), pull, has_aux=has_aux)


def _check_tangents(
    name: str,
    given: tuple[list[Any], Structure],
    like: Sequence[Any],
    structure: Structure,
) -> None:
    leaves, own = given
    if own != structure:
        raise GradError(
            f"{name}: the vectors' structure is not that of what they go with"
        )
    for each, wanted in zip(leaves, like):
        if not isinstance(each, Tensor) or each.shape != wanted.shape:
            found = each.shape if isinstance(each, Tensor) else type(each).__name__
            raise GradError(
                f"{name}: a vector is {found}; it must be a tensor of shape"
                f" {wanted.shape}"
            )


class _Linear:
    """The Jacobian of a run, to be multiplied with vectors from the right."""

    def __init__(self, taped: _Taped) -> None:
        self.taped = taped
        levels = active_levels()
        with enable_grad():
            self.duals = [
                _variable(
                    taped.name, each.detach().new_zeros(each.shape), levels, False
                )
                if each.dtype.is_differentiable
                else each
                for each in taped.outputs
            ]
            seeds = [
                wrapped(lazy_copy(real_of(each)), levels)
                if each.dtype.is_differentiable
                else None
                for each in self.duals
            ]
            with SettingScope(linearizing, True):
                self.slopes = taped.pull(seeds, create_graph=True)

    def push(self, tangents: Sequence[Any], recorded: bool) -> list[Any]:
        """Return the Jacobian times vectors, for each output."""
        found = gradients(self.slopes, tangents, self.duals, recorded)
        return found if recorded else [each.detach() for each in found]


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return a function's result, and its Jacobian times vectors.

    Parameters
    ----------
    func : callable
    primals : tuple
        Its arguments: tensors, or containers of them.
    tangents : tuple
        Vectors of the same structure.
    strict : bool, default False
        Raise where a result does not depend on the arguments, instead of giving zeros.
    has_aux : bool, default False
        Whether `func` returns (result, aux), which then comes last.

    Returns
    -------
    tuple of (result, product) or (result, product, aux)

    Notes
    -----
    Computed by two passes backward; there is no forward mode.

    Examples
    --------
    >>> _, product = fw.func.jvp(lambda x: x**2, (fw.ones(2),), (fw.ones(2),))
    >>> product.tolist()
    [2.0, 2.0]
    """
    for name, each in (("primals", primals), ("tangents", tangents)):
        if not isinstance(each, tuple):
            raise GradError(
                f"jvp: {name} is a {type(each).__name__}; it must be a tuple with an"
                " entry for each argument"
            )
    taped = _Taped("jvp", func, primals, has_aux)
    leaves, structure = flatten(tangents)
    _check_tangents("jvp", (leaves, structure), taped.inputs, taped.input_structure)
    if strict and not all(real_of(each).requires_grad for each in taped.outputs):
        raise GradError(
            "jvp: a result does not depend on the arguments; leave strict out to get"
            " zeros"
        )
    on_tape = any(real_of(each).requires_grad for each in leaves)
    recorded = taped.recorded or (is_grad_enabled() and on_tape)
    products = _Linear(taped).push(leaves, recorded)
    tree = unflatten(products, taped.structure)
    return taped.with_aux(taped.result(), tree, has_aux=has_aux)


def linearize(
    func: Callable[..., Any], *primals: Any
) -> tuple[Any, Callable[..., Any]]:
    """Return a function's result, and the function of its Jacobian times vectors.

    Parameters
    ----------
    func : callable
    *primals
        Its arguments: tensors, or containers of them.

    Returns
    -------
    tuple of (result, callable)
        The callable takes one vector for each argument; `func` does not run again.
    """
    taped = _Taped("linearize", func, primals)
    linear = _Linear(taped)

    def push(*tangents: Any) -> Any:
        leaves, structure = flatten(tangents)
        given = leaves, structure
        _check_tangents("linearize", given, taped.inputs, taped.input_structure)
        return unflatten(linear.push(leaves, taped.recorded), taped.structure)

    return taped.result(), push


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func`, by passes backward.

    Parameters
    ----------
    func : callable
    argnums : int or tuple of int, default 0
        The arguments with respect to which.
    has_aux : bool, default False
        Whether `func` returns (result, aux), and the Jacobian comes with aux.
    chunk_size : int or None, default None
        Rows that are computed at a time; None means all.

    Returns
    -------
    callable
        Its result has the structure of that of `func`, with the structure of the
        arguments in each leaf: tensors of shape (*output.shape, *input.shape).

    Examples
    --------
    >>> fw.func.jacrev(lambda x: x * x)(fw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if chunk_size is not None and chunk_size < 1:
        raise GradArgumentError(
            f"jacrev: chunk_size is {chunk_size}; it must be at least 1, or None"
        )

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        call, chosen = _of_arguments("jacrev", func, argnums, args, kwargs)
        taped = _Taped("jacrev", call, chosen, has_aux)
        rows = []
        for at, output in enumerate(taped.outputs):
            found = _rows(taped, at, chunk_size)
            shaped = [
                each.reshape((*output.shape, *like.shape))
                for each, like in zip(found, taped.inputs)
            ]
            tree = unflatten(shaped, taped.input_structure)
            rows.append(tree[0] if isinstance(argnums, int) else tree)
        result = taped.peeled(unflatten(rows, taped.structure))
        return (result, taped.peeled(taped.aux)) if has_aux else result

    return jacobian


def _basis(like: Any) -> Any:
    """Return unit vectors, one for each element, of a tensor's shape."""
    count = like.numel()
    unit = ops.diag(real_of(like).detach().new_ones((count,)))
    return unit.reshape((count, *like.shape))


def _rows(taped: _Taped, at: int, chunk_size: int | None) -> list[Any]:
    """Return the Jacobian of one output: for each input its rows."""
    basis = _basis(taped.outputs[at])

    def row(seed: Any) -> Any:
        seeds = [seed if k == at else None for k in range(len(taped.outputs))]
        return tuple(taped.pull(seeds))

    found = vmap(row, chunk_size=chunk_size)(basis) if len(basis) else ()
    return [*found] or [each.new_zeros((0,)) for each in taped.inputs]


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func`, by columns.

    Parameters
    ----------
    func, argnums, has_aux
        As in `jacrev`, as is the result.
    randomness : {"error", "same", "different"}
        Whether the function may draw random numbers. It runs once, so "different" does
        what "same" does.

    Notes
    -----
    Columns are Jacobians times unit vectors, as in `jvp`: it pays where the function
    has more results than arguments.
    """
    check_randomness("jacfwd", randomness)

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        call, chosen = _of_arguments("jacfwd", func, argnums, args, kwargs)
        with SettingScope(draws, randomness):
            taped = _Taped("jacfwd", call, chosen, has_aux)
        linear = _Linear(taped)
        parts = [_columns(taped, linear, at) for at in range(len(taped.inputs))]
        trees = []
        for at in range(len(taped.outputs)):
            tree = unflatten([each[at] for each in parts], taped.input_structure)
            trees.append(tree[0] if isinstance(argnums, int) else tree)
        result = taped.peeled(unflatten(trees, taped.structure))
        return (result, taped.peeled(taped.aux)) if has_aux else result

    return jacobian


def _columns(taped: _Taped, linear: _Linear, at: int) -> list[Any]:
    """Return the Jacobians of all outputs by one input."""
    like = taped.inputs[at]

    def column(tangent: Any) -> Any:
        tangents = [tangent if k == at else None for k in range(len(taped.inputs))]
        return tuple(linear.push(tangents, taped.recorded))

    columns = vmap(column, out_dims=-1)(_basis(like))
    return [
        each.reshape((*output.shape, *like.shape))
        for each, output in zip(columns, taped.outputs)
    ]


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `func`.

    Parameters
    ----------
    func : callable
    argnums : int or tuple of int, default 0
        The arguments with respect to which.

    Returns
    -------
    callable

    Examples
    --------
    >>> fw.func.hessian(lambda x: (x**3).sum())(fw.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(func, argnums), argnums)
