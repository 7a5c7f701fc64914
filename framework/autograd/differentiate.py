"""Gradients on request: `backward` and `grad`, with PyTorch's arguments."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import GradError
from ..base.scoped_setting import SettingScope
from ..eager.base_tensor import TensorCore
from .batched import rules_for
from .engine import accumulate_leaf
from .engine import backward as run_backward
from .grad_mode import grad_mode
from .gradient_hooks import retain_grad
from .tape import GradientEdge, GradientLike

Tensors = Any
"""A tensor, or a sequence of them."""


def backward(
    tensors: Tensors,
    grad_tensors: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensors = None,
    inputs: Tensors = None,
) -> None:
    """Add the gradients of tensors to the `.grad` of leaves.

    Parameters
    ----------
    tensors : Tensor, GradientEdge, or sequence of them
        What is differentiated: the sum of each times its gradient.
    grad_tensors : Tensor, sequence of Tensor or None, optional
        Gradients of `tensors`; None for those of one element means 1.
    retain_graph : bool or None, default None
        Keep what was saved, so that another pass can run; None means `create_graph`.
    create_graph : bool, default False
        Record the pass itself, for gradients of gradients.
    grad_variables : optional
        The former name of `grad_tensors`.
    inputs : Tensor or sequence of Tensor, optional
        The only tensors whose `.grad` changes; leaves or not.

    Raises
    ------
    GradError
        If a tensor is not on the tape, has several elements and no gradient is given,
        or something saved was freed or changed in place.
    TypeError
        If a gradient is no tensor.

    Examples
    --------
    >>> x = fw.tensor([1.0, 2.0], requires_grad=True)
    >>> fw.autograd.backward([x.sum(), (x * x).sum()])
    >>> x.grad.tolist()
    [3.0, 5.0]
    """
    if grad_tensors is not None and grad_variables is not None:
        raise GradError(
            "backward: grad_tensors and grad_variables are both given; give the first"
        )
    outputs = _as_tuple("backward", tensors)
    given = grad_variables if grad_tensors is None else grad_tensors
    seeds = _seeds("backward", outputs, given)
    wanted = None if inputs is None else _as_tuple("backward", inputs)
    if wanted is not None:
        _check_inputs("backward", wanted)
        wanted = tuple(map(_as_leaf, wanted))
        for each in wanted:
            retain_grad(each)
    grads = run_backward(
        _as_edges(outputs),
        seeds,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=wanted,
    )
    for each, grad in zip(wanted or (), grads):
        if each.grad_node is None and grad is not None:
            with SettingScope(grad_mode, create_graph):
                accumulate_leaf(each, grad, hook=False)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return the gradients of outputs with respect to inputs; `.grad` stays as it is.

    Parameters
    ----------
    outputs : Tensor, GradientEdge, or sequence of them
        What is differentiated: the sum of each times its gradient.
    inputs : Tensor, GradientEdge, or sequence of them
        With respect to what: leaves, or results on the way to `outputs`.
    grad_outputs : Tensor, sequence of Tensor or None, optional
        Gradients of `outputs`; None for those of one element means 1.
    retain_graph : bool or None, default None
        Keep what was saved, so that another pass can run; None means `create_graph`.
    create_graph : bool, default False
        Record the pass itself, for gradients of gradients.
    only_inputs : bool, default True
        Accepted; `.grad` is never changed, as False would ask for.
    allow_unused : bool or None, default None
        Whether inputs that no output depends on are accepted; None means
        `materialize_grads`.
    is_grads_batched : bool, default False
        Whether each of `grad_outputs` has one more dimension, the first: one pass each,
        whose gradients are stacked.
    materialize_grads : bool, default False
        Return zeros instead of None for unused inputs.

    Returns
    -------
    tuple of Tensor or None
        One for each input; None where it is unused.

    Raises
    ------
    GradError
        If an input is unused and that is not allowed, an input or output requires no
        gradient, an output has several elements and no gradient is given, or something
        saved was freed or changed in place.
    ValueError
        If `allow_unused` is False beside `materialize_grads`.

    Examples
    --------
    >>> x = fw.tensor([1.0, 2.0], requires_grad=True)
    >>> (first,) = fw.autograd.grad((x**3).sum(), x, create_graph=True)
    >>> (second,) = fw.autograd.grad(first.sum(), x)
    >>> first.tolist(), second.tolist()
    ([3.0, 12.0], [6.0, 12.0])
    """
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False has no effect; use backward to accumulate into"
            " all leaves",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: allow_unused is False and materialize_grads True; unused inputs"
            " have zeros then, so leave allow_unused out"
        )
    results = _as_tuple("grad", outputs)
    given = _as_tuple("grad", inputs)
    _check_inputs("grad", given)
    # The tape of a sparse tensor is that of its elements.
    wanted = tuple(
        [
            each.elements if getattr(each, "is_wrapper", False) else each
            for each in given
        ]
    )
    retain = create_graph if retain_graph is None else retain_graph
    rules = rules_for(*results)
    if rules is not None:
        seeds = _seeds("grad", results, grad_outputs)
        grads = rules.gradients(results, seeds, wanted, create_graph)
    elif is_grads_batched:
        grads = _batched(results, wanted, grad_outputs, retain, create_graph)
    else:
        seeds = _seeds("grad", results, grad_outputs)
        grads = run_backward(
            _as_edges(results),
            seeds,
            inputs=_as_edges(wanted),
            retain_graph=retain,
            create_graph=create_graph,
        )
    for at, each in enumerate(wanted):
        if grads[at] is None and materialize_grads:
            grads[at] = _filled(each, 0)
        elif grads[at] is None and not allow_unused:
            raise GradError(
                f"grad: no output depends on input {at}; pass allow_unused=True to get"
                " None for it"
            )
        if given[at] is not each and grads[at] is not None:
            grads[at] = given[at].gradient_of(grads[at])
    return tuple(grads)


