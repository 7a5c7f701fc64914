"""Declaring ops: what the machinery promises, and what it refuses."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import FLOAT, float32
from vkbackend.framework.base.errors import DTypeError, GradError, ShapeError
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.dispatch.primitive import (
    composite,
    elementwise,
    movement,
    primitive,
)

Make = Callable[..., fw.Tensor]


@pytest.fixture
def registry() -> Iterator[None]:
    """Forget the ops that a test declares."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.mark.usefixtures("registry")
def test_a_new_elementwise_op_works_everywhere(make: Make) -> None:
    @elementwise(glsl="x * x + c", reference=lambda x, c: x * x + c, dtypes=(float32,))
    def square_plus(x: fw.Tensor, c: float = 1.0) -> fw.Tensor:
        """Return the square and a number."""

    @square_plus.vjp
    def square_plus_vjp(grad: fw.Tensor, x: fw.Tensor) -> fw.Tensor:
        return grad * x * 2.0

    x = make([1.0, -3.0], grad=True)
    y = square_plus(x, c=0.5) - square_plus(x * 0.0)
    y.backward(make([1.0, 10.0]))
    assert y.tolist() == [0.5, 8.5]
    assert x.grad.tolist() == [2, -60]
    assert REGISTRY["square_plus"] is square_plus
    assert repr(square_plus) == "<op square_plus>"


@pytest.mark.usefixtures("registry")
def test_a_rule_gets_what_it_names() -> None:
    seen: dict[str, Any] = {}

    @primitive(dtypes=FLOAT, outputs=("out", "extra"))
    def split(
        x: fw.Tensor, y: fw.Tensor, z: fw.Tensor | None, power: int
    ) -> tuple[fw.Tensor, fw.Tensor]:
        """Return two results."""

    @split.spec
    def split_spec(
        x: TensorSpec, y: TensorSpec, z: TensorSpec | None, power: int
    ) -> tuple[TensorSpec, TensorSpec]:
        return x, y

    @split.reference
    def split_reference(
        x: np.ndarray, y: np.ndarray, z: np.ndarray | None, power: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return x**power, y * 2

    @split.vjp
    def split_vjp(
        grad: fw.Tensor,
        y: fw.Tensor,
        out: fw.Tensor,
        extra: fw.Tensor,
        x_spec: TensorSpec,
        z_spec: TensorSpec | None,
        needs: tuple[bool, ...],
        power: int,
    ) -> tuple[Any, ...]:
        seen.update(locals())
        return grad, None, None

    x, y = fw.tensor([3.0], requires_grad=True), fw.tensor([5.0])
    out, extra = split(x, y, None, 2)
    assert not extra.requires_grad
    out.backward()
    assert x.grad.tolist() == [1]
    assert seen["needs"] == (True, False, False)
    assert (seen["x_spec"], seen["z_spec"]) == (TensorSpec((1,), float32), None)
    assert seen["power"] == 2
    kept = [seen[name].tolist() for name in ("y", "out", "extra")]
    assert kept == [[5], [9], [10]]


@pytest.mark.usefixtures("registry")
def test_names_are_checked_at_import() -> None:
    @elementwise(glsl="x", reference=np.copy, dtypes=FLOAT)
    def same(x: fw.Tensor) -> fw.Tensor:
        """Return the same."""

    with pytest.raises(TypeError) as raised:
        same.vjp(lambda grad, result: grad)
    assert str(raised.value) == (
        "same.vjp: unknown parameters: result; a rule may take grad, needs, out, x,"
        " x_spec"
    )
    with pytest.raises(TypeError) as raised:
        elementwise(glsl="x", reference=np.copy, dtypes=FLOAT)(same.function)
    assert str(raised.value) == "same: an op of this name is already declared"

    @elementwise(glsl="grad", reference=np.copy, dtypes=FLOAT)
    def clash(grad: fw.Tensor) -> fw.Tensor:
        """Return the same."""

    with pytest.raises(
        TypeError, match=r"clash.vjp: `grad` and `needs` are the rule's"
    ):
        clash.vjp(lambda grad: grad)


@pytest.mark.usefixtures("registry")
def test_movement_copies_where_it_must(make: Make) -> None:
    @movement(dtypes=FLOAT)
    def rows(x: fw.Tensor, count: int) -> fw.Tensor:
        """Return the first rows of row-major storage."""

    @rows.layout
    def rows_layout(layout: Layout, count: int) -> Layout | None:
        shape = (count, *layout.shape[1:])
        return Layout(shape, *layout[1:]) if layout.is_contiguous else None

    x = make(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert rows(x, 1).array is x.array
    assert rows(x.T, 1).tolist() == [[0, 3]]
    y = x.requires_grad_() * 1.0
    with pytest.raises(GradError, match="rows has no gradient rule"):
        rows(y, 1).sum().backward()


@pytest.mark.usefixtures("registry")
def test_composite_has_its_own_rule(make: Make) -> None:
    @composite(dtypes=FLOAT)
    def doubled(x: fw.Tensor) -> fw.Tensor:
        """Return twice the elements."""
        return x * 2.0

    @doubled.vjp
    def doubled_vjp(grad: fw.Tensor) -> fw.Tensor:
        return grad * 7.0

    x = make([1.0], grad=True)
    doubled(x).backward()
    assert x.grad.tolist() == [7]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.exp(), "exp: the argument `x` is missing"),
        (lambda x: ops.exp(x, x), "exp: 2 arguments given; it takes (x)"),
        (
            lambda x: ops.exp(x, base=2),
            "exp: unexpected argument `base`; it takes (x)",
        ),
        (lambda x: ops.exp(x, x=x), "exp: unexpected argument `x`; it takes (x)"),
        (lambda x: ops.exp(3.0), "exp: no argument is a tensor; one of x must be"),
        (
            lambda x: ops.pow(2, 3),
            "pow: no argument is a tensor; one of x, y must be",
        ),
    ],
)
def test_arguments_are_bound_as_python_binds_them(
    call: Callable[[fw.Tensor], Any], text: str
) -> None:
    with pytest.raises(TypeError) as raised:
        call(fw.ones(2))
    assert str(raised.value) == text


