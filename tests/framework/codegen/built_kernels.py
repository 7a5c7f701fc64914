"""Results by kernels that are built in another way, beside those of the usual ones."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler import lowering_cache


def check_kernels(
    gpu: GpuDevice,
    build: Callable[..., Any],
    make: Callable[[fw.Tensor], Sequence[fw.Tensor]],
    sizes: Sequence[int],
) -> None:
    """Check that kernels of `build` give the same bits, for vectors of each size."""
    rng = np.random.default_rng(1)
    for size in sizes:
        data = rng.uniform(-2, 2, size).astype(np.float32)
        x = fw.tensor(data, device=gpu)
        fw.eval(x)
        gpu.plans.clear()
        wanted = [each.numpy() for each in make(x)]
        gpu.plans.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lowering_cache, "build_chosen_kernel", build)
            found = make(x)
            fw.eval(*found)
            gpu.plans.clear()
            got = [each.numpy() for each in found]
        gpu.plans.clear()
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
