"""Convolution against PyTorch over kernels, strides, padding, dilation and groups."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.convolutions import Convolved, both_ways, call_of, name_of
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.dispatch.primitive import Primitive
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.gemm.tiles import SCALED_FLOAT16, SIMT
from vkbackend.framework.ops.conv import conv2d

Make = Callable[..., fw.Tensor]

CONVOLUTIONS: list[Convolved] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 3, 5, 7), (4, 3, 1, 1), {}),
    ((3, 1, 8, 8), (16, 1, 3, 3), {"padding": 1}),
    ((2, 16, 9, 6), (33, 16, 3, 3), {"padding": 1}),
    ((1, 3, 11, 13), (2, 3, 5, 2), {"stride": (2, 3), "padding": (2, 0)}),
    ((2, 4, 12, 12), (4, 1, 3, 3), {"groups": 4, "dilation": 2}),
    ((2, 6, 7, 7), (9, 2, 3, 3), {"groups": 3, "stride": 2, "padding": 3}),
    ((2, 2, 4, 4), (3, 2, 4, 4), {}),
]
IDS = [name_of(row) for row in CONVOLUTIONS]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "weight", "options"), CONVOLUTIONS, ids=IDS)
def test_result_and_gradients(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    bias: bool,
    make: Make,
) -> None:
    shapes = [x, weight, (weight[0],)][: 3 if bias else 2]
    # Up to 150 terms forward, and as many as there are pixels in the gradients.
    scales = (10, 20, 20, 20)
    for (found, wanted), scale in zip(both_ways(make, shapes, options), scales):
        assert_close(found, wanted.astype(np.float32), scale=scale)


def test_only_what_is_needed_is_computed(make: Make) -> None:
    x = make(np.ones((1, 1, 3, 3), np.float32))
    weight = make(np.ones((1, 1, 2, 2), np.float32), grad=True)
    ops.conv2d(x, weight).sum().backward()
    assert weight.grad.tolist() == [[[[4, 4], [4, 4]]]]
    assert x.grad is None


def test_views(make: Make) -> None:
    data = np.random.default_rng(0).uniform(-1, 1, (4, 6, 10, 5)).astype(np.float32)
    x, weight = make(data).permute(3, 0, 1, 2)[1:, 1:, ::2], make(data[:3, :3, :3, 2:])
    wanted = F.conv2d(torch.from_numpy(x.numpy()), torch.from_numpy(weight.numpy()))
    assert_close(ops.conv2d(x, weight), wanted.numpy(), scale=10)  # 27 terms


def test_empty_batch(make: Make) -> None:
    x = make(np.zeros((0, 2, 5, 5), np.float32), grad=True)
    weight = make(np.ones((3, 2, 3, 3), np.float32), grad=True)
    out = ops.conv2d(x, weight)
    assert out.shape == (0, 3, 3, 3)
    out.sum().backward()
    assert x.grad.shape == (0, 2, 5, 5)
    assert_close(weight.grad, np.zeros((3, 2, 3, 3), np.float32))


@pytest.mark.parametrize("mode", [SIMT, SCALED_FLOAT16])
@pytest.mark.parametrize(
    ("kernel", "groups"), [(3, 1), (1, 1), (3, 64), (3, 2), (3, 4)]
)
def test_the_own_choice_is_a_candidate(
    discrete: vkbackend.DeviceInfo, kernel: int, groups: int, mode: str
) -> None:
    pad = kernel // 2
    window = Window((kernel, kernel), (1, 1), (pad, pad), (1, 1))
    call = call_of(discrete, (64, 64, 56, 56), 64, window, groups=groups)
    call = call._replace(how=call.how._replace(mode=mode))
    calls: dict[str, tuple[Any, ...]] = {
        "conv2d": (call.x, call.weight, None),
        "conv2d_input_vjp": (call.out, call.weight, None, call.size),
        "conv2d_weight_vjp": (call.out, call.x),
    }
    for name, given in calls.items():
        op = REGISTRY[name]
        assert isinstance(op, Primitive)
        own = op.rules["kernel"](discrete, *given, call.how)
        ways = op.rules["candidates"](discrete, *given, call.how)
        assert own in [way() for way in ways.values()]


SLICED = [
    ((1, 64, 6, 6), (33, 64, 3, 3), {"padding": 1}),
    ((1, 70, 5, 7), (40, 70, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 128, 4, 5), (36, 64, 3, 3), {"groups": 2}),
    ((1, 640, 7, 7), (24, 640, 1, 1), {}),
]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("x", "weight", "options"), SLICED, ids=[name_of(row) for row in SLICED]
)
def test_few_tiles_are_cut_along_k(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    fused: bool,
    quads: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[list[str]] = []
    tiles = conv2d._sliced_tiles

    def noted(*given: Any) -> list[Dispatch]:
        found = tiles(*given)
        taken.append([each.kernel for each in found])
        return found

    monkeypatch.setattr(conv2d, "_sliced_tiles", noted)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, s).astype(np.float32) for s in (x, weight, weight[:1])]
    mine = [fw.tensor(each, device=quads, requires_grad=True) for each in arrays]
    theirs = [torch.from_numpy(each).double().requires_grad_() for each in arrays]
    out, wanted = ops.conv2d(*mine, **options), F.conv2d(*theirs, **options)
    if fused:
        out, wanted = ops.relu(out) * 2, F.relu(wanted) * 2
    seed = rng.uniform(-1, 1, wanted.shape).astype(np.float32)
    (out * fw.tensor(seed, device=quads)).sum().backward()
    (wanted * torch.from_numpy(seed)).sum().backward()
    for found, right in zip(
        (out, *(each.grad for each in mine)), (wanted, *(each.grad for each in theirs))
    ):
        assert_close(found, right.detach().numpy().astype(np.float32), scale=60)
    assert any(len(kernels) == 2 for kernels in taken)


def test_transposed_ones_add_their_bias_once(quads: GpuDevice) -> None:
    rng = np.random.default_rng(1)
    shapes = (1, 96, 5, 6), (96, 20, 3, 3), (20,)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    given = [fw.tensor(each, device=quads) for each in arrays]
    with quads.gpu.profile() as profile:
        out = fw.nn.functional.conv_transpose2d(*given, stride=2).numpy()
    kernels = [span.name.split()[0] for span in profile.spans]
    assert kernels == ["conv/igemm_tiled_dgrad", "matmul/sum_slices"]
    wanted = F.conv_transpose2d(*map(torch.from_numpy, arrays), stride=2)
    assert_close(out, wanted.numpy(), scale=40)


@pytest.mark.parametrize(("edge", "merged"), [(64, False), (14, True)])
def test_images_of_no_whole_tiles_are_merged(
    discrete: vkbackend.DeviceInfo, edge: int, merged: bool
) -> None:
    """Of 196 pixels the tiles of single images would leave a quarter idle."""
    window = Window((1, 1), (1, 1), (0, 0), (1, 1))
    call = call_of(discrete, (64, 256, edge, edge), 1024, window)
    for name, given in (
        ("conv2d", (call.x, call.weight, None)),
        ("conv2d_input_vjp", (call.out, call.weight, None, call.size)),
    ):
        op = REGISTRY[name]
        assert isinstance(op, Primitive)
        (found,) = op.rules["kernel"](discrete, *given, call.how)
        assert found.kernel == "matmul/gemm_simt"
        assert ("SIDE_BY_SIDE" in found.defines) == merged


def test_filters_of_a_pixel_have_gradients_without_copies(
    discrete: vkbackend.DeviceInfo,
) -> None:
    """Images are read as they lie: their pixels are K, one image after another."""
    for edge, window in ((14, (1, 1)), (14, (3, 3)), (7, (1, 1))):
        padding = window[0] // 2
        how = Window(window, (1, 1), (padding, padding), (1, 1))
        call = call_of(discrete, (64, 256, edge, edge), 256, how)
        op = REGISTRY["conv2d_weight_vjp"]
        assert isinstance(op, Primitive)
        found = op.rules["kernel"](discrete, call.out, call.x, call.how)
        kernels = [each.kernel for each in found]
        in_place = edge == 14 and window == (1, 1)
        assert ("matmul/gemm_simt" == kernels[0]) == in_place
        assert ("SUMMED" in found[0].defines) == in_place
