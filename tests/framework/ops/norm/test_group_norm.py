"""Group norm and instance norm: shapes, running statistics, halves."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(3, 6), (3, 6, 5), (2, 6, 4, 3), (1, 6, 2, 3, 2)])
def test_group_norm(shape: tuple[int, ...], groups: int, make: Make) -> None:
    if len(shape) == 2 and groups == 6:
        pytest.skip("a group of one element has no variance")
    as_in_torch(
        make,
        lambda x, weight, bias: ops.group_norm(x, groups, weight, bias, 1e-3),
        lambda x, weight, bias: F.group_norm(x, groups, weight, bias, 1e-3),
        shape,
        (6,),
        (6,),
        scale=20,  # deviations from a mean that is itself a sum
    )


@pytest.mark.parametrize("training", [True, False])
def test_instance_norm(training: bool, make: Make) -> None:
    running = [make(draw(6, seed=k) + np.float32(1.5)) for k in (3, 4)]
    twins = [torch.from_numpy(each.numpy()).double() for each in running]
    if not training:
        # PyTorch broadcasts the running statistics the same way.
        assert running[0].shape == (6,)
    before = [each.numpy() for each in running]
    as_in_torch(
        make,
        lambda x, w, b: ops.instance_norm(x, *running, w, b, training, 0.25),
        lambda x, w, b: F.instance_norm(x, *twins, w, b, training, 0.25),
        (3, 6, 5, 2),
        (6,),
        (6,),
        scale=20,
    )
    for one, other, old in zip(running, twins, before):
        assert_close(one, other.float().numpy(), scale=4)
        assert (one.numpy() != old).any() == training


def test_no_samples(make: Make) -> None:
    assert ops.group_norm(make(np.zeros((0, 4, 3), np.float32)), 2).shape == (0, 4, 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str, make: Make) -> None:
    data, kind = draw(2, 4, 9), getattr(torch, dtype)
    twin = torch.from_numpy(data).to(kind).double()
    expected = F.group_norm(twin, 2).to(kind).float().numpy()
    found = ops.group_norm(make(data).to(dtype), 2)
    assert found.dtype.name == dtype
    assert_close(found, expected.astype(found.numpy().dtype))


def test_without_weights_it_is_one_kernel(gpu: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((2, 6, 5, 4)).astype(np.float32)
    x = fw.tensor(data, device=gpu)
    fw.eval(x)
    before = gpu.gpu.counters.dispatches
    found = fw.nn.functional.instance_norm(x)
    fw.eval(found)
    assert gpu.gpu.counters.dispatches == before + 1
    apart = data - data.mean((2, 3), keepdims=True)
    wanted = apart / np.sqrt(data.var((2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(found.numpy(), wanted, 1e-5, 1e-6)
