"""`vmap`: a function of one element, as a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from .batched_tensor import (
    BatchLevel,
    aligned,
    batching_level,
    check_randomness,
    levels_of,
    real_of,
    sizes_of,
    wrapped,
)
from .tree import flatten, unflatten

Dims = Any
"""A dimension or None, or the like in the structure of the arguments."""


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `func` along a dimension of its arguments.

    The function runs once, for all elements of the batch.

    Parameters
    ----------
    func : callable
        From tensors, also nested in containers, to tensors.
    in_dims : int, None or nested, default 0
        The batch dimension of each argument; None for one that is the same for all.
        Keyword arguments are the same for all.
    out_dims : int, None or nested, default 0
        Where the results have it.
    randomness : {"error", "same", "different"}, default "error"
        What random draws inside give: an error, the same numbers for all elements, or
        others for each.
    chunk_size : int or None, default None
        Elements that run at a time; None means all.

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        In a call, if nothing has a batch dimension, the sizes differ, a dimension is
        out of range, or a result is no tensor.
    GradError
        In a call, if the function reads an element on the host, or draws although that
        is an error.

    Notes
    -----
    Element-wise ops, movements, reductions, products, convolutions, pools, gathers and
    softmax are one op for the whole batch. An op without a batching rule, such as one
    of a `composite` of the user's, runs once for each element of the batch, and its
    results are stacked. A function of `fw.jit` that is called inside runs op by op;
    `fw.jit` around the whole replays it.

    Examples
    --------
    >>> x, y = fw.tensor([[1.0, 2.0], [3.0, 4.0]]), fw.tensor([1.0, 10.0])
    >>> fw.func.vmap(fw.dot, in_dims=(0, None))(x, y).tolist()
    [21.0, 43.0]
    """
    check_randomness("vmap", randomness)
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size is {chunk_size}; it must be positive")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, structure = flatten(args)
        dims = _dims_of(in_dims, args)
        call = functools.partial(func, **kwargs)
        size = _batch_size(flat, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(call, (flat, structure), dims, out_dims, (size, randomness))
        parts = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            given = [
                each if dim is None else each.narrow(dim, start, count)
                for each, dim in zip(flat, dims)
            ]
            state = count, randomness
            parts.append(_run(call, (given, structure), dims, out_dims, state))
        return _joined(parts, out_dims)

    return mapped


def _dims_of(in_dims: Dims, args: tuple[Any, ...]) -> list[int | None]:
    """Return the batch dimension of each leaf of the arguments."""
    if not isinstance(in_dims, int | tuple | list) or isinstance(in_dims, bool):
        raise ValueError(
            f"vmap: in_dims is {in_dims!r}; it must be an int, or a tuple with an entry"
            " for each argument"
        )
    if not args:
        raise ValueError(
            "vmap: the function is called without positional arguments; give some"
        )
    if isinstance(in_dims, tuple | list) and len(in_dims) != len(args):
        raise ValueError(
            f"vmap: in_dims has {len(in_dims)} entries for {len(args)} arguments; give"
            " one each"
        )
    own: Any = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    found = _spread(own, args, "in_dims")
    return [_checked(*pair) for pair in zip(found, flatten(args)[0])]


def _spread(dims: Dims, tree: Any, name: str) -> Iterator[int | None]:
    """Yield the dimension of each leaf, from dims in a prefix of its structure."""
    if dims is None or isinstance(dims, int):
        yield from [dims] * len(flatten(tree)[0])
        return
    if type(dims) is not type(tree) or len(dims) != len(tree):
        raise ValueError(
            f"vmap: {name} {dims!r} has not the structure of a"
            f" {type(tree).__name__} of {len(tree) if hasattr(tree, '__len__') else 1}"
        )
    if isinstance(dims, dict):
        for key in tree:
            yield from _spread(dims[key], tree[key], name)
        return
    for own, part in zip(dims, tree):
        yield from _spread(own, part, name)


def _checked(dim: int | None, leaf: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"vmap: a batch dimension is given for a {type(leaf).__name__}; only"
            " tensors have one: give None in in_dims for it"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"vmap: in_dims has {dim} for a tensor of shape {leaf.shape}; it must be a"
            " dimension of the tensor, or None"
        )
    return dim % leaf.ndim


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [each.shape[dim] for each, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError("vmap: no argument has a batch dimension; give one in in_dims")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: the batch dimensions have sizes {', '.join(map(str, sizes))}; they"
            " must be the same"
        )
    size: int = sizes[0]
    return size


def _run(
    func: Callable[..., Any],
    given: tuple[list[Any], Any],
    dims: list[int | None],
    out_dims: Dims,
    state: tuple[int, str],
) -> Any:
    """Run the function on batched tensors, and return real ones."""
    level = BatchLevel(*state)
    leaves, structure = given
    with batching_level(level):
        batched = [
            each if dim is None else entered(each, dim, level)
            for each, dim in zip(leaves, dims)
        ]
        found, shape = flatten(func(*unflatten(batched, structure)))
        for each in found:
            if not isinstance(each, Tensor):
                raise ValueError(
                    f"vmap: the function returned a {type(each).__name__}; it must"
                    " return tensors"
                )
        places = [*_spread(out_dims, unflatten(found, shape), "out_dims")]
        results = [left(each, dim, level) for each, dim in zip(found, places)]
    return unflatten(results, shape)


def entered(tensor: Tensor, dim: int, level: BatchLevel) -> Any:
    """Return a tensor with one of its dimensions as the batch of a level."""
    outer = levels_of([tensor])
    real = real_of(tensor).movedim(dim + len(outer), len(outer))
    return wrapped(real, (*outer, level))


def left(tensor: Tensor, dim: int | None, level: BatchLevel) -> Any:
    """Return a tensor with the batch of a level as one of its dimensions."""
    own = levels_of([tensor])
    if level not in own:
        if dim is None:
            return tensor
        own = (*own, level)
        shape = (*sizes_of(own), *tensor.shape)
        tensor = wrapped(aligned(tensor, own).expand(shape), own)
    elif dim is None:
        raise ValueError(
            f"vmap: out_dims has None for a result of shape {tensor.shape}, which"
            " differs along the batch; give a dimension"
        )
    if not -tensor.ndim - 1 <= dim <= tensor.ndim:
        raise ValueError(
            f"vmap: out_dims has {dim} for a result of shape {tensor.shape}; it must be"
            f" from {-tensor.ndim - 1} to {tensor.ndim}"
        )
    at, rest = own.index(level), tuple([each for each in own if each is not level])
    dim %= tensor.ndim + 1
    return wrapped(real_of(tensor).movedim(at, len(rest) + dim), rest)


def _joined(parts: list[Any], out_dims: Dims) -> Any:
    """Return the results of all chunks, joined along the batch."""
    leaves = [flatten(part)[0] for part in parts]
    structure = flatten(parts[0])[1]
    places = [*_spread(out_dims, parts[0], "out_dims")]
    joined = [
        each[0] if dim is None else ops.cat(each, dim)
        for each, dim in zip(zip(*leaves), places)
    ]
    return unflatten(joined, structure)
