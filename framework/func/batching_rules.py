"""Batching rules: how an op on batched tensors becomes one op on real tensors.

Element-wise ops broadcast over the batch dimensions. A rule of `RULES` moves another
op's dimensions, or takes the batch into a dimension that the op has already. An op
without a rule runs once for each element of the batch, and its results are stacked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from .. import ops
from ..base.dtype import bool_, can_cast
from ..base.errors import DTypeError, GradError, ShapeError
from ..base.shape import Layout
from ..dispatch import batching
from ..dispatch.composite import Composite
from ..dispatch.op import Op
from ..ops.indexing import getitem
from ..tensor import inplace
from ..tensor.tensor import Tensor
from .batched_tensor import (
    BatchedTensor,
    BatchLevel,
    active_levels,
    aligned,
    draws,
    flat,
    levels_of,
    real_of,
    sizes_of,
    unflat,
    wrapped,
)

Levels = tuple[BatchLevel, ...]
Arguments = dict[str, Any]
Rule = Callable[[Op[..., Any], Arguments, Levels], Any]

RULES: dict[str, Rule] = {}
"""Rules by op; each is given the op, its arguments by name and the levels."""

DRAWS = frozenset(
    (
        "exponential_like",
        "integers_like",
        "normal_like",
        "random_bits_like",
        "uniform_like",
    )
)


def batched_call(op: Op[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return the result of an op on batched tensors; see `batching.batched_call`."""
    bound = dict(arguments)
    if op.name in DRAWS and not _drawing.inside:
        return _draw(op, bound)
    levels = levels_of([bound[name] for name in op.tensors])
    if not levels:
        return NotImplemented
    if op.is_elementwise and not hasattr(op, "compute"):
        return _elementwise(op, bound, levels)
    if hasattr(op, "compute"):
        # A source, which takes only the device of its tensor.
        return op(**{**bound, "like": real_of(bound["like"]).detach()})
    return RULES.get(op.name, _one_by_one)(op, bound, levels)


def _draw(op: Op[..., Any], bound: Arguments) -> Any:
    """Draw as the levels want it: not at all, the same for all, or for each."""
    levels = active_levels()
    like = bound["like"]
    refused = draws.top.value == "error"
    if refused or any(level.randomness == "error" for level in levels):
        raise GradError(
            f"{'jacfwd' if refused else 'vmap'}: {op.name.removesuffix('_like')} draws"
            " random numbers; pass"
            ' randomness="different" for draws of each element, or "same"'
        )
    apart = tuple([level for level in levels if level.randomness == "different"])
    if not apart and not isinstance(like, BatchedTensor):
        return NotImplemented
    shape = (*sizes_of(apart), *bound["shape"])
    given = {**bound, "like": real_of(like), "shape": shape}
    _drawing.inside = True
    try:
        return wrapped(op(**given), apart)
    finally:
        _drawing.inside = False


class _Drawing(threading.local):
    inside = False


_drawing = _Drawing()


