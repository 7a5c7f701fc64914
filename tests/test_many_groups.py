"""More workgroups than go in a row: every family of kernels finds its place in a grid.

Devices take 65,535 workgroups along x and y; beyond that a grid is folded. Here it is
folded after two, so that small tensors show whether shaders count in both directions.
`tests/framework/scheduler/test_plan.py` goes beyond the real limit once.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.ir import kernel_call
from vkbackend.framework.kernels import transpose
from vkbackend.framework.kernels.gemm import candidates, gemv, select

FEW = 2
SEED = 7
Call = Callable[..., Any]


def places(x: fw.Tensor, size: int, dtype: str = "int32") -> fw.Tensor:
    """Return indices below `size`, one for each element of a float tensor."""
    return ((x + 2) * (size / 4.001)).to(dtype)


# Shapes of float tensors between -2 and 2, and what is done with them.
CALLS: dict[str, tuple[tuple[tuple[int, ...], ...], Call]] = {
    "fused": (((11_003,), (11_003,)), lambda x, y: x * y + 1),
    "one element at a time": (((103, 107),), lambda x: x.mT * 2),
    "strided_scatter": (
        ((11_003,), (3000,)),
        lambda x, y: ops.cat([x, x])[3:] + y.sum(),
    ),
    "pad": (((103, 107),), lambda x: ops.pad(x, (1, 2, 3, 0), "reflect")),
    "cat": (((103, 107), (103, 53)), lambda x, y: ops.cat([x, y], 1)),
    "index": (((997, 5), (3001,)), lambda x, y: x[places(y, 997)]),
    "gather": (((997, 5), (997, 5)), lambda x, y: ops.gather(x, 0, places(y, 997))),
    "scatter": (
        ((997, 5), (997, 5)),
        lambda x, y: ops.scatter_add(x, 0, places(y, 997), x),
    ),
    "mask": (((11_003,),), lambda x: x[x > 0]),
    "embedding": (((997, 5), (3001,)), lambda x, y: ops.embedding(places(y, 997), x)),
    "sum of rows": (((4001, 13),), lambda x: x.sum(1)),
    "sum of columns": (((13, 4001),), lambda x: x.sum(0)),
    "prod": (((4001, 3),), lambda x: x.prod(1)),
    "amax": (((4001, 13),), lambda x: x.amax(1)),
    "max": (((4001, 13),), lambda x: x.max(1)[0]),
    "argmax": (((13, 4001),), lambda x: x.argmax(0)),
    "var": (((4001, 13),), lambda x: x.var(1)),
    "logsumexp": (((4001, 13),), lambda x: ops.logsumexp(x, 1)),
    "softmax": (((4001, 13),), lambda x: ops.softmax(x, 1)),
    "softmax in the middle": (((3, 13, 1999),), lambda x: ops.log_softmax(x, 1)),
    "cumsum": (((4001, 13),), lambda x: x.cumsum(1)),
    "cumprod": (((13, 4001),), lambda x: ops.cumprod(x, 0)),
    "sort": (((1201, 13),), lambda x: ops.sort(x, 1)[0]),
    "long sort": (((5003,),), lambda x: ops.sort(x, 0)[0]),
    "searchsorted": (
        ((113,), (5003,)),
        lambda x, y: ops.searchsorted(ops.sort(x)[0], y),
    ),
    "bincount": (((5003,),), lambda x: ops.bincount(places(x, 997), minlength=997)),
    "matmul": (((301, 29), (29, 307)), lambda x, y: x @ y),
    "batched matmul": (((7, 67, 13), (7, 13, 71)), lambda x, y: x @ y),
    "conv2d": (
        ((7, 5, 23, 29), (13, 5, 3, 3)),
        lambda x, y: ops.conv2d(x, y, padding=1),
    ),
    "im2col": (((3, 5, 23, 29),), lambda x: ops.im2col(x, 3)),
    "max_pool2d": (((7, 11, 13, 17),), lambda x: ops.max_pool2d(x, 2)),
    "adaptive_max_pool2d": (
        ((7, 11, 13, 17),),
        lambda x: ops.adaptive_max_pool2d(x, (5, 7)),
    ),
    "avg_pool2d": (((7, 11, 13, 17),), lambda x: ops.avg_pool2d(x, 2)),
    "interpolate": (
        ((7, 11, 13, 17),),
        lambda x: ops.interpolate(x, (23, 29), mode="bilinear"),
    ),
    "layer_norm": (((4001, 13), (13,)), lambda x, y: ops.layer_norm(x, 13, y)),
    "batch_norm": (
        ((7, 17, 53),),
        lambda x: ops.batch_norm(x, None, None, training=True),
    ),
    "attention": (((3, 67, 13),), lambda x: ops.scaled_dot_product_attention(x, x, x)),
    "rope": (((53, 67, 8),), ops.rope),
    "cross_entropy": (
        ((4001, 13), (4001,)),
        lambda x, y: ops.cross_entropy(x, places(y, 13), reduction="none"),
    ),
    "nll_loss": (
        ((4001, 13), (4001,)),
        lambda x, y: ops.nll_loss(x, places(y, 13), reduction="none"),
    ),
}


@pytest.fixture
def folding(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GpuDevice]:
    """Return the device, which seems to take few workgroups in each direction."""
    gpu = fw.device(device.name)
    assert isinstance(gpu, GpuDevice)
    gpu.plans.clear()
    monkeypatch.setattr(kernel_call, "MAX_GROUPS", FEW)
    for module in (select, gemv, candidates, transpose):
        monkeypatch.setattr(module, "MAX_GROUPS", FEW)
    yield gpu
    fw.eval()
    gpu.plans.clear()


def run(call: Call, arrays: list[np.ndarray], place: Device) -> list[np.ndarray]:
    """Return the result of a call, and the gradients of its float arguments."""
    inputs = [fw.tensor(x, device=place, requires_grad=True) for x in arrays]
    out = call(*inputs)
    if out.requires_grad:
        slope = np.random.default_rng(SEED).standard_normal(out.shape)
        out.backward(fw.tensor(slope.astype(out.dtype.numpy), device=place))
    found = [out, *(x.grad for x in inputs if x.grad is not None)]
    fw.eval()
    return [each.detach().numpy() for each in found]


@pytest.mark.core
@pytest.mark.parametrize("name", CALLS)
def test_folded_grid(name: str, folding: GpuDevice) -> None:
    shapes, call = CALLS[name]
    rng = np.random.default_rng(SEED)
    arrays = [rng.uniform(-2, 2, shape).astype(np.float32) for shape in shapes]
    exact = run(call, [x.astype(np.float64) for x in arrays], fw.device("cpu"))
    found = run(call, arrays, folding)
    grids = [each.grid for plan in folding.plans.values() for each in plan.launches]
    assert max(x for x, _, _ in grids) <= FEW
    assert max(y for _, y, _ in grids) > 1
    for one, wanted in zip(found, exact, strict=True):
        # Sums of thousands of terms, and products of a dozen numbers up to 2.
        assert_close(one, wanted.astype(one.dtype), scale=400)
