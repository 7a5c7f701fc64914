"""Shape rules against NumPy: the offsets that a layout visits are the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import (
    Layout,
    Size,
    TensorSpec,
    broadcast_shapes,
    ceil_div,
    collapse,
    contiguous_strides,
    normalize_dim,
    normalize_dims,
)

Shape = tuple[int, ...]
SHAPES = st.lists(st.integers(0, 5), max_size=5).map(tuple)
FILLED = st.lists(st.integers(1, 5), max_size=5).map(tuple)


def offsets(layout: Layout) -> np.ndarray:
    """Return the offset of each element, in the layout's shape."""
    found = np.full(layout.shape, layout.offset)
    for dim, stride in enumerate(layout.strides):
        steps = np.arange(layout.shape[dim]) * stride
        found += steps.reshape(-1, *(1,) * (len(layout.shape) - dim - 1))
    return found


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw a view of contiguous storage: permuted, sliced and expanded."""
    shape = draw(FILLED)
    storage = Layout.contiguous(shape)
    order = draw(st.permutations(range(len(shape))))
    shape, strides, _ = storage.permute(order)
    steps = [draw(st.integers(1, 3)) for _ in shape]
    sizes = tuple(ceil_div(size, step) for size, step in zip(shape, steps))
    strides = tuple(stride * step for stride, step in zip(strides, steps))
    kept = tuple(draw(st.sampled_from([size, 1])) for size in sizes)
    view = Layout(kept, strides, draw(st.integers(0, 7)))
    wider = tuple(draw(st.integers(1, 3)) if size == 1 else size for size in kept)
    return view.expand((*draw(st.sampled_from([(), (2,)])), *wider))


@given(SHAPES)
def test_contiguous_layout(shape: Shape) -> None:
    layout = Layout.contiguous(shape)
    assert layout.is_contiguous
    numel = int(np.prod(shape, dtype=int))
    assert layout.numel == TensorSpec(shape, float32).numel == numel
    assert TensorSpec(shape, float32).ndim == len(shape)
    if numel:
        strides = np.empty(shape, np.int8).strides
        assert contiguous_strides(shape) == strides
        assert np.array_equal(offsets(layout).ravel(), np.arange(numel))


@given(layouts())
def test_is_contiguous(layout: Layout) -> None:
    visited = offsets(layout).ravel() - layout.offset
    assert layout.is_contiguous == np.array_equal(visited, np.arange(layout.numel))


@given(layouts())
def test_collapse_visits_the_same_elements(layout: Layout) -> None:
    other = Layout.contiguous(layout.shape)
    merged = collapse(layout.shape, [layout.strides, other.strides])
    assert 1 not in merged.shape or merged.shape == (1,)
    for strides, wanted in zip(merged.strides, (layout, other)):
        found = offsets(Layout(merged.shape, strides, wanted.offset))
        assert np.array_equal(found.ravel(), offsets(wanted).ravel())


def test_collapse_merges_what_it_can() -> None:
    assert collapse((2, 3, 4), [(12, 4, 1)]).shape == (24,)
    assert collapse((2, 3, 4), [(12, 4, 1), (0, 4, 1)]).shape == (2, 12)
    assert collapse((2, 1, 4), [(8, 99, 2)]) == ((8,), ((2,),))
    assert collapse((), [()]) == ((1,), ((0,),))


@given(layouts(), st.data())
def test_reshape_keeps_the_order(layout: Layout, data: st.DataObject) -> None:
    sizes: list[int] = []
    rest = layout.numel
    while rest > 1:
        divisors = [k for k in range(1, rest + 1) if rest % k == 0]
        sizes.append(data.draw(st.sampled_from(divisors)))
        rest //= sizes[-1]
        if len(sizes) > 6:
            break
    shape = (*sizes, rest)
    view = layout.reshape(shape)
    if view is not None:
        assert view.shape == shape
        assert np.array_equal(offsets(view).ravel(), offsets(layout).ravel())
    else:
        assert not layout.is_contiguous


@given(layouts())
def test_reshape_undoes_itself_without_a_copy(layout: Layout) -> None:
    split = tuple(size for each in layout.shape for size in (1, each))
    view = layout.reshape(split)
    assert view is not None
    back = view.reshape(layout.shape)
    assert back is not None
    assert np.array_equal(offsets(back), offsets(layout))


def test_reshape_of_nothing() -> None:
    view = Layout((0, 3), (7, 2), 5).reshape((2, 0, 4))
    assert view is not None
    assert view.shape == (2, 0, 4)


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcast_is_as_in_numpy(shapes: list[Shape]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="op: shapes do not broadcast: "):
            broadcast_shapes("op", *shapes)
    else:
        assert broadcast_shapes("op", *shapes) == expected


def test_dims() -> None:
    assert normalize_dim("op", -1, 3) == 2
    assert normalize_dims("op", None, 3) == (0, 1, 2)
    assert normalize_dims("op", -3, 3) == (0,)
    assert normalize_dims("op", np.int64(1), 3) == (1,)  # type: ignore[arg-type]
    assert normalize_dims("op", (2, -3), 3) == (0, 2)
    assert normalize_dims("op", [], 3) == ()
    with pytest.raises(ShapeError) as raised:
        normalize_dim("op", 3, 3)
    assert str(raised.value) == (
        "op: there is no dimension 3: the tensor has 3; dim must be from -3 to 2"
    )
    with pytest.raises(TypeError) as wrong:
        normalize_dims("op", 1.0, 3)  # type: ignore[arg-type]
    assert str(wrong.value) == (
        "op: dim is 1.0; it must be an int or a sequence of ints"
    )
    with pytest.raises(ShapeError, match=r"op: a dimension is named twice: \(1, -2\)"):
        normalize_dims("op", (1, -2), 3)


@given(st.integers(0, 1000), st.integers(1, 50))
def test_ceil_div(value: int, divisor: int) -> None:
    assert ceil_div(value, divisor) == int(np.ceil(value / divisor))


def test_layouts_have_plain_shapes() -> None:
    Layout.contiguous.cache_clear()
    assert type(Layout.contiguous(Size((11, 13, 17))).shape) is tuple
