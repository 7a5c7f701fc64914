"""Calls of functions with other arguments than their first ones, by name and label.

`calls` and `layer_calls` have one call of a function in a shape class. Another
dimension, mode or operand can be another kernel, so that the sweep has these, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .forms import Call, Given, Make, ShapeClass, call, first, mask, whole
from .layer_calls import LAYERS

Further = Mapping[str, Any] | Make
"""Keywords beside the first call's arguments, or what makes all arguments."""

_PLAIN = ("contiguous", "rows", "columns", "odd", "batched")


def _data(*arguments: Any, **keywords: Any) -> Make:
    """Return the entry of a function of one tensor, in the classes without layouts."""
    return lambda form: (
        call(Given(form.shape), *arguments, **keywords) if form.name in _PLAIN else None
    )


def _matrix(*arguments: Any, **keywords: Any) -> Make:
    """Return the entry of a function of one matrix."""
    made = _data(*arguments, **keywords)
    return lambda form: made(form) if len(form.shape) == 2 else None


def _batch(*arguments: Any, **keywords: Any) -> Make:
    """Return the entry of a function of one batch of images."""
    made = _data(*arguments, **keywords)
    return lambda form: made(form) if form.name == "batched" else None


def _layer(name: str, *arguments: Any, **keywords: Any) -> Make:
    """Return the entry of a layer with other arguments after its first tensor."""

    def make(form: ShapeClass) -> Call | None:
        found = LAYERS[name](form)
        if found is None or form.name == "tiny":
            return None
        return call(found.args[0], *arguments, **keywords)

    return make


def _several(*arguments: Any, **keywords: Any) -> Make:
    """Return the entry of a function of a sequence of tensors."""
    return lambda form: (
        call(
            [Given(form.shape, seed=seed) for seed in range(3)], *arguments, **keywords
        )
        if form.name in _PLAIN
        else None
    )


def _ranked(*arguments: Any, kind: str = "distinct") -> Make:
    """Return the entry of a function of a matrix that takes one of equal elements."""
    return lambda form: (
        call(Given(form.shape, kind=kind), *arguments)
        if form.name in _PLAIN and len(form.shape) == 2
        else None
    )


def _largest_of_bags(form: ShapeClass) -> Call | None:
    """Return indices of bags of four, and a table, for `embedding_bag`."""
    if form.name not in ("contiguous", "rows", "odd"):
        return None
    count = form.shape[0]
    table = Given(form.shape, kind="distinct columns")
    return call(whole(count, 4, below=count), table, mode="max")


def _indexed(
    dim: int,
    *after: Any,
    source: bool = False,
    whole_shape: bool,
    kind: str = "uniform",
) -> Make:
    """Return the entry of a function of a tensor, a dimension and indices into it."""

    def make(form: ShapeClass) -> Call | None:
        if form.name not in _PLAIN or len(form.shape) != 2:
            return None
        size = form.shape[dim]
        indices = whole(*(form.shape if whole_shape else (size,)), below=size)
        indices = replace(indices, kind=kind)
        sources = [Given(form.shape, seed=1)] if source else []
        return call(Given(form.shape), dim, indices, *sources, *after)

    return make


