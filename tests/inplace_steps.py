"""Generators of random in-place programs: a function per family of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from tests.inplace_program import Given, InPlaceProgram, Maker, fits_into, memory
from tests.program import Places

NUMBERS = (0, 1, 2, -1, 3)

DTYPES = ("float32", "float32", "float16", "int8", "int32", "int64", "bool")
SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 1), (1, 3), (3, 3), (2, 1, 3), (2, 2, 3))
VIEWS = (
    "permute", "transpose", "movedim", "narrow", "select", "unbind", "split",
    "chunk", "unfold", "expand", "diagonal", "T",
)  # fmt: skip

MOVES = (
    "flip", "roll", "repeat", "tile", "repeat_interleave", "pad", "rot90", "diff",
    "diag", "tril", "triu", "diag_embed", "clone", "index_select", "take_places",
)  # fmt: skip

CHANGES = (
    "add_", "sub_", "mul_", "__iadd__", "fill_", "zero_", "neg_", "abs_", "relu_",
    "clamp_", "square_",
)  # fmt: skip


def index_of(m: Maker, shape: Sequence[int]) -> tuple[Any, ...]:
    """Return an index of ints, slices, None and Ellipsis."""
    parts: list[Any] = []
    for size in shape[: m.number(0, len(shape))]:
        kind = m.one(("slice", "int", "all", "step"))
        if kind == "int" and size:
            parts.append(m.number(-size, size - 1))
        elif kind in ("slice", "step"):
            start = m.number(0, size)
            step = None if kind == "slice" else 2
            parts.append(slice(start, m.number(start, size), step))
        else:
            parts.append(slice(None))
    extra = m.one((None, None, Ellipsis, "new"))
    if extra is Ellipsis:
        parts.append(...)
    elif extra == "new":
        parts.insert(m.number(0, len(parts)), None)
    return tuple(parts)


def places_of(m: Maker, size: int, count: int | None = None) -> Places:
    """Return different places along a dimension."""
    order = m.draw(st.permutations(range(size)))
    return Places(order[: m.number(0, size) if count is None else count])


def dim_of(m: Maker, x: torch.Tensor) -> int:
    """Return a dimension, counted from either end."""
    return m.number(-x.ndim, x.ndim - 1)


def view(m: Maker) -> None:
    ref = m.any()
    assert ref is not None
    x = m[ref]
    kind = m.one(
        ("getitem", "getitem", "reshape", "view", "flat", "unsqueeze", "plain")
    )
    if kind == "getitem":
        m.add("getitem", ref, index_of(m, x.shape))
    elif kind in ("reshape", "view"):
        sizes = m.one([(-1,), (*x.shape, 1), tuple(reversed(x.shape)), (1, -1)])
        m.add(kind, ref, tuple(sizes))
    elif kind == "flat":
        m.add(m.one(("flatten", "ravel", "squeeze")), ref)
    elif kind == "unsqueeze":
        m.add("unsqueeze", ref, m.number(0, x.ndim))
    else:
        m.add(m.one(("detach", "contiguous", "same_dtype", "dropout", "einsum")), ref)


def view_of_dims(m: Maker) -> None:
    ref = m.any(lambda x: x.ndim > 0)
    if ref is None:
        return
    x = m[ref]
    dim = dim_of(m, x)
    size = x.shape[dim]
    kind = m.one(VIEWS)
    if kind == "permute":
        m.add(kind, ref, tuple(m.draw(st.permutations(range(x.ndim)))))
    elif kind in ("transpose", "movedim"):
        m.add(kind, ref, dim, dim_of(m, x))
    elif kind == "narrow":
        start = m.number(0, size)
        m.add(kind, ref, dim, start, m.number(0, size - start))
    elif kind == "select" and size:
        m.add(kind, ref, dim, m.number(-size, size - 1))
    elif kind == "unbind" and size:
        m.add("one_of", ref, kind, m.number(0, size - 1), dim)
    elif kind == "split" and size:
        m.add("one_of", ref, kind, 0, m.number(1, size), dim)
    elif kind == "chunk" and size:
        m.add("one_of", ref, kind, -1, m.number(1, 3), dim)
    elif kind == "unfold" and size:
        m.add(kind, ref, dim, m.number(1, size), m.one((1, 2)))
    elif kind == "expand":
        grown = (3 if each == 1 else each for each in x.shape)
        m.add(kind, ref, (*m.one(((), (2,))), *grown))
    elif kind == "diagonal" and x.ndim > 1:
        m.add(kind, ref, m.one((0, 0, 1, -1)))
    elif kind == "T" and x.ndim == 2:
        m.add(m.one(("T", "mT")), ref)


def rearranged(m: Maker) -> None:
    ref = m.any(lambda x: x.ndim > 0)
    if ref is None:
        return
    x = m[ref]
    dim = dim_of(m, x)
    kind = m.one(MOVES)
    if kind == "flip":
        m.add(kind, ref, m.one(((), (dim,))))
    elif kind == "roll":
        m.add(kind, ref, m.number(-3, 3), m.one((None, dim)))
    elif kind in ("repeat", "tile"):
        times = tuple(m.one((1, 1, 2)) for _ in range(x.ndim + m.number(0, 1)))
        m.add(kind, ref, times)
    elif kind == "repeat_interleave":
        m.add(kind, ref, m.one((1, 2)), m.one((None, dim)))
    elif kind == "pad":
        m.add(kind, ref, m.one(((0, 0), (1, 0), (0, -1))))
    elif kind == "rot90" and x.ndim > 1:
        m.add(kind, ref, m.number(-4, 4))
    elif kind == "diff":
        m.add(kind, ref, m.one((0, 1)), dim)
    elif kind == "diag" and x.ndim < 3:
        m.add(kind, ref, m.one((0, 1)))
    elif kind in ("tril", "triu") and x.ndim > 1:
        m.add(kind, ref, m.one((0, 1, 5, -5)))
    elif kind == "index_select":
        m.add(kind, ref, dim, places_of(m, x.shape[dim]))
    elif kind == "take_places":
        m.add("getitem", ref, (places_of(m, x.shape[0]),))
    elif kind in ("diag_embed", "clone"):
        m.add(kind, ref)


def computed(m: Maker) -> None:
    ref = m.any(lambda x: x.dtype is not torch.bool)
    if ref is None:
        return
    kind = m.one(("neg", "abs", "relu", "nan_to_num", "mul", "add", "sub", "clamp"))
    if kind in ("mul", "add", "sub"):
        m.add(kind, ref, m.one(NUMBERS))
    elif kind == "clamp":
        m.add(kind, ref, -2, 2)
    else:
        m.add(kind, ref)


def combined(m: Maker) -> None:
    ref = m.any(lambda x: x.dtype is not torch.bool)
    if ref is None:
        return
    x = m[ref]
    # Products keep both operands for the gradient.
    other = m.any(lambda y: y.dtype is x.dtype)
    assert other is not None
    taped = x.requires_grad or m[other].requires_grad
    m.add(m.one(("add", "sub") if taped else ("add", "mul", "maximum")), ref, other)


def reduced(m: Maker) -> None:
    ref = m.any(lambda x: x.numel() > 0)
    assert ref is not None or not m.refs(lambda x: x.numel() > 0)
    if ref is None:
        return
    x = m[ref]
    kinds = ["sum", "amax", "cumsum", "all"] if x.ndim else ["sum", "amax", "all"]
    kind = m.one(kinds)
    if kind == "all" or x.dtype is torch.bool:
        m.add("all" if not x.requires_grad else "sum", ref)
    elif kind == "cumsum":
        m.add(kind, ref, dim_of(m, x))
    elif x.ndim and m.draw(st.booleans()):
        m.add(kind, ref, dim_of(m, x), keepdim=m.draw(st.booleans()))
    else:
        m.add(kind, ref)


def ordered(m: Maker) -> None:
    ref = m.any(lambda x: x.dtype is not torch.bool and not x.requires_grad)
    if ref is None:
        return
    x = m[ref]
    kind = m.one(("sort", "topk", "max", "kthvalue"))
    dim = dim_of(m, x) if x.ndim else 0
    if kind == "topk":
        m.add("one_of", ref, kind, 0, 1, dim)
    elif kind == "kthvalue":
        m.add("one_of", ref, kind, 0, 1, dim)
    else:
        m.add("one_of", ref, kind, 0, dim)


def masked(m: Maker) -> None:
    ref = m.any(lambda x: x.dtype is not torch.bool and not x.requires_grad)
    if ref is None:
        return
    m.add(m.one(("gt", "le", "ne")), ref, m.one(NUMBERS))


def by_mask(m: Maker) -> None:
    mask = m.any(lambda x: x.dtype is torch.bool)
    if mask is None:
        return
    shape = m[mask].shape
    x = m.any(lambda x: x.shape == shape and not x.requires_grad)
    if x is None:
        return
    kind = m.one(("where", "masked_fill", "masked_select", "chosen"))
    if kind == "where":
        dtype = m[x].dtype
        m.add(kind, mask, x, m.any(lambda y: y.dtype is dtype and not y.requires_grad))
    elif kind == "masked_fill":
        m.add(kind, x, mask, m.one((0, 1)))
    elif kind == "masked_select" or shape:
        m.add(kind, x, mask)


def joined(m: Maker) -> None:
    ref = m.any(lambda x: x.ndim > 0)
    if ref is None:
        return
    x = m[ref]
    same = m.refs(lambda y: y.shape == x.shape and y.dtype is x.dtype)
    parts = m.draw(st.lists(st.sampled_from(same), min_size=0, max_size=2))
    m.add(m.one(("cat", "stack")), (ref, *parts), dim_of(m, x))


def changed(m: Maker) -> None:
    ref = m.target()
    if ref is None:
        return
    x = m[ref]
    if x.dtype is torch.bool:
        m.add(m.one(("logical_not_", "zero_", "bitwise_not_")), ref)
        return
    kind = m.one(CHANGES)
    if kind in ("add_", "sub_", "mul_", "__iadd__", "fill_"):
        m.add(kind, ref, m.one(NUMBERS))
    elif kind == "clamp_":
        m.add(kind, ref, -2, 2)
    else:
        m.add(kind, ref)


def changed_by_other(m: Maker) -> None:
    ref = m.target()
    if ref is None:
        return
    other = m.source(ref)
    if other is None:
        return
    if m[ref].dtype is torch.bool:
        m.add(m.one(("copy_", "logical_or_", "__iand__")), ref, other)
    else:
        m.add(m.one(("copy_", "copy_", "add_", "__imul__", "sub_")), ref, other)


def copied_across(m: Maker) -> None:
    ref = m.target()
    if ref is None:
        return
    x = m[ref]
    other = m.any(
        lambda y: (
            not y.requires_grad
            and fits_into(tuple(y.shape), tuple(x.shape))
            and memory(y) != memory(x)
        )
    )
    if other is not None:
        m.add("copy_", ref, other)


def assigned(m: Maker) -> None:
    ref = m.target()
    if ref is None:
        return
    x = m[ref]
    index = index_of(m, x.shape)
    number: Any = m.one((True, False) if x.dtype is torch.bool else NUMBERS)
    if m.draw(st.booleans()):
        part = tuple(x[index].shape)
        other = m.any(
            lambda y: (
                y.dtype is x.dtype
                and not y.requires_grad
                and fits_into(tuple(y.shape), part)
                and memory(y) != memory(x)
            )
        )
        number = number if other is None else other
    add = x.dtype is not torch.bool and m.draw(st.booleans())
    m.add("additem" if add else "setitem", ref, index, number)


def assigned_by_mask(m: Maker) -> None:
    # A mask without dimensions is refused.
    mask = m.any(lambda x: x.dtype is torch.bool and x.ndim > 0)
    if mask is None:
        return
    shape = m[mask].shape
    ref = m.target(
        lambda x: x.shape[: len(shape)] == shape and memory(x) != memory(m[mask])
    )
    if ref is None:
        return
    number: Any = m.one((True, False) if m[ref].dtype is torch.bool else NUMBERS)
    if m.draw(st.booleans()):
        m.add("setitem", ref, (mask,), number)
    elif m[ref].shape == shape:
        m.add("masked_fill_", ref, mask, number)


def assigned_by_places(m: Maker) -> None:
    ref = m.target(lambda x: x.ndim > 0 and x.dtype is not torch.bool)
    if ref is None:
        return
    x = m[ref]
    dim = dim_of(m, x)
    places = places_of(m, x.shape[dim])
    kind = m.one(("setitem", "index_fill_", "index_add_", "index_copy_", "index_put_"))
    if kind == "index_fill_":
        m.add(kind, ref, dim, places, m.one(NUMBERS))
        return
    front = kind in ("setitem", "index_put_")
    dim, places = (0, places_of(m, x.shape[0])) if front else (dim, places)
    at = dim % x.ndim
    wanted = (*x.shape[:at], len(places), *x.shape[at + 1 :])
    other = m.any(
        lambda y: (
            y.dtype is x.dtype
            and not y.requires_grad
            and tuple(y.shape) == wanted
            and memory(y) != memory(x)
        )
    )
    if other is None:
        if front:
            m.add("setitem", ref, (places,), m.one(NUMBERS))
    elif kind == "setitem":
        m.add(kind, ref, (places,), other)
    elif kind == "index_put_":
        m.add(kind, ref, (places,), other, m.draw(st.booleans()))
    else:
        m.add(kind, ref, dim, places, other)


def let_go(m: Maker) -> None:
    found = m.refs(lambda x: True)
    if len(found) > 2:
        m.add("drop", m.one(found))


def read(m: Maker) -> None:
    m.add("read", m.any())


FAMILIES = (
    view, view, view, view_of_dims, view_of_dims, rearranged, rearranged, rearranged,
    computed, combined, reduced, ordered, masked, by_mask, joined, changed, changed,
    changed, changed_by_other, changed_by_other, copied_across, assigned, assigned,
    assigned_by_mask, assigned_by_places, let_go, read,
)  # fmt: skip


@st.composite
def inplace_programs(
    draw: Callable[[Any], Any], most_steps: int = 24
) -> InPlaceProgram:
    """Return random programs of up to so many draws of a family."""
    seed = draw(st.integers(0, 1 << 16))
    inputs = []
    for _ in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(DTYPES))
        use = draw(st.sampled_from(("state", "state", "fed", "grad")))
        grad = use == "grad" and dtype == "float32"
        shape = draw(st.sampled_from(SHAPES))
        inputs.append(Given(shape, dtype, use == "fed", grad))
    m = Maker(draw, seed, tuple(inputs))
    for _ in range(draw(st.integers(most_steps // 3, most_steps))):
        draw(st.sampled_from(FAMILIES))(m)
    return InPlaceProgram(seed, tuple(inputs), tuple(m.steps))
