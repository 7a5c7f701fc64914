"""Named cases: calls in sizes that programs have, of the kinds that are slow first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import vkbackend.framework as fw

from .forms import Call, Given, ShapeClass, call, mask, whole
from .plan import BOTH, FORWARD, SweepCase
from .units import SweptFunction

_MI = 1 << 20


class Named(NamedTuple):
    """A named case: what is called, with what, in which dtypes and directions."""

    function: str | Callable[..., Any]
    arguments: Call
    dtypes: str = "float32"
    directions: tuple[str, ...] = (FORWARD,)


def graph_step(module: Any, x: Any, weight: Any, origin: Any, target: Any) -> Any:
    """Return the next features of a graph's nodes: sums of messages along edges."""
    messages = module.index_select(x, 0, origin) @ weight
    received = module.index_add(module.zeros_like(x), 0, target, messages)
    return module.relu(received + x)


def joined(module: Any, *parts: Any) -> Any:
    """Return tensors joined along the last dimension."""
    return module.cat(parts, -1)


def _product(m: int, k: int, n: int, batch: int = 0) -> Call:
    outer = (batch,) if batch else ()
    return call(Given((*outer, m, k)), Given((*outer, k, n), seed=1))


def _linear(rows: int, inner: int, outer: int) -> Call:
    return call(Given((rows, inner)), Given((outer, inner), seed=1))


def _attention(
    batch: int, heads: int, queries: int, keys: int, width: int, **keywords: Any
) -> Call:
    others = [Given((batch, heads, keys, width), seed=seed) for seed in (1, 2)]
    return call(Given((batch, heads, queries, width)), *others, **keywords)


def _conv(images: tuple[int, ...], weight: tuple[int, ...], **keywords: Any) -> Call:
    return call(Given(images), Given(weight, seed=1), **keywords)


def full() -> Iterator[tuple[str, Named]]:
    """Yield the named cases for a GPU."""
    both = (FORWARD, BOTH)
    halves = "float16 float32"
    yield from _counting(4 * _MI, _MI)
    yield from _sorting(16 * _MI, (4096, 1024), (64, 50257, 50), (8192, 128, 8))
    yield from _scans(16 * _MI)
    yield from _indexed(16 * _MI, (50_000, 64, 500_000))
    for m, k, n in (
        (64, _MI, 64),
        (16, 4096, 4096),
        (1, 4096, 4096),
        (64, 4096, 4096),
        (_MI, 16, 16),
        (4096, 4096, 64),
    ):
        yield f"{m}x{k}x{n}", Named("matmul", _product(m, k, n), halves)
    yield "16 rows 4096", Named("linear", _linear(16, 4096, 4096), halves)
    yield "96x1024x64x1024", Named("bmm", _product(1024, 64, 1024, 96), halves)
    yield (
        "one query",
        Named("scaled_dot_product_attention", _attention(4, 32, 1, 4096, 128), halves),
    )
    causal = {"is_causal": True}
    for title, sizes, keywords in (
        ("4x16x4096x128", (4, 16, 4096, 4096, 128), {}),
        ("4x16x4096x128 causal", (4, 16, 4096, 4096, 128), causal),
        ("8x12x1024x64", (8, 12, 1024, 1024, 64), {}),
        ("4x16x1024x80", (4, 16, 1024, 1024, 80), {}),
        (
            "4x16x1024x64 mask",
            (4, 16, 1024, 1024, 64),
            {"attn_mask": Given((4, 1, 1024, 1024), dtype="float16", seed=3)},
        ),
    ):
        yield (
            title,
            Named(
                "scaled_dot_product_attention",
                _attention(*sizes, **keywords),
                "float16" if "mask" in title else halves,
                both,
            ),
        )
    yield from _convolutions(halves, both)
    yield from _copies(16 * _MI)
    yield from _few(halves, both)