def test_ops_look_like_their_functions() -> None:
    assert list(inspect.signature(ops.leaky_relu).parameters) == ["x", "negative_slope"]
    assert ops.leaky_relu.__name__ == "leaky_relu"
    assert "where it is negative" in (ops.leaky_relu.__doc__ or "")


@pytest.mark.parametrize("name", REGISTRY)
def test_every_op_is_documented(name: str) -> None:
    text = REGISTRY[name].__doc__
    assert text
    assert text.splitlines()[0].endswith(".")


@pytest.mark.core
@pytest.mark.parametrize(
    ("dtype", "feature"),
    [
        ("int64", "shader_int64"),
        ("uint64", "shader_int64"),
        ("float64", "shader_float64"),
    ],
)
def test_dtype_that_a_device_lacks(
    dtype: str, feature: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    reduced = dataclasses.replace(info, supported=info.supported - {feature})
    monkeypatch.setattr(gpu.gpu, "info", reduced)
    # Storage needs no feature.
    x = fw.tensor(np.arange(3).astype(dtype), device=gpu)
    assert x.tolist() == [0, 1, 2]
    text = (
        f"{{}}: {gpu.name} has no {feature}, which {dtype} needs; use a 32-bit dtype"
        " there, or the cpu device"
    )
    # What the device had a moment ago was settled by earlier calls.
    for name in ("add", "eq", "copy", "cast"):
        monkeypatch.setattr(REGISTRY[name], "call_cache", {})
    for name, call in {
        "add": lambda: x + 1,
        "eq": lambda: x == x,
        "copy": lambda: x.clone(),
        "cast": lambda: x.float(),
        "fill_like": lambda: fw.zeros_like(x),
    }.items():
        with pytest.raises(DTypeError) as raised:
            call()
        assert str(raised.value) == text.format(name)
    assert gpu.pending == []
    assert x.cpu().tolist() == [0, 1, 2]


@pytest.mark.core
def test_dtype_that_a_kernel_lacks(gpu: GpuDevice) -> None:
    logits = fw.tensor(np.ones((2, 2), np.float64), device=gpu)
    labels = fw.zeros(2, "int32", gpu)
    fw.eval()
    with pytest.raises(DTypeError) as raised:
        ops.cross_entropy(logits, labels)
    assert str(raised.value) == (
        f"cross_entropy_rows: `logits` is float64, which the kernel for {gpu.name} does"
        " not take; accepted there: float16, bfloat16, float32"
    )
    assert gpu.pending == []


@pytest.mark.core
def test_loops_too_long_are_refused_when_called(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    software = dataclasses.replace(gpu.gpu.info, kind="software")
    monkeypatch.setattr(gpu.gpu, "info", software)
    x = fw.zeros((1, 1, 401, 401), device=gpu)
    with pytest.raises(ShapeError, match=r"^adaptive_max_pool2d: .* 40804 rounds"):
        ops.adaptive_max_pool2d(x, 2)
    assert x.sum().item() == 0


@pytest.mark.core
def test_kernels_that_need_alignment_get_it(gpu: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((5, 3, 4, 4)).astype(np.float32)
    weight = np.ones((2, 3, 3, 3), np.float32)
    # Starts 192 and 12 bytes into the storage.
    for x in (fw.tensor(data, device=gpu)[1:], fw.tensor(data, device=gpu)[..., 3:]):
        filters = fw.tensor(weight, device=gpu)
        found = ops.conv2d(x, filters, padding=1)
        expected = ops.conv2d(x.cpu(), filters.cpu(), padding=1)
        assert_close(found, expected.numpy(), scale=10)  # sums of 27 terms