def _elementwise(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    tensors = {n: bound[n] for n in op.tensors if isinstance(bound[n], Tensor)}
    ndim = max(each.ndim for each in tensors.values())
    reals = {name: aligned(each, levels, ndim) for name, each in tensors.items()}
    if not isinstance(op.result, str):  # type: ignore[attr-defined]  # Elementwise
        # Tensors without dimensions count less in promotion, but not with a batch.
        promoted: Any = op._result_dtypes  # type: ignore[attr-defined]
        wanted, _ = promoted(bound, tensors)
        if promoted({**bound, **reals}, reals)[0] is not wanted:
            for name, each in reals.items():
                if each.dtype is not bool_:
                    reals[name] = each.to(wanted)
    return wrapped(op(**{**bound, **reals}), levels)


def _one_by_one(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    """Run an op for each element of the batch, and stack the results."""
    reals = {
        name: flat(bound[name], levels)
        for name in op.tensors
        if isinstance(bound[name], BatchedTensor)
    }
    count = next(iter(reals.values())).shape[0]
    answers = [
        op(**{**bound, **{name: each[at] for name, each in reals.items()}})
        for at in range(count)
    ]
    if not answers:
        raise ShapeError(f"vmap: {op.name} has no batching rule for an empty batch")
    if isinstance(answers[0], tuple):
        return tuple([unflat(ops.stack(each), levels) for each in zip(*answers)])
    return unflat(ops.stack(answers), levels)


def _answer(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    """Return the batched results of a call on real tensors with all batch dims."""
    answer = op(**bound)
    if isinstance(answer, tuple):
        return tuple([wrapped(each, levels) for each in answer])
    return wrapped(answer, levels)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the batching rule of ops."""

    def declare(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


# Ops on one tensor


@rule("lazy_copy", "move", "std")
def _of_elements(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    return _answer(op, {**bound, "x": real_of(bound["x"])}, levels)


@rule("softmax", "cumsum", "cumprod", "sort", "transposed_copy")
@rule("layer_norm", "logcumsumexp", "rank", "running_extreme")
def _of_rows(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    """Take the batch into the rows' own, of an op along the last dimension."""
    if any(isinstance(bound.get(name), BatchedTensor) for name in ("weight", "bias")):
        return _one_by_one(op, bound, levels)
    x = flat(bound["x"], levels)
    rows = x if x.ndim == 2 else x.reshape((-1, *x.shape[2:]))
    answer = op(**{**bound, "x": rows})
    outputs = answer if isinstance(answer, tuple) else (answer,)
    made = []
    for each in outputs:
        own = each if x.ndim == 2 else each.reshape((*x.shape[:2], *each.shape[1:]))
        made.append(unflat(own, levels))
    return tuple(made) if isinstance(answer, tuple) else made[0]


@rule("composed_softmax", "split_softmax")
def _along_dim(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    dim = bound["dim"] % bound["x"].ndim + len(levels)
    return _answer(op, {**bound, "x": real_of(bound["x"]), "dim": dim}, levels)


@rule(
    "sum",
    "mapped_sum",
    "number_sum",
    "factor_prod",
    "prod",
    "amax",
    "amin",
    "minmax",
    "argmax",
    "argmin",
    "max",
    "min",
)
@rule("logsumexp", "var", "norm")
def _reduction(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    dims = tuple([dim % bound["x"].ndim + len(levels) for dim in bound["dims"]])
    return _answer(op, {**bound, "x": real_of(bound["x"]), "dims": dims}, levels)


@rule("view", "expand")
def _reshaped(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    x, shape = bound["x"], tuple(bound["shape"])
    real = aligned(x, levels, len(shape)) if op.name == "expand" else real_of(x)
    return _answer(op, {"x": real, "shape": (*sizes_of(levels), *shape)}, levels)


@rule("permute")
def _permuted(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    first = len(levels)
    dims = (*range(first), *[dim + first for dim in bound["dims"]])
    return _answer(op, {"x": real_of(bound["x"]), "dims": dims}, levels)


@rule("component_view")
def _component(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    return _answer(op, {**bound, "x": real_of(bound["x"])}, levels)


@rule("slice")
def _sliced(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    first, sizes = len(levels), sizes_of(levels)
    places = {
        "starts": (*[0] * first, *bound["starts"]),
        "steps": (*[1] * first, *bound["steps"]),
        "sizes": (*sizes, *bound["sizes"]),
    }
    return _answer(op, {"x": real_of(bound["x"]), **places}, levels)


@rule("unfold")
def _unfolded(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    dim = bound["dim"] + len(levels)
    return _answer(op, {**bound, "x": real_of(bound["x"]), "dim": dim}, levels)


@rule("diagonal")
def _diagonal(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    real, first = real_of(bound["x"]), len(levels)
    turned = ops.movedim(real, tuple(range(first)), tuple(range(2, 2 + first)))
    return _answer(op, {**bound, "x": turned}, levels)


@rule("median")
def _median(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    x = flat(bound["x"], levels)
    if x.ndim == 1:
        return unflat(x, levels)
    return unflat(op(x=ops.movedim(x, 0, 1)), levels)


@rule("as_strided")
def _as_strided(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    x = flat(bound["x"], levels).clone().contiguous()
    layout = _of_each(bound["layout"], x.shape[0], bound["x"].numel())
    return unflat(op(x=x, layout=layout), levels)


@rule("strided_scatter")
def _strided_scatter(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    base, source = flat(bound["base"], levels), flat(bound["source"], levels)
    layout = _of_each(bound["layout"], base.shape[0], bound["base"].numel())
    given = {"base": base.contiguous(), "source": source, "layout": layout}
    return unflat(op(**given), levels)


def _of_each(layout: Layout, count: int, numel: int) -> Layout:
    """Return the layout in each of `count` runs of `numel` elements."""
    shape, strides, offset = layout
    return Layout((count, *shape), (numel, *strides), offset)


@rule("remap")
def _remap(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    x = flat(bound["x"], levels)
    kept = type(bound["maps"][0])(x.shape[0], 0)
    return unflat(op(**{**bound, "x": x, "maps": (kept, *bound["maps"])}), levels)


@rule("cross_product")
def _cross_product(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    a, b = (flat(bound[name], levels) for name in ("a", "b"))
    joined = (each.reshape((-1, *each.shape[2:])) for each in (a, b))
    return unflat(op(*joined).reshape(a.shape), levels)


@rule("flipped_transpose")
def _flipped_transpose(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    dims = [dim + 1 for dim in bound["dims"]]
    return unflat(ops.flip(flat(bound["x"], levels), dims), levels)


@rule("concat", "concat_strided")
def _concat(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    parts = [bound[name] for name in op.tensors if bound[name] is not None]
    return unflat(
        ops.cat([flat(each, levels) for each in parts], bound["dim"] + 1), levels
    )


@rule("nonzero", "counted_elements", "counted_runs", "counted_coordinates")
def _nonzero(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    raise GradError(
        "vmap: how many elements are true may differ along the batch, so their places"
        " have no shape; choose with where() instead"
    )


# Products


@rule("bmm", "int_mm")
def _bmm(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    pairs = [flat(bound[name], levels) for name in ("a", "b")]
    sizes = pairs[0].shape[:2]
    a, b = [each.reshape((-1, *each.shape[2:])) for each in pairs]
    out = op(**{**bound, "a": a, "b": b})
    return unflat(out.reshape((*sizes, *out.shape[1:])), levels)


@rule("linear")
def _linear(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    x, weight = bound["x"], bound["weight"]
    if not isinstance(weight, BatchedTensor):
        given = {"x": real_of(x), "weight": weight, "bias": None}
        return _answer(op, given, levels)
    rows = x.reshape((-1, x.shape[-1]))
    out = ops.matmul(rows, weight.transpose(0, 1))
    return out.reshape((*x.shape[:-1], weight.shape[0]))


@rule("conv2d")
def _conv2d(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    """Take the batch into the images' own; with filters of each, into the groups."""
    x, weight, bias, how = (bound[name] for name in ("x", "weight", "bias", "how"))
    if not isinstance(weight, BatchedTensor) and not isinstance(bias, BatchedTensor):
        return _images(op, bound, levels)
    images, filters = flat(x, levels), flat(weight, levels)
    count, batch, channels, *size = images.shape
    images = images.transpose(0, 1).reshape((batch, count * channels, *size))
    bound = {
        "x": images,
        "weight": filters.reshape((-1, *filters.shape[2:])),
        "bias": None if bias is None else flat(bias, levels).reshape((-1,)),
        "how": how._replace(groups=how.groups * count),
    }
    out = op(**bound)
    out = out.reshape((batch, count, -1, *out.shape[2:])).transpose(0, 1)
    return unflat(out, levels)


@rule(
    "max_pool2d",
    "max_pool3d",
    "adaptive_max_pool2d",
    "im2col",
    "col2im",
    "resample",
    "resample2d",
    "resample3d",
    "nearest",
)
def _images(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    """Take the batch into the images' own."""
    if isinstance(bound.get("table"), BatchedTensor):
        return _one_by_one(op, bound, levels)
    x = flat(bound["x"], levels)
    answer = op(**{**bound, "x": x.reshape((-1, *x.shape[2:]))})
    outputs = answer if isinstance(answer, tuple) else (answer,)
    made = [
        unflat(each.reshape((*x.shape[:2], *each.shape[1:])), levels)
        for each in outputs
    ]
    return tuple(made) if isinstance(answer, tuple) else made[0]


@rule(
    "softmax_grad",
    "max_pool2d_input_vjp",
    "fractional_max_pool",
    "multilabel_margin_parts",
    "multilabel_margin_counts",
)
def _merged(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    """Take the batch into the first dimension of all tensors."""
    given = {name: flat(bound[name], levels) for name in op.tensors}
    sizes = next(iter(given.values())).shape[:2]
    merged = {n: each.reshape((-1, *each.shape[2:])) for n, each in given.items()}
    answer = op(**{**bound, **merged})
    outputs = answer if isinstance(answer, tuple) else (answer,)
    made = [unflat(each.reshape((*sizes, *each.shape[1:])), levels) for each in outputs]
    return tuple(made) if isinstance(answer, tuple) else made[0]


@rule("conv2d_input_vjp")
def _conv2d_input_vjp(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    bias = bound["bias"]
    if isinstance(bias, BatchedTensor):
        ones = (1,) * (len(bound["grad_out"].shape) - 2)
        return op(**{**bound, "bias": None}) + bias.reshape((-1, *ones))
    if isinstance(bound["weight"], BatchedTensor):
        return _one_by_one(op, bound, levels)
    grad = flat(bound["grad_out"], levels)
    out = op(**{**bound, "grad_out": grad.reshape((-1, *grad.shape[2:]))})
    return unflat(out.reshape((*grad.shape[:2], *out.shape[1:])), levels)


@rule("flash_attention")
def _attention(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    if bound["mask"] is not None or bound["seed"] is not None:
        return _one_by_one(op, bound, levels)
    given = {name: flat(bound[name], levels) for name in ("q", "k", "v")}
    sizes = given["q"].shape[:2]
    merged = {n: each.reshape((-1, *each.shape[2:])) for n, each in given.items()}
    return tuple(
        [
            unflat(each.reshape((*sizes, *each.shape[1:])), levels)
            for each in op(**{**bound, **merged})
        ]
    )


# Indexing: rows of (outer, rows, inner), one index for all or one per element


@rule("take")
def _take(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    return _outer(op, bound, levels, ("x",), bound["x"].shape)


@rule(
    "put",
    "add_rows",
    "add_gathered",
    "scatter_atomic",
    "column_reduce",
    "scatter_minmax",
    "scatter_product",
    "scatter_sum",
)
def _put(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    return _outer(op, bound, levels, ("base", "source"), bound["source"].shape)


@rule("store_rows")
def _store_rows(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    base, index, source = (bound[name] for name in ("base", "index", "source"))
    if source.numel() > 1:
        return _put(op, bound, levels)
    if not isinstance(source, BatchedTensor):
        return _outer(op, bound, levels, ("base",), base.shape)
    each = (base.shape[0], index.shape[0], base.shape[2])
    wide = source.expand(each if index.ndim == 1 else index.shape)
    return _put(op, {**bound, "source": wide}, levels)


@rule("segment_sum")
def _segment_sum(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    return _outer(op, bound, levels, ("source",), bound["source"].shape)


def _outer(
    op: Op[..., Any],
    bound: Arguments,
    levels: Levels,
    names: tuple[str, ...],
    shape: tuple[int, ...],
) -> Any:
    """Take the batch into the outer dimension; an index of its own is per element."""
    index = bound["index"]
    given = {name: flat(bound[name], levels) for name in names}
    count, outer, *_ = next(iter(given.values())).shape
    merged = {n: each.reshape((-1, *each.shape[2:])) for n, each in given.items()}
    if index.ndim == 3:
        places = flat(index, levels)
        index = places.reshape((-1, *places.shape[2:]))
    elif isinstance(index, BatchedTensor):
        places = flat(index, levels)
        wide = places.reshape((count, 1, places.shape[1], 1))
        wide = wide.expand((count, outer, places.shape[1], shape[2]))
        index = wide.reshape((count * outer, places.shape[1], shape[2]))
    out = op(**{**bound, **merged, "index": index})
    return unflat(out.reshape((count, outer, *out.shape[1:])), levels)


@rule("embedding")
def _embedding(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    weight, places = bound["weight"], bound["places"]
    if isinstance(weight, BatchedTensor):
        return _one_by_one(op, bound, levels)
    numbers = flat(places, levels)
    out = op(**{**bound, "places": numbers.reshape((-1,))})
    return unflat(out.reshape((*numbers.shape, *out.shape[1:])), levels)


# Composites that are the same when their ops are batched one by one


@rule("dropout", "batch_norm_train", "group_norm", "empty_result")
@rule("composed_layer_norm", "split_layer_norm", "batch_norm_tracked")
def _by_ops(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    assert isinstance(op, Composite)
    return op.function(**bound)


@rule("cross_entropy_rows")
def _cross_entropy_rows(op: Op[..., Any], bound: Arguments, levels: Levels) -> Any:
    logits, labels = flat(bound["logits"], levels), flat(bound["labels"], levels)
    sizes = logits.shape[:2]
    given = {"logits": logits.reshape((-1, logits.shape[2]))}
    given["labels"] = labels.reshape((-1,))
    return tuple(
        [unflat(each.reshape(sizes), levels) for each in op(**{**bound, **given})]
    )


# Changes in place


def _assign(x: Any, source: Any) -> Any:
    """Replace the elements of a batched tensor, in the storage of the real one."""
    if isinstance(source, Tensor):
        missing = set(levels_of([source])) - set(levels_of([x]))
        if missing:
            raise GradError(
                f"vmap: a tensor of shape {x.shape} without a batch is changed in place"
                " by one with a batch; write x = f(x, y), or make x by y.new_zeros"
            )
        source = aligned(source, levels_of([x]), x.ndim)
    inplace.assign(real_of(x), source)
    return x


def _change(
    x: Any, op: Callable[..., Any], operands: tuple[Any, ...], options: Arguments
) -> Any:
    new = op(x.alias(), *operands, **options)
    if not can_cast(new.dtype, x.dtype):
        raise DTypeError(
            f"in place: the result is {new.dtype.name}, which {x.dtype.name} does not"
            " hold; write x = f(x), or cast the tensor first"
        )
    return _assign(x, new)


def _set_item(x: Any, index: object, value: Any) -> None:
    chosen = getitem.region(index, x.shape)
    view = getitem.slice_of(x, chosen)
    if not chosen.arrays and not chosen.flips:
        _assign(view, value)
        return
    if not isinstance(value, Tensor):
        value = ops.fill_like(real_of(x).detach(), (), value, x.dtype)
    _assign(view, getitem.updated(view.alias(), chosen, value.to(x.dtype)))


IN_PLACE = batching.InPlaceRules(
    lambda *tensors: bool(levels_of(tensors)), _assign, _change, _set_item
)
"""How batched tensors are changed in place."""
