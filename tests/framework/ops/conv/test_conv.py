"""Convolution as users call it, and its transpose, against PyTorch."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import Make, as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import DTypeError, ShapeError

Shapes = tuple[tuple[int, ...], ...]

CONVOLUTIONS: list[tuple[Any, Any, Shapes, dict[str, Any]]] = [
    (ops.conv1d, F.conv1d, ((2, 3, 11), (5, 3, 3), (5,)), {}),
    (
        ops.conv1d,
        F.conv1d,
        ((4, 11), (6, 2, 3), (6,)),
        {"groups": 2, "stride": 2, "padding": 1, "dilation": 2},
    ),
    (ops.conv1d, F.conv1d, ((2, 3, 11), (5, 3, 4)), {"padding": "same"}),
    (
        ops.conv2d,
        F.conv2d,
        ((2, 3, 7, 11), (5, 3, 2, 4), (5,)),
        {"padding": "same", "dilation": (1, 3)},
    ),
    (ops.conv2d, F.conv2d, ((3, 7, 9), (5, 3, 3, 4)), {"padding": "valid"}),
    (
        ops.conv_transpose1d,
        F.conv_transpose1d,
        ((2, 4, 5), (4, 3, 3), (3,)),
        {"stride": 2, "output_padding": 1},
    ),
    (
        ops.conv_transpose1d,
        F.conv_transpose1d,
        ((4, 5), (4, 3, 3), (6,)),
        {"output_padding": 2, "dilation": 3, "groups": 2},
    ),
    (
        ops.conv_transpose2d,
        F.conv_transpose2d,
        ((2, 4, 5, 6), (4, 3, 3, 2), (3,)),
        {"stride": (2, 3), "output_padding": (1, 2), "padding": (1, 1)},
    ),
    (
        ops.conv_transpose2d,
        F.conv_transpose2d,
        ((2, 4, 5, 6), (4, 3, 3, 2), (6,)),
        {"stride": (2, 1), "output_padding": (2, 1), "dilation": (3, 2), "groups": 2},
    ),
    (
        ops.conv_transpose2d,
        F.conv_transpose2d,
        ((4, 5, 6), (4, 3, 3, 2)),
        {"padding": 1},
    ),
]
IDS = [
    f"{call.__name__}-{shapes[0]}-{options}"
    for call, _, shapes, options in CONVOLUTIONS
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("call", "twin", "shapes", "options"), CONVOLUTIONS, ids=IDS)
def test_result_and_gradients(
    call: Any, twin: Any, shapes: Shapes, options: dict[str, Any], make: Make
) -> None:
    with warnings.catch_warnings():
        # PyTorch copies the images for an even kernel with padding "same".
        warnings.simplefilter("ignore", UserWarning)
        as_in_torch(make, call, twin, *shapes, scale=20, **options)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"padding": 1, "dilation": 2},
        {"stride": 2, "groups": 2},
    ],
)
def test_a_bias_takes_no_dispatch(
    dims: int, options: dict[str, Any], gpu: GpuDevice
) -> None:
    """Transposed convolutions add it to what they store."""
    call = getattr(ops, f"conv_transpose{dims}d")
    x = fw.ones((2, 4, *(5, 6, 4)[:dims]), device=gpu)
    weight = fw.ones((4, 4, *(3,) * dims), device=gpu)
    bias = fw.ones((4 * options.get("groups", 1),), device=gpu)
    fw.eval(x, weight, bias)
    counts = []
    for each in (None, bias):
        before = gpu.gpu.counters.snapshot()
        fw.eval(call(x, weight, each, **options))
        counts.append((gpu.gpu.counters.snapshot() - before).dispatches)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes_have_gradients(dtype: str, gpu: GpuDevice) -> None:
    shapes = ((3, 2, 6, 6), (4, 2, 3, 3), (4,))
    arrays = [draw(*shape, seed=k) for k, shape in enumerate(shapes)]
    feature = DTYPES[dtype].storage_feature
    assert feature is not None
    if not getattr(gpu.gpu.info, feature):
        with pytest.raises(DTypeError, match=f"^conv2d: .* has no {feature}, which"):
            ops.conv2d(*(fw.tensor(array, dtype, gpu) for array in arrays))
        return
    grads = []
    for device in (gpu, fw.device("cpu")):
        inputs = [fw.tensor(array, dtype, device, True) for array in arrays]
        ops.conv2d(*inputs, stride=2, padding=1).sum().backward()
        grads.append([tensor.grad for tensor in inputs])
    for one, other in zip(*grads):
        assert one.dtype is other.dtype
        assert_close(one, other.numpy(), scale=10)  # a few dozen terms


def test_filters_of_many_pixels_sum_in_float32(gpu: GpuDevice) -> None:
    # Chunks of more than 2048 terms, above which float16 has no odd numbers.
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("float16 needs storage_16bit")
    x = fw.ones((3, 1, 37, 111), "float16", gpu)
    weight = fw.ones((1, 1, 1, 1), "float16", gpu).requires_grad_()
    out = ops.conv2d(x, weight)
    out.backward(fw.ones(out.shape, "float16", gpu))
    assert weight.grad.item() == np.float16(3 * 37 * 111)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: ops.conv1d(x, fw.ones((4, 3, 3))),
            "conv1d: x has 2 channels, weight is (4, 3, 3), groups 1; x must have"
            " weight.shape[1] * groups = 3 channels, and groups must divide"
            " weight.shape[0]",
        ),
        (
            lambda x: ops.conv1d(x, x, stride=0),
            "conv1d: stride is 0; it must be one number, at least 1",
        ),
        (
            lambda x: ops.conv_transpose1d(x, fw.ones((3, 2, 3))),
            "conv_transpose1d: x has 2 channels, weight is (3, 2, 3), groups 1; x must"
            " have weight.shape[0] = 3 channels, which groups must divide",
        ),
        (
            lambda x: ops.conv_transpose1d(x, fw.ones((2, 2, 3)), output_padding=1),
            "conv_transpose1d: output_padding is (0, 1); it must be below (1, 1), the"
            " larger of stride and dilation",
        ),
        (
            lambda x: ops.conv_transpose1d(x, fw.ones((2, 2, 3)), padding=4),
            "conv_transpose1d: the result for an image of (1, 5) would be of size"
            " (1, -1); padding (0, 4) is too much for it",
        ),
    ],
)
def test_bad_input(call: Any, text: str) -> None:
    with pytest.raises(ShapeError) as raised:
        call(fw.ones((1, 2, 5)))
    assert str(raised.value) == text


def test_transposed_undoes_the_size(make: Make) -> None:
    x = make(np.ones((1, 2, 9, 8), np.float32))
    weight = make(np.ones((3, 2, 3, 3), np.float32))
    small = ops.conv2d(x, weight, stride=2, padding=1)
    back = ops.conv_transpose2d(
        small, weight, stride=2, padding=1, output_padding=(0, 1)
    )
    assert back.shape == x.shape


def test_what_is_equal_to_a_checked_number_is_checked(make: Make) -> None:
    """Neither True nor 1.0 is taken for the 1 of a call before."""
    x = make(np.ones((1, 2, 5, 5), np.float32))
    weight = make(np.ones((2, 2, 3, 3), np.float32))
    messages = []
    for first in (False, True):
        for wrong in (1.0, (1.0, 1.0), "one"):
            for name in ("stride", "dilation", "padding"):
                with pytest.raises((TypeError, ValueError)) as raised:
                    ops.conv2d(x, weight, **{name: wrong})
                messages.append(str(raised.value))
        if not first:
            ops.conv2d(x, weight, stride=1, dilation=1, padding=1)
            ops.conv2d(x, weight, stride=(1, 1), dilation=(1, 1), padding=(1, 1))
    half = len(messages) // 2
    assert messages[:half] == messages[half:]


def test_shapes_are_checked_each_time(make: Make) -> None:
    x = make(np.ones((1, 2, 5, 5), np.float32))
    for _ in range(3):
        for channels, sides, bias in ((2, 3, 2), (3, 3, 2), (2, 7, 2), (2, 3, 3)):
            weight = make(np.ones((2, channels, sides, sides), np.float32))
            shift = make(np.ones(bias, np.float32))
            if (channels, sides, bias) == (2, 3, 2):
                assert ops.conv2d(x, weight, shift).shape == (1, 2, 3, 3)
                continue
            with pytest.raises(ShapeError):
                ops.conv2d(x, weight, shift)


@pytest.mark.parametrize("call", ["conv1d", "conv_transpose1d", "conv_transpose2d"])
def test_calls_that_come_again_are_as_the_first(call: str, make: Make) -> None:
    """Also where a later one differs in a size that is added, in bias, or in shape."""
    dims = int(call[-2])
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((3, 3, *(2,) * dims)).astype(np.float32)
    bias = rng.standard_normal(3).astype(np.float32)
    extras = [{}, {"output_padding": 1}] if "transpose" in call else [{}]
    for _ in range(2):
        for size in (5, 6):
            x = rng.standard_normal((2, 3, *(size,) * dims)).astype(np.float32)
            for extra in extras:
                for shift in (None, bias):
                    given = [None if a is None else make(a) for a in (x, weight, shift)]
                    twins = [
                        None if a is None else torch.from_numpy(a)
                        for a in (x, weight, shift)
                    ]
                    found = getattr(ops, call)(*given, 2, **extra)
                    wanted = getattr(F, call)(*twins, 2, **extra)
                    assert_close(found, wanted.numpy(), scale=10)


@pytest.mark.parametrize("kind", ["float64", "int64"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_bias_has_the_dtype_of_the_images(
    transposed: bool, dims: int, kind: str, make: Make
) -> None:
    """Also where the call came before with another, and where strides leave gaps."""
    call = getattr(fw.nn.functional, f"conv{'_transpose' * transposed}{dims}d")
    x = make(np.ones((2, 3, *(4,) * dims), np.float32))
    weight = make(np.ones((3, 3, *(2,) * dims), np.float32))
    bias = make(np.ones(3, np.float32))
    wrong = make(np.ones(3, kind))
    for stride in (1, 3):
        call(x, weight, bias, stride)
        with pytest.raises(DTypeError, match=kind):
            call(x, weight, wrong, stride)
