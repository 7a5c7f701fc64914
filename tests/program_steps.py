"""Generators of random programs: one function per family of operations.

Each takes a `Builder`, draws a step that fits the values there are, and adds it. What a
step gives is known at once, because the builder runs it; results that are too large, or
not finite, are left out, so that programs stay where float32 is at home.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from tests.program import Input, Places, Program, Ref, Step, call, torch_function

SHAPES = (
    (), (1,), (3,), (8,), (37,), (2, 3), (3, 1), (4, 4), (1, 5), (7, 8), (5, 3, 2),
    (2, 1, 4), (3, 4, 8), (2, 3, 5, 4), (3, 3, 2, 2), (2, 3, 2), (1, 2, 1, 3, 2),
)  # fmt: skip
MOST_ELEMENTS = 700
MOST_DIMS = 6
LARGEST = 300.0
NUMBERS = (0.5, -1.5, 2.0, 3, -1)

UNARY = (
    "neg", "abs", "square", "exp", "expm1", "sin", "cos", "tanh", "sigmoid", "atan",
    "asinh", "erf", "relu", "gelu", "silu", "softplus", "elu", "leaky_relu", "mish",
    "hardtanh", "hardswish", "softsign", "log_sigmoid", "floor", "round", "sign",
    "sqrt", "rsqrt", "reciprocal", "log1p", "half_and_back", "frac", "trunc",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot")
COMPARED = ("gt", "ge", "lt", "le", "ne", "eq")
REDUCED = ("sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm")
ALONG = ("softmax", "log_softmax", "cumsum", "cumprod")


class Builder:
    """A program in the making, and what its values are in PyTorch."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.values: list[torch.Tensor] = []
        self.steps: list[Step] = []

    def one(self, choices: Sequence[Any]) -> Any:
        """Return one of some choices."""
        return self.draw(st.sampled_from(list(choices)))

    def shape(self, ref: Ref) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(self.values[ref.number].shape)

    def floats(self, least_dims: int = 0) -> list[Ref]:
        """Return the float values of so many dimensions, newest first."""
        return [
            Ref(number)
            for number, value in reversed(list(enumerate(self.values)))
            if value.is_floating_point() and value.ndim >= least_dims
        ]

    def float(self, least_dims: int = 0) -> Ref:
        """Return a float value; one with a new dimension if there is none such."""
        found = self.floats(least_dims)
        while not found:
            self.add("unsqueeze", self.floats()[0], 0)
            found = self.floats(least_dims)
        ref: Ref = self.one(found)
        return ref

    def dim(self, ref: Ref) -> int:
        """Return a dimension of a value."""
        ndim = self.values[ref.number].ndim
        chosen: int = self.draw(st.integers(-ndim, ndim - 1))
        return chosen

    def partner(self, ref: Ref) -> Ref:
        """Return a value that broadcasts with another one; perhaps itself."""
        fitting = []
        for other in self.floats():
            try:
                shape = torch.broadcast_shapes(self.shape(ref), self.shape(other))
            except RuntimeError:
                continue
            if math.prod(shape) <= MOST_ELEMENTS:
                fitting.append(other)
        chosen: Ref = self.one(fitting)
        return chosen

    def add(self, name: str, *arguments: Any, **keywords: Any) -> Ref:
        """Add a step, or one of the newest value where its result is out of bounds."""
        step = Step(name, arguments, keywords)
        out = self._result(step)
        if not _fits(out):
            step = Step("tanh", (self.floats()[0],))
            out = self._result(step)
        self.steps.append(step)
        self.values.append(out)
        return Ref(len(self.values) - 1)

    def _result(self, step: Step) -> torch.Tensor:
        function = torch_function(step.name)
        result = call(step, function, self.values, torch.tensor)
        assert isinstance(result, torch.Tensor)
        return result


def _fits(value: torch.Tensor) -> bool:
    if not 0 < value.numel() <= MOST_ELEMENTS or value.ndim > MOST_DIMS:
        return False
    if not value.is_floating_point():
        return True
    return bool(torch.isfinite(value).all() and value.abs().max() < LARGEST)


def unary(b: Builder) -> None:
    b.add(b.one(UNARY), b.float())