def small() -> Iterator[tuple[str, Named]]:
    """Yield the named cases for a software device."""
    yield from _counting(1 << 18, 1 << 16)
    yield from _sorting(1 << 17, (256, 512), (8, 5003, 50), (512, 128, 8))
    yield from _scans(1 << 18)
    yield from _indexed(1 << 17, (2000, 32, 20_000))
    for m, k, n in ((16, 1 << 15, 16), (4, 512, 512), (1 << 15, 16, 16)):
        yield f"{m}x{k}x{n}", Named("matmul", _product(m, k, n))
    yield (
        "one query",
        Named("scaled_dot_product_attention", _attention(1, 4, 1, 512, 64)),
    )
    yield (
        "16 channels 28",
        Named("conv2d", _conv((2, 16, 28, 28), (16, 16, 3, 3), padding=1)),
    )
    yield from _copies(1 << 18)


def _counting(count: int, fewer: int) -> Iterator[tuple[str, Named]]:
    size = _title(count)
    yield size, Named("histc", call(Given((count,)), 100, -1, 1))
    few = whole(count, below=1000)
    yield size, Named("bincount", call(few), "int64")
    values = Given((fewer,), 0, fewer, "int64")
    yield _title(fewer), Named("unique", call(values), "int64")
    yield size, Named("nonzero", call(mask(count)), "bool")
    yield size, Named("masked_select", call(Given((count,)), mask(count)))


def _sorting(
    count: int,
    rows: tuple[int, int],
    most: tuple[int, int, int],
    top: tuple[int, int, int],
) -> Iterator[tuple[str, Named]]:
    for each in (count, count >> 4):
        yield _title(each), Named("argsort", call(Given((each,))))
        yield _title(each), Named("sort", call(Given((each,))), "float32 int64")
    yield "x".join(map(str, rows)), Named("argsort", call(Given(rows)))
    yield "x".join(map(str, rows)), Named("sort", call(Given(rows)))
    for *shape, k in (most, top):
        title = f"{k} of {shape[0]}x{shape[1]}"
        yield title, Named("topk", call(Given(tuple(shape)), k, -1))
    edges = Given((max(64, count >> 8),), kind="sorted")
    yield (
        f"{_title(count >> 2)} in {_title(edges.shape[0])}",
        Named("searchsorted", call(edges, Given((count >> 2,), seed=1))),
    )