def _conv(
    channels: int,
    size: int,
    kernel: int,
    outputs: int = 0,
    groups: int = 1,
    batch: int = 32,
    **keywords: Any,
) -> Make:
    """Return the entry of a convolution of square images."""

    def make(form: ShapeClass) -> Call | None:
        if form.name != "contiguous":
            return None
        least = max(9, kernel)
        images = form.pick((batch, channels, size, size), (2, channels, least, least))
        weight = (outputs or channels, channels // groups, kernel, kernel)
        return call(
            Given(images),
            Given(weight, -0.1, 0.1, seed=1),
            Given(weight[:1], seed=2),
            groups=groups,
            **keywords,
        )

    return make


def _lines(channels: int, length: int, kernel: int, groups: int = 1) -> Make:
    """Return the entry of a convolution of sequences."""

    def make(form: ShapeClass) -> Call | None:
        if form.name != "contiguous":
            return None
        shape = form.pick((16, channels, length), (2, channels, 33))
        weight = Given((channels, channels // groups, kernel), -0.1, 0.1, seed=1)
        return call(Given(shape), weight, padding=kernel // 2, groups=groups)

    return make


def _attention(masked: bool = False, shared: bool = False, **keywords: Any) -> Make:
    """Return the entry of attention with a mask, or with shared keys and values."""

    def make(form: ShapeClass) -> Call | None:
        found = LAYERS["scaled_dot_product_attention"](form)
        if found is None or form.name == "tiny":
            return None
        query, key, value = found.args
        batch, heads, queries, _ = query.shape
        if masked:
            return call(query, key, value, mask(batch, 1, queries, key.shape[2]))
        if not shared:
            return call(query, key, value, **keywords)
        if heads % 4 or form.name == "batched":
            return None
        few = [
            replace(each, shape=(batch, heads // 4, *each.shape[2:]))
            for each in (key, value)
        ]
        return call(query, *few, enable_gqa=True, **keywords)

    return make


def _equation(text: str, *shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Make:
    """Return the entry of an equation; shapes are (full, small)."""
    return lambda form: (
        call(text, *(Given(form.pick(*each), seed=s) for s, each in enumerate(shapes)))
        if form.name == "contiguous"
        else None
    )


def _labelled(**keywords: Any) -> Make:
    """Return the entry of a loss over logits and labels with other arguments."""

    def make(form: ShapeClass) -> Call | None:
        found = LAYERS["cross_entropy"](form)
        return None if found is None else call(*found.args, **keywords)

    return make


def _weighted(form: ShapeClass) -> Call | None:
    found = LAYERS["cross_entropy"](form)
    if found is None:
        return None
    return call(*found.args, Given(form.shape[-1:], 0.5, 1.5, seed=2))


def _soft(form: ShapeClass) -> Call | None:
    found = LAYERS["cross_entropy"](form)
    if found is None:
        return None
    return call(found.args[0], Given(form.shape, 0.0, 1.0, seed=1))


def _pixels(form: ShapeClass) -> Call | None:
    """Return logits of images and the label of each pixel."""
    if form.name not in ("contiguous", "odd"):
        return None
    batch, classes, *sizes = {
        "contiguous": form.pick((16, 21, 256, 256), (2, 5, 16, 16)),
        "odd": form.pick((3, 150, 129, 131), (1, 7, 9, 11)),
    }[form.name]
    labels = whole(batch, *sizes, below=classes)
    return call(Given((batch, classes, *sizes)), labels)


def _of_features(form: ShapeClass) -> Call | None:
    """Return the arguments of a batch norm of rows."""
    if form.name not in ("contiguous", "rows", "odd"):
        return None
    width = form.shape[-1:]
    vectors = [Given(width, 0.5, 1.5, seed=seed) for seed in (1, 2)]
    return call(Given(form.shape), None, None, *vectors, training=True)


def _evaluated(form: ShapeClass) -> Call | None:
    """Return the arguments of a batch norm by running statistics."""
    found = LAYERS["batch_norm"](form)
    if found is None:
        return None
    channels = found.args[0].shape[1:2]
    known = [Given(channels, 0.5, 1.5, "float32", seed=seed) for seed in (3, 4)]
    vectors = [Given(channels, 0.5, 1.5, seed=seed) for seed in (1, 2)]
    return call(found.args[0], *known, *vectors)


def _bounds(form: ShapeClass) -> Call | None:
    if form.name not in _PLAIN:
        return None
    return call(
        Given(form.shape), Given(form.shape, -0.9, 0, seed=1), Given(form.shape, 0, 1)
    )


def _bags(form: ShapeClass) -> Call | None:
    """Return indices of bags of four, the table, and where bags begin."""
    if form.name not in ("contiguous", "rows", "odd"):
        return None
    count = form.shape[0]
    starts = Given((count,), 0, 4 * count - 4, "int64", kind="starts")
    return call(whole(4 * count, below=count), Given(form.shape), starts, mode="sum")


def _numbered(form: ShapeClass) -> Call | None:
    """Return the arguments of an assignment by indices of both dimensions."""
    if len(form.shape) != 2 or form.name not in _PLAIN:
        return None
    rows, columns = form.shape
    count = max(form.count // 4, 1)
    places = (whole(count, below=rows), whole(count, below=columns, seed=1))
    return call(Given(form.shape), places, Given((count,), seed=2), accumulate=True)


_EVERY_OTHER = {"stride": 2, "padding": 1}

FURTHER: Mapping[str, Mapping[str, Further]] = {
    **{
        name: {
            "dim=0": _data(dim=0),
            "dim=-1": _data(dim=-1),
            "dim=(0,2)": _batch((0, 2)),
        }
        for name in "sum mean amax var std nansum all any".split()
    },
    **{
        name: {"dim=0": _data(dim=0), "dim=-1": _data(dim=-1)}
        for name in "argmax argmin max min aminmax prod count_nonzero diff".split()
    },
    "logsumexp": {"dim=0": _data(0)},
    "norm": {"p=1, dim=0": _data(1, 0), "p=inf, dim=-1": _data(float("inf"), -1)},
    "linalg.vector_norm": {"dim=0": _data(2, 0), "ord=3, dim=-1": _data(3, -1)},
    "linalg.norm": {"dim=-1": _data(dim=-1)},
    **{
        name: {"dim=0": _data(0)}
        for name in "softmax log_softmax cumsum cumprod cummax logcumsumexp".split()
    },
    "normalize": {"dim=0": _data(dim=0)},
    "sort": {
        "dim=0": _data(dim=0),
        "descending, stable": _data(descending=True, stable=True),
    },
    "argsort": {"dim=0": _data(dim=0)},
    "topk": {
        "dim=0": _ranked(4, 0, kind="distinct columns"),
        "smallest": _ranked(4, -1, False),
        "k=14": _ranked(14),
    },
    "median": {"dim=0": _data(0), "of all": _data()},
    "kthvalue": {"dim=0": _ranked(3, 0, kind="distinct columns")},
    "quantile": {"dim=0": _matrix(0.3, 0)},
    "flip": {"dim=(0,)": _data((0,)), "two": _data((0, 1))},
    "roll": {"dim=0": _data(3, 0), "two": _data((5, 7), (0, 1)), "flat": _data(3)},
    "cat": {"dim=1": _several(1)},
    "stack": {"dim=1": _several(1), "dim=-1": _several(-1)},
    "tril": {"diagonal": _matrix(2)},
    "index_select": {"dim=0": _indexed(0, whole_shape=False)},
    "gather": {"dim=0": _indexed(0, whole_shape=True)},
    "scatter_add": {"dim=0": _indexed(0, source=True, whole_shape=True)},
    "index_add": {"dim=0": _indexed(0, source=True, whole_shape=False)},
    "index_copy": {
        "dim=0": _indexed(0, source=True, whole_shape=False, kind="permutation")
    },
    "scatter_reduce": {
        each: _indexed(0, each, source=True, whole_shape=True)
        for each in ("sum", "mean")
    },
    "index_put": {"accumulate": _numbered},
    "clamp": {"of tensors": _bounds},
    "where": {"a number": lambda f: call(mask(*f.shape), first(f), 0.5)},
    "div": {"floor": {"rounding_mode": "floor"}},
    "lerp": {"a number": lambda f: call(first(f), Given(f.shape, seed=1), 0.3)},
    "gelu": {"tanh": {"approximate": "tanh"}},
    "cdist": {"p=1": {"p": 1.0}},
    "unique": {"counts": {"return_inverse": True, "return_counts": True}},
    "bucketize": {"right": {"right": True}},
    "pad": {
        "reflect": _batch((3, 3, 3, 3), "reflect"),
        "replicate": _batch((3, 3, 3, 3), "replicate"),
        "circular": _batch((3, 3, 3, 3), "circular"),
        "images": _batch((1, 1, 1, 1)),
    },
    "interpolate": {
        "bilinear": _layer("interpolate", scale_factor=2, mode="bilinear"),
        "bilinear, half": _layer("interpolate", scale_factor=0.5, mode="bilinear"),
        "bicubic": _layer("interpolate", scale_factor=2, mode="bicubic"),
        "area, half": _layer("interpolate", scale_factor=0.5, mode="area"),
        "antialias": _layer(
            "interpolate", scale_factor=0.5, mode="bilinear", antialias=True
        ),
        "nearest, half": _layer("interpolate", scale_factor=0.5),
    },
    "grid_sample": {
        "nearest": {"mode": "nearest"},
        "bicubic": {"mode": "bicubic"},
        "border": {"padding_mode": "border"},
        "reflection": {"padding_mode": "reflection"},
    },
    "max_pool2d": {
        "3, 2, 1": _layer("max_pool2d", 3, 2, 1),
        "5, 1, 2": _layer("max_pool2d", 5, 1, 2),
        "dilation": _layer("max_pool2d", 3, 2, 1, 2),
    },
    "avg_pool2d": {
        "3, 2, 1": _layer("avg_pool2d", 3, 2, 1, count_include_pad=False),
        "3, 1, 1": _layer("avg_pool2d", 3, 1, 1),
    },
    "adaptive_avg_pool2d": {"1": _layer("adaptive_avg_pool2d", 1)},
    "conv2d": {
        "1x1": _conv(256, 56, 1, 64),
        "3x3, stride 2": _conv(128, 56, 3, 256, **_EVERY_OTHER),
        "3x3, dilation 2": _conv(128, 28, 3, padding=2, dilation=2),
        "5x5": _conv(64, 56, 5, padding=2),
        "7x7, stride 2": _conv(3, 224, 7, 64, stride=2, padding=3),
        "7x7, depthwise": _conv(128, 56, 7, groups=128, padding=3),
        "3x3, depthwise, stride 2": _conv(128, 112, 3, groups=128, **_EVERY_OTHER),
        "3x3, 512 channels": _conv(512, 14, 3, padding=1),
        "one image": _conv(64, 224, 3, batch=1, padding=1),
        "16x16, stride 16": _conv(3, 224, 16, 384, stride=16),
    },
    "conv_transpose2d": {
        "2x2, stride 2": _conv(128, 56, 2, stride=2),
        "4x4, stride 2": _conv(64, 56, 4, **_EVERY_OTHER),
    },
    "conv1d": {
        "depthwise, 4": _lines(1024, 2048, 4, 1024),
        "9": _lines(256, 4096, 9),
        "1": _lines(512, 4096, 1),
    },
    "embedding_bag": {"offsets": _bags, "max": _largest_of_bags},
    "cross_entropy": {
        "smoothing": _labelled(label_smoothing=0.1),
        "rows": _labelled(reduction="none"),
        "weights": _weighted,
        "probabilities": _soft,
        "images": _pixels,
    },
    "mse_loss": {"sum": {"reduction": "sum"}, "none": {"reduction": "none"}},
    "batch_norm": {"of rows": _of_features, "evaluated": _evaluated},
    "scaled_dot_product_attention": {
        "causal": _attention(is_causal=True),
        "masked": _attention(masked=True),
        "grouped": _attention(shared=True),
        "grouped, causal": _attention(shared=True, is_causal=True),
    },
    "einsum": {
        "bhqd,bhkd->bhqk": _equation(
            "bhqd,bhkd->bhqk",
            ((8, 16, 512, 64), (1, 2, 16, 8)),
            ((8, 16, 512, 64), (1, 2, 16, 8)),
        ),
        "bnd,hde->bhne": _equation(
            "bnd,hde->bhne", ((16, 512, 512), (2, 8, 16)), ((8, 512, 64), (2, 16, 8))
        ),
        "bij->bi": _equation("bij->bi", ((64, 512, 512), (2, 8, 8))),
        "i,j->ij": _equation("i,j->ij", ((4096,), (64,)), ((4096,), (64,))),
        "bn,anm,bm->ba": _equation(
            "bn,anm,bm->ba",
            ((1024, 128), (8, 9)),
            ((128, 128, 128), (5, 9, 7)),
            ((1024, 128), (8, 7)),
        ),
    },
}
