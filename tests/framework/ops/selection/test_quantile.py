"""Quantiles and modes beside PyTorch."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.selection.quantile import INTERPOLATIONS

CALLS = """\
T.msort(m)
T.nanmedian(nan)
T.nanmedian(nan, 0)
T.mode(i)
T.mode(i, 0)
T.mode(i, dim=1, keepdim=True)
T.quantile(m, 0.3)
T.quantile(m, T.tensor([0.25, 0.5]), dim=1)
T.quantile(m, 0.6, dim=0, keepdim=True)
T.quantile(m, T.tensor([0.25, 0.5]), dim=1, keepdim=True)
T.quantile(m, 0.4, interpolation='nearest')
m.quantile(0.4, dim=1, interpolation='lower')
m.quantile(0.4, dim=1, interpolation='higher')
m.quantile(0.4, dim=1, interpolation='midpoint')
m.double().quantile(0.4, dim=1, interpolation='midpoint')
T.nanquantile(nan, 0.5)
T.nanquantile(nan, 0.3, dim=0)
T.quantile(nan, 0.3, dim=0)
m.nanmedian()
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


@pytest.mark.parametrize("call", CALLS[::4])
def test_on_a_device(call: str, device: vkbackend.Device) -> None:
    check(call, fw.device(device.name))


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 9), (3, 1000), (2, 3, 17), ()])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_elements_of_known_ranks_are_selected(
    interpolation: str,
    shape: tuple[int, ...],
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As what is sorted has them, on GPUs for speed; NaN in a row is its quantile."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, hides_latency=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    data = np.random.default_rng(0).standard_normal(shape).astype("f4")
    with gpu.fresh_plan_cache():
        for missing in (False, True):
            if missing and data.size > 3:
                data.reshape(-1)[2] = np.nan
            x, y = fw.tensor(data, device=gpu), torch.tensor(data)
            for q, dim in itertools.product((0, 0.25, 1 / 3, 1), (None, 0, -1)):
                given: dict[str, Any] = {
                    "dim": dim,
                    "keepdim": True,
                    "interpolation": interpolation,
                }
                found = fw.quantile(x, q, **given).numpy()
                wanted = torch.quantile(y, q, **given).numpy()
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
        rows = fw.tensor(data.reshape(1, -1), device=gpu)
        each = fw.func.vmap(lambda row: fw.quantile(row, 0.25))(rows)
        np.testing.assert_array_equal(each.numpy(), fw.quantile(rows, 0.25, 1).numpy())