def with_numbers(b: Builder) -> None:
    x, number = b.float(), b.one(NUMBERS)
    name = b.one(("add", "sub", "mul", "div", "clamp", "pow", "remainder", "lerp"))
    if name == "clamp":
        b.add(name, x, -0.75, 1.0)
    elif name == "pow":
        b.add(name, x, b.one((2, 3, 1.0, 0.5)))
    elif name == "lerp":
        b.add(name, x, b.partner(x), 0.25)
    else:
        b.add(name, x, number)


def binary(b: Builder) -> None:
    x = b.float()
    pair = [x, b.partner(x)]
    if b.draw(st.booleans()):
        pair.reverse()
    b.add(b.one(BINARY), *pair)


def choice(b: Builder) -> None:
    x = b.float()
    other = b.one((b.partner(x), 0.25))
    mask = b.add(b.one(COMPARED), x, other)
    if b.draw(st.booleans()):
        b.add("where", mask, x, b.partner(mask))
    else:
        b.add("masked_fill", x, mask, -0.5)


def reduction(b: Builder) -> None:
    x = b.float(1)
    ndim = len(b.shape(x))
    dims = tuple(
        b.draw(st.lists(st.integers(0, ndim - 1), min_size=1, max_size=3, unique=True))
    )
    name, keepdim = b.one(REDUCED), b.draw(st.booleans())
    keywords = {"correction": 0} if name in ("var", "std") else {}
    b.add(name, x, dim=dims, keepdim=keepdim, **keywords)


def product_or_place(b: Builder) -> None:
    x = b.float(1)
    dim = b.dim(x)
    if b.draw(st.booleans()):
        b.add("prod", x, dim, keepdim=b.draw(st.booleans()))
        return
    at = b.add(b.one(("argmax", "argmin")), x, dim, keepdim=True)
    b.add("take_along_dim", x, at, dim)


def along(b: Builder) -> None:
    x = b.float(1)
    b.add(b.one(ALONG), x, b.dim(x))


def ordered(b: Builder) -> None:
    x = b.float(1)
    dim = b.dim(x)
    if b.draw(st.booleans()):
        b.add("sorted", x, dim, b.draw(st.booleans()))
    else:
        b.add("largest", x, b.draw(st.integers(1, b.shape(x)[dim])), dim)


def rearranged(b: Builder) -> None:
    x = b.float(1)
    shape = b.shape(x)
    dim = b.dim(x)
    name = b.one(("permute", "transpose", "flip", "roll", "movedim", "unsqueeze"))
    if name == "permute":
        b.add(name, x, tuple(b.draw(st.permutations(range(len(shape))))))
    elif name in ("transpose", "movedim"):
        b.add(name, x, dim, b.dim(x))
    elif name == "flip":
        b.add(name, x, (dim,))
    elif name == "roll":
        b.add(name, x, b.draw(st.integers(-3, 9)), dim)
    else:
        b.add(name, x, dim)