def _batched(
    outputs: tuple[Any, ...],
    inputs: tuple[Any, ...],
    grad_outputs: Tensors,
    retain: bool,
    create_graph: bool,
) -> list[Any]:
    """Return the gradients of one pass for each row of `grad_outputs`, stacked."""
    if grad_outputs is None:
        raise GradError(
            "grad: is_grads_batched is True and grad_outputs None; give the batch of"
            " gradients"
        )
    rows = _as_tuple("grad", grad_outputs)
    count = rows[0].shape[0]
    found = []
    for row in range(count):
        last = row == count - 1
        found.append(
            run_backward(
                _as_edges(outputs),
                [each[row] for each in rows],
                inputs=_as_edges(inputs),
                retain_graph=retain or not last,
                create_graph=create_graph,
            )
        )
    stacked = []
    for grads in zip(*found):
        whole = None
        if grads[0] is not None:
            whole = grads[0].new_zeros((count, *grads[0].shape))
            for row, each in enumerate(grads):
                whole[row] = each
        stacked.append(whole)
    return stacked


def _as_edges(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors, and edges as the engine has them."""
    return tuple([e.edge if type(e) is GradientEdge else e for e in tensors])


def _as_leaf(tensor: Any) -> Any:
    """Return the tensor that `.grad` is of."""
    if type(tensor) is not GradientEdge:
        return tensor
    target = tensor.edge.target
    if not isinstance(target, TensorCore):
        raise GradError(
            f"backward: an input is an edge to {target.name()}, which has no .grad;"
            " give the tensor, or the edge of a leaf"
        )
    return target


def _filled(like: Any, value: int) -> Any:
    """Return the gradient of a tensor, or of an edge, filled with a number."""
    if type(like) is not GradientEdge:
        own = like.detach()
        return own.new_ones(own.shape) if value else own.new_zeros(own.shape)
    about = like.ownership_token
    if not isinstance(about, GradientLike):
        raise GradError(
            "grad: an edge is given whose tensor is not known; give its gradient, or"
            " take the edge from get_gradient_edge"
        )
    one = about.kind.from_host(np.full((), value), about.device, about.spec.dtype)
    return one.expand(about.spec.shape)


def _as_tuple(name: str, tensors: Tensors) -> tuple[Any, ...]:
    if isinstance(tensors, TensorCore | GradientEdge):
        return (tensors,)
    if not isinstance(tensors, Sequence) and not hasattr(tensors, "__iter__"):
        raise TypeError(
            f"{name}: a {type(tensors).__name__} was given; it must be a tensor or a"
            " sequence of them"
        )
    found = tuple(tensors)
    for each in found:
        if each is not None and not isinstance(each, TensorCore | GradientEdge):
            raise TypeError(
                f"{name}: a {type(each).__name__} was given; it must be a tensor"
            )
    return found


def _check_inputs(name: str, inputs: tuple[Any, ...]) -> None:
    if not inputs:
        raise GradError(f"{name}: inputs is empty; give one tensor or more")
    for at, each in enumerate(inputs):
        if type(each) is not GradientEdge and not each.requires_grad:
            raise GradError(
                f"{name}: input {at} does not require a gradient; set"
                " requires_grad=True on it before it is used"
            )


def _seeds(name: str, outputs: tuple[Any, ...], given: Tensors) -> list[Any]:
    """Return the gradients that a pass starts with."""
    grads = [None] * len(outputs) if given is None else [*_as_tuple(name, given)]
    if len(grads) != len(outputs):
        raise GradError(
            f"{name}: {len(grads)} gradients for {len(outputs)} tensors; give one each"
        )
    return [seed_of(name, *pair) for pair in zip(outputs, grads)]


def seed_of(name: str, output: Any, grad: Any) -> Any:
    """Return the gradient of an output; 1 if none is given for a single element.

    Raises
    ------
    GradError
        If the output requires no gradient, or has several elements and none is given.
    """
    if grad is not None:
        return grad
    if type(output) is GradientEdge:
        return _filled(output, 1)
    if not output.requires_grad:
        raise GradError(
            f"{name}: the tensor does not require a gradient;"
            " set requires_grad=True on something it is computed from"
        )
    if output.numel() != 1:
        raise GradError(
            f"{name}: the tensor has shape {tuple(output.shape)};"
            " pass its gradient or reduce it to a scalar"
        )
    if output.dtype.is_complex:
        raise GradError(
            f"{name}: the tensor is {output.dtype.name}; pass its gradient, or reduce"
            " it to a real number"
        )
    return _filled(output, 1)