def _scans(count: int) -> Iterator[tuple[str, Named]]:
    side = 1 << (count.bit_length() // 2)
    yield _title(count), Named("cumsum", call(Given((count,)), 0))
    for title, dim in (("rows", 1), ("columns", 0)):
        yield title, Named("cumsum", call(Given((side, count // side)), dim))


def _indexed(count: int, graph: tuple[int, int, int]) -> Iterator[tuple[str, Named]]:
    places = whole(count, below=count)
    yield (
        _title(count),
        Named("scatter_add", call(Given((count,)), 0, places, Given((count,), seed=1))),
    )
    nodes, width, edges = graph
    ends = [whole(edges, below=nodes, seed=seed) for seed in (3, 4)]
    features, messages = Given((nodes, width)), Given((edges, width), seed=1)
    title = f"{edges} of {nodes}x{width}"
    yield title, Named("index_add", call(features, 0, ends[0], messages))
    yield title, Named("index_select", call(features, 0, ends[0]))
    yield (
        title,
        Named(
            graph_step,
            call(features, Given((width, width), seed=2), *ends),
            directions=(FORWARD, BOTH),
        ),
    )


def _few(halves: str, both: tuple[str, ...]) -> Iterator[tuple[str, Named]]:
    """Yield cases of one sample or few, which leave most of a GPU idle."""
    for channels, side in ((64, 56), (256, 14), (512, 7)):
        images, weight = (1, channels, side, side), (channels, channels, 3, 3)
        case = Named("conv2d", _conv(images, weight, padding=1), halves, both)
        yield f"one image of {channels} channels {side}", case
    yield (
        "one image of 2048 channels 7",
        Named("conv2d", _conv((1, 2048, 7, 7), (512, 2048, 1, 1)), halves),
    )
    for m, k, n in ((16, 1024, 1024), (32, 768, 3072), (32, 3072, 768)):
        yield f"{m}x{k}x{n}", Named("matmul", _product(m, k, n), halves)
    yield "4x16x4096x1024", Named("bmm", _product(16, 4096, 1024, 4), halves)
    entries, places = 1 << 14, 1 << 10
    index = whole(entries, below=places)
    given = call(Given((places,)), 0, index, Given((entries,), seed=1))
    yield f"{_title(entries)} in {_title(places)}", Named("scatter_add", given)
    yield "64x65536", Named("sort", call(Given((64, 1 << 16))))
    yield _title(1 << 15), Named("cumsum", call(Given((1 << 15,)), 0))
    yield "1024x1024", Named("argmax", call(Given((1 << 10, 1 << 10)), 1))


def _convolutions(halves: str, both: tuple[str, ...]) -> Iterator[tuple[str, Named]]:
    for title, name, arguments in (
        (
            "64 channels 56",
            "conv2d",
            _conv((64, 64, 56, 56), (64, 64, 3, 3), padding=1),
        ),
        (
            "320 channels 64",
            "conv2d",
            _conv((4, 320, 64, 64), (320, 320, 3, 3), padding=1),
        ),
        (
            "1x1 256 channels 14",
            "conv2d",
            _conv((64, 256, 14, 14), (1024, 256, 1, 1)),
        ),
        (
            "stem 7x7",
            "conv2d",
            _conv((64, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2),
        ),
        (
            "depthwise",
            "conv2d",
            _conv((32, 256, 56, 56), (256, 1, 3, 3), padding=1, groups=256),
        ),
        (
            "32 groups",
            "conv2d",
            _conv((32, 256, 56, 56), (256, 8, 3, 3), padding=1, groups=32),
        ),
        ("256 channels", "conv1d", _conv((16, 256, 4096), (256, 256, 5), padding=2)),
        (
            "128 channels 32",
            "conv_transpose2d",
            _conv((16, 128, 32, 32), (128, 64, 4, 4), stride=2, padding=1),
        ),
    ):
        yield title, Named(name, arguments, halves, both)


def _copies(count: int) -> Iterator[tuple[str, Named]]:
    side = 1 << (count.bit_length() // 2)
    grid = (side, count // side)
    yield "rows of 64", Named("softmax", call(Given((count // 64, 64)), -1))
    yield "last", Named("flip", call(Given(grid), (-1,)))
    halves = [Given((grid[0], grid[1] // 2), seed=seed) for seed in range(2)]
    yield "two halves", Named(joined, call(*halves))
    yield "rows by 3", Named("roll", call(Given(grid), 3, -1))
    images = Given((max(1, count >> 18), 64, 32, 32))
    yield (
        "64 channels 32",
        Named("interpolate", call(images, scale_factor=2, mode="nearest")),
    )
    labels = whole(count >> 7, below=128)
    yield _title(count >> 7), Named("one_hot", call(labels, 128), "int64")
    base, exponent = Given((count,), 0.1, 2), Given((count,), 0.5, 3, seed=1)
    yield _title(count), Named("pow", call(base, exponent))


def _title(count: int) -> str:
    if count >= _MI:
        return f"{count // _MI}Mi"
    return f"{count // 1024}Ki" if count >= 1024 else str(count)


def cases(units: Mapping[str, SweptFunction], size: str) -> list[SweepCase]:
    """Return the named cases of a size, "full" or "small"."""
    found = []
    for title, named in full() if size == "full" else small():
        unit = _unit(units, named.function)
        form = ShapeClass(f"[{title}]", (), size == "full")
        for dtype in named.dtypes.split():
            for direction in named.directions:
                found.append(SweepCase(unit, form, named.arguments, dtype, direction))
    return found


def _unit(
    units: Mapping[str, SweptFunction], function: str | Callable[..., Any]
) -> SweptFunction:
    if isinstance(function, str):
        return units[function]
    return SweptFunction(function.__name__, partial(function, fw), function, None)