def reshaped(b: Builder) -> None:
    x = b.float()
    shape = b.shape(x)
    shapes = [(-1,), (*shape, 1), tuple(reversed(shape))]
    for dim, size in enumerate(shape):
        front, back = shape[:dim], shape[dim + 1 :]
        shapes += [
            (*front, step, size // step, *back) for step in (2, 3, 4) if not size % step
        ]
        if back:
            shapes.append((*front, size * back[0], *back[1:]))
    b.add("reshape", x, b.one(shapes))


def grown(b: Builder) -> None:
    x = b.float(1)
    shape, dim = b.shape(x), b.dim(x)
    name = b.one(("expand", "repeat", "repeat_interleave", "pad"))
    if name == "expand":
        sizes = (2, *(3 if size == 1 else size for size in shape))
        b.add(name, x, sizes)
    elif name == "repeat":
        b.add(name, x, tuple(b.one((1, 2)) for _ in shape))
    elif name == "repeat_interleave":
        b.add(name, x, 2, dim)
    else:
        b.add(name, x, (b.one((0, 1, -1)), b.one((0, 2))))


def joined(b: Builder) -> None:
    x = b.float(1)
    same = [other for other in b.floats() if b.shape(other) == b.shape(x)]
    parts = tuple(b.draw(st.lists(st.sampled_from(same), min_size=1, max_size=3)))
    b.add(b.one(("cat", "stack")), (x, *parts), b.dim(x))


def index_of(b: Builder, shape: Sequence[int], arrays: bool) -> tuple[Any, ...]:
    """Return an index that means the same in NumPy and in PyTorch.

    An int beside an array is not: NumPy takes it as another array.
    """
    parts: list[Any] = []
    single = "array" if arrays else "int"
    for size in shape:
        kind = b.one(("all", "slice", "slice", single))
        if kind == "int":
            parts.append(b.draw(st.integers(-size, size - 1)))
        elif kind == "array" and arrays:
            place = st.integers(-size, size - 1)
            parts.append(b.draw(st.lists(place, min_size=1, max_size=4)))
            arrays = False
        elif kind == "slice":
            start = b.draw(st.integers(0, size - 1))
            stop = b.draw(st.integers(start + 1, size))
            parts.append(slice(start, stop, b.one((None, 2, 3))))
        else:
            parts.append(slice(None))
    if b.draw(st.booleans()):
        parts.insert(b.draw(st.integers(0, len(parts))), None)
    return tuple(parts)


def indexed(b: Builder) -> None:
    x = b.float(1)
    b.add("getitem", x, index_of(b, b.shape(x), arrays=b.draw(st.booleans())))


def in_place(b: Builder) -> None:
    x = b.float(1)
    value = b.add("mean", b.float(), dim=None)
    index = tuple(i for i in index_of(b, b.shape(x), arrays=False) if i is not None)
    b.add("written", x, index, value)


def by_places(b: Builder) -> None:
    x = b.float(1)
    dim = b.dim(x)
    size = b.shape(x)[dim]
    drawn = b.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    name = b.one(("index_select", "index_add"))
    taken = b.add("index_select", x, dim, Places(drawn))
    if name == "index_add":
        b.add(name, x, dim, Places(drawn), taken)


def cut(b: Builder) -> None:
    x = b.float(2)
    name = b.one(("tril", "triu", "diagonal", "narrow", "unfold"))
    dim = b.dim(x)
    size = b.shape(x)[dim]
    if name == "narrow":
        start = b.draw(st.integers(0, size - 1))
        b.add(name, x, dim, start, b.draw(st.integers(1, size - start)))
    elif name == "unfold":
        b.add(name, x, dim, b.draw(st.integers(1, size)), b.one((1, 2)))
    else:
        b.add(name, x, b.one((0, 1, -1)))


def product(b: Builder) -> None:
    x = b.float(2)
    *batch, _, k = b.shape(x)
    fitting = []
    for other in b.floats(1):
        *front, inner = b.shape(other)[:-1] or b.shape(other)
        if inner == k and (not front or front == batch):
            fitting.append(other)
    if fitting and b.draw(st.booleans()):
        b.add("matmul", x, b.one(fitting))
    else:
        b.add("matmul", x, b.add("transpose", x, -1, -2))


def windowed(b: Builder) -> None:
    name = b.one(("avg_pool2d", "max_pool2d", "conv2d"))
    images = [x for x in b.floats(3) if len(b.shape(x)) < 5]
    if name != "conv2d" and images:
        x = b.one(images)
        height, width = b.shape(x)[-2:]
        b.add(name, x, (min(2, height), min(2, width)), 1)
        return
    fitting = [
        (image, kernel)
        for image in b.floats(4)
        for kernel in b.floats(4)
        if len(b.shape(image)) == len(b.shape(kernel)) == 4
        and b.shape(image)[1] == b.shape(kernel)[1]
        and b.shape(image)[2] + 2 >= b.shape(kernel)[2]
        and b.shape(image)[3] + 2 >= b.shape(kernel)[3]
    ]
    if fitting:
        b.add(name, *b.one(fitting), padding=1, stride=b.one((1, 2)))
    else:
        unary(b)


def normalised(b: Builder) -> None:
    x = b.float(1)
    shape = b.shape(x)
    channels = [c for c in b.floats(1) if b.shape(c) == shape[1:2]]
    names = ["layer_norm", "rms_norm", "normalize"]
    if len(shape) > 2 and math.prod(shape[2:]) > 1:
        names += ["group_norm", "instance_norm", "batch_norm"]
    name = b.one(names)
    if name == "normalize":
        b.add(name, x, b.one((1.0, 2.0)), b.dim(x))
    elif name in ("layer_norm", "rms_norm"):
        inner = shape[b.draw(st.integers(0, len(shape) - 1)) :]
        scales = [None, *(w for w in b.floats(1) if b.shape(w) == inner)]
        # The default of rms_norm depends on the dtype.
        b.add(name, x, inner, b.one(scales), eps=1e-5)
    elif name == "group_norm":
        groups = [g for g in range(1, shape[1] + 1) if shape[1] % g == 0]
        b.add(name, x, b.one(groups), b.one([None, *channels]))
    else:
        scale = b.one([None, *channels])
        training = {"training": True} if name == "batch_norm" else {}
        b.add(name, x, None, None, scale, b.one([None, *channels]), **training)


def attended(b: Builder) -> None:
    # Its own intermediate results have no noise, so they must not be large.
    query = b.add("tanh", b.float(2))
    *batch, _, size = b.shape(query)
    others = [
        x
        for x in b.floats(2)
        if b.shape(x)[:-2] == tuple(batch) and b.shape(x)[-1] == size
    ]
    key = b.one(others)
    values = [x for x in b.floats(2) if b.shape(x)[:-1] == b.shape(key)[:-1]]
    causal = {"is_causal": b.draw(st.booleans())}
    arguments = (query, b.add("tanh", key), b.add("tanh", b.one(values)))
    b.add("scaled_dot_product_attention", *arguments, **causal)


def gated(b: Builder) -> None:
    x = b.float(2)
    if b.shape(x)[-1] % 2 == 0 and b.draw(st.booleans()):
        keywords = {"theta": 100.0, "interleaved": b.draw(st.booleans())}
        b.add("rope", x, b.draw(st.integers(0, 9)), **keywords)
    else:
        same = [other for other in b.floats(2) if b.shape(other) == b.shape(x)]
        b.add("swiglu", x, b.one(same))


def looked_up(b: Builder) -> None:
    tables = [x for x in b.floats(2) if len(b.shape(x)) == 2]
    if not tables:
        unary(b)
        return
    table = b.one(tables)
    rows, columns = b.shape(table)
    if b.draw(st.booleans()):
        places = st.lists(st.integers(0, rows - 1), min_size=1, max_size=7)
        b.add("embedding", Places(b.draw(places)), table)
    else:
        places = st.lists(st.integers(0, columns - 1), min_size=rows, max_size=rows)
        smoothing = b.one((0.0, 0.25))
        labels = Places(b.draw(places))
        b.add("cross_entropy", table, labels, label_smoothing=smoothing)


def loss(b: Builder) -> None:
    x = b.float()
    same = [other for other in b.floats() if b.shape(other) == b.shape(x)]
    name = b.one(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"))
    b.add(name, x, b.one(same), reduction=b.one(("none", "mean", "sum")))


FAMILIES = (
    unary, unary, with_numbers, binary, binary, choice, reduction, reduction,
    product_or_place, along, ordered, rearranged, reshaped, grown, joined, indexed,
    in_place, by_places, cut, product, windowed, normalised, attended, gated,
    looked_up, loss,
)  # fmt: skip


@st.composite
def programs(draw: Callable[[Any], Any], most_steps: int = 12) -> Program:
    """Return random programs of up to so many draws of a family."""
    seed = draw(st.integers(0, 1 << 16))
    inputs = tuple(
        Input(draw(st.sampled_from(SHAPES)), draw(st.booleans()))
        for _ in range(draw(st.integers(1, 3)))
    )
    b = Builder(draw)
    b.values = [
        torch.from_numpy(x) for x in Program(seed, inputs, (), frozenset()).data()
    ]
    for _ in range(draw(st.integers(1, most_steps))):
        # A family and what it draws stay together, which makes failures shrink well.
        draw(st.sampled_from(FAMILIES))(b)
    last = len(b.values) - 1
    places = st.integers(len(inputs), last)
    kept = {last, *draw(st.lists(places, max_size=3))}
    return Program(seed, inputs, tuple(b.steps), frozenset(kept))
