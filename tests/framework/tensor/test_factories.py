"""Functions that make tensors."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES, DType
from vkbackend.framework.base.errors import DTypeError, GradError, ShapeError


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1.5, 2], "float32"),
        ([1, 2], "int64"),
        (True, "bool"),
        ([], "float32"),
        (np.float64(1), "float64"),
        (np.zeros(2, np.float16), "float16"),
        (fw.ones(2, "int8"), "int8"),
    ],
)
def test_dtype_of_data(data: object, dtype: str) -> None:
    assert fw.tensor(data).dtype is DTYPES[dtype]


def test_tensor_in_a_dtype(place: Device) -> None:
    tensor = fw.tensor([1.9, -1.9], "int32", place)
    assert tensor.tolist() == [1, -1]
    with pytest.raises(DTypeError, match=r"dtype: .* is unknown; accepted: bool"):
        fw.tensor("abc")
    with pytest.raises(DTypeError, match=r"dtype: .*complex256.* is unknown"):
        fw.tensor(np.zeros(2, np.clongdouble))


def test_only_floats_require_gradients(place: Device) -> None:
    assert fw.tensor([1.0], device=place, requires_grad=True).requires_grad
    with pytest.raises(GradError) as raised:
        fw.ones(2, "int32", place, requires_grad=True)
    assert str(raised.value) == (
        "requires_grad: the tensor is int32; only float and complex tensors have"
        " gradients"
    )


@pytest.mark.parametrize("shape", [3, (), (2, 3), [2, 3], (0, 2)])
def test_shapes(shape: object, place: Device) -> None:
    expected = np.full(shape, 0, np.float32)  # type: ignore[call-overload]
    assert_close(fw.zeros(shape, device=place), expected)  # type: ignore[arg-type]
    assert_close(fw.ones(shape, device=place), expected + np.float32(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, 1, -3, 2.5, float("inf"), float("nan"), 1e-45])
def test_full(value: float, place: Device) -> None:
    expected = np.full((2, 3), value, np.float32)
    made = fw.full((2, 3), value, "float32", place)
    assert_close(made, expected, exact=True)


@pytest.mark.parametrize(
    ("value", "dtype"), [(2**31, "int32"), (-1, "uint8"), (float("nan"), "int16")]
)
def test_full_of_what_the_dtype_cannot_hold(
    value: float, dtype: str, place: Device
) -> None:
    low, high = DTYPES[dtype].limits
    with pytest.raises(DTypeError) as raised:
        fw.full((2,), value, dtype, place)
    assert str(raised.value) == (
        f"fill_like: {value} is no {dtype}, which holds {low} to {high};"
        " cast the tensor to a wider dtype first"
    )


def test_like_another(place: Device) -> None:
    x = fw.tensor(np.arange(6, dtype=np.int32).reshape(2, 3), device=place)
    for made, value in (
        (fw.zeros_like(x.mT), 0),
        (fw.ones_like(x.mT), 1),
        (fw.full_like(x.mT, -7), -7),
    ):
        assert_close(made, np.full((3, 2), value, np.int32))
        assert made.device is place


@pytest.mark.parametrize(
    "arguments", [(5,), (2, 7), (7, 2, -2), (0.0, 1.0, 0.25), (0,), (3, 3)]
)
def test_arange(arguments: tuple[float, ...], place: Device) -> None:
    expected = np.arange(*arguments)
    if expected.dtype == np.float64:
        expected = expected.astype(np.float32)
    assert_close(fw.arange(*arguments, device=place), expected)
    assert_close(fw.arange(5, dtype="float16"), np.arange(5, dtype=np.float16))


def test_from_numpy_copies(place: Device) -> None:
    data = np.zeros(2)
    tensor = fw.from_numpy(data, place)
    data += 1
    assert_close(tensor, np.zeros(2))


def test_rand_does_not_repeat(place: Device) -> None:
    first, second = fw.rand(50, place).numpy(), fw.rand(50, place).numpy()
    assert first.dtype == np.float32
    assert len(np.unique([first, second])) == 100


def test_randn_is_normal(place: Device) -> None:
    draws = fw.randn((200, 200), place).numpy()
    assert draws.dtype == np.float32
    # Deviations of 40,000 draws: 0.005 of the mean, 0.0035 of the deviation.
    assert abs(draws.mean()) < 0.02
    assert abs(draws.std() - 1) < 0.015
    assert abs((np.abs(draws) < 1).mean() - 0.6827) < 0.01


@pytest.mark.core
def test_made_on_the_device(gpu: GpuDevice) -> None:
    before = gpu.gpu.counters.snapshot()
    x = fw.full((100, 100), 3.0, device=gpu)
    assert (gpu.gpu.counters - before).upload_bytes < 100
    assert float(x.sum()) == 30000


def test_requires_grad(place: Device) -> None:
    for made in (
        fw.rand(2, place, requires_grad=True),
        fw.randn(2, place, requires_grad=True),
        fw.zeros(2, device=place, requires_grad=True),
    ):
        assert made.requires_grad
        assert made.is_leaf


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), ()])
def test_empty(shape: tuple[int, ...], place: Device) -> None:
    made = fw.empty(shape, dtype="int16", device=place)
    assert (made.shape, made.dtype, made.device) == (shape, DTYPES["int16"], place)
    assert fw.empty_like(made).shape == shape
    assert made.zero_().numpy().sum() == 0


def test_sizes_dtype_and_device_by_position(place: Device) -> None:
    for made in (fw.ones((2, 3), "int32", place), fw.ones(2, 3, "int32", place)):
        assert (made.shape, made.dtype, made.device) == ((2, 3), DTYPES["int32"], place)
    with pytest.raises(ShapeError) as raised:
        fw.zeros(2, -3)
    assert str(raised.value) == "zeros: sizes are (2, -3); none may be below 0"


@pytest.mark.parametrize(
    ("value", "dtype"), [(True, "bool"), (3, "int64"), (3.0, "float32")]
)
def test_full_takes_the_kind_of_the_number(value: float, dtype: str) -> None:
    assert fw.full((2,), value).dtype is DTYPES[dtype]


@pytest.mark.parametrize(
    "arguments", [(5, 1, -1), (0.0, 1.0, 0.3), (2.5, 9.0, 2.0), (1, 2, 0.25)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
def test_arange_as_in_torch(
    arguments: tuple[float, ...], dtype: str, place: Device
) -> None:
    expected = torch.arange(*arguments, dtype=getattr(torch, dtype)).numpy()
    found = fw.arange(*arguments, dtype=dtype, device=place)
    assert_close(found, expected)


@pytest.mark.parametrize("arguments", [(0, 1, 0), (0, 1, -1), (1.0, 0.0, 0.5)])
def test_arange_that_leads_nowhere(arguments: tuple[float, float, float]) -> None:
    start, end, step = arguments
    with pytest.raises(ShapeError) as raised:
        fw.arange(*arguments)
    assert str(raised.value) == (
        f"arange: from {start} to {end} in steps of {step}; the step must lead from"
        " start to end"
    )


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_linspace(steps: int, dtype: str, place: Device) -> None:
    need(dtype, place)
    expected = torch.linspace(-3, 10.5, steps, dtype=getattr(torch, dtype)).numpy()
    found = fw.linspace(-3, 10.5, steps, dtype, place)
    # The step is rounded on its own.
    assert_close(found, expected, scale=2)


def test_logspace(place: Device) -> None:
    expected = torch.logspace(-1, 2, 7, 2.0).numpy()
    # 2 ** x goes through exp2 and log2.
    assert_close(fw.logspace(-1, 2, 7, 2.0, device=place), expected, scale=4)


@pytest.mark.parametrize(("n", "m"), [(3, None), (3, 5), (5, 3), (0, 3), (1, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int8"])
def test_eye_and_tri(n: int, m: int | None, dtype: str, place: Device) -> None:
    assert_close(fw.eye(n, m, dtype, place), np.eye(n, m, dtype=dtype))
    for k in (-9, -1, 0, 2, 9):
        assert_close(fw.tri(n, m, k, dtype, place), np.tri(n, m, k, dtype))


@pytest.mark.core
def test_numbers_are_made_on_the_device(gpu: GpuDevice) -> None:
    before = gpu.gpu.counters.snapshot()
    made = [
        fw.arange(1000, dtype="int32", device=gpu),
        fw.linspace(0, 1, 1000, device=gpu),
        fw.eye(30, device=gpu),
        fw.ones(3, device=gpu),
        fw.rand(3, device=gpu),
    ]
    fw.eval()
    assert all(each.is_gpu for each in made)
    assert (gpu.gpu.counters - before).uploads == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_dlpack(dtype: str, place: Device) -> None:
    x = fw.tensor(np.arange(6).reshape(2, 3), dtype, place)
    assert np.array_equal(np.from_dlpack(x.mT), x.numpy().T)
    assert np.array_equal(torch.from_dlpack(x).numpy(), x.numpy())
    assert np.array_equal(fw.from_dlpack(fw.to_dlpack(x)).numpy(), x.numpy())
    back = fw.from_dlpack(
        torch.arange(6).reshape(2, 3).T.to(getattr(torch, dtype)), place
    )
    assert_close(back, x.numpy().T)
    if not x.is_gpu:
        assert np.shares_memory(np.from_dlpack(x), x.host_view())


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (300, fw.uint8), ([[1, -129]], fw.int8), (-256, fw.uint8), ([2**31], fw.int32),
        ([2**64], fw.int64), (2**63, fw.int64), ([2**64, 0.5], fw.int64),
        ([None, 1.0], fw.float32), ("1.5", fw.float32), (["7"], fw.int32),
        (None, fw.bool_), ([1j], fw.float32), (b"12", fw.uint8),
        (np.array([1], "datetime64[s]"), fw.int64), ([10**400], fw.float64),
    ],
)  # fmt: skip
def test_data_that_a_dtype_cannot_hold(data: object, dtype: DType) -> None:
    """It wrapped, became NaN, or lost its imaginary part."""
    with pytest.raises(DTypeError, match=r"^tensor: "):
        fw.tensor(data, dtype)


def test_data_that_wraps() -> None:
    """As in PyTorch: negative numbers without sign, and elements of arrays."""
    assert fw.tensor([-1, 255], fw.uint8).tolist() == [255, 255]
    assert fw.tensor(np.array([300, -1]), fw.uint8).tolist() == [44, 255]
    assert fw.tensor([2**64], fw.float32).tolist() == [2.0**64]
    assert fw.tensor(np.array([1, 2.5], object), fw.float32).tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("number", "options"), [(3, {}), (True, {}), (2.5, {"dtype": "int64"})]
)
def test_scalar_tensor(number: float, options: dict[str, str]) -> None:
    dtype = {name: getattr(torch, value) for name, value in options.items()}
    expected = torch.scalar_tensor(number, **dtype)
    found = fw.scalar_tensor(number, **options)
    assert (found.item(), str(found.dtype)) == (expected.item(), str(expected.dtype))
    assert tuple(found.shape) == ()
