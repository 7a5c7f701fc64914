"""Programs with uncommon gradients give PyTorch's losses, with two lines changed."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.gradient_programs import PROGRAMS
from vkbackend.framework.base.device import GpuDevice


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_are_those_of_torch(program: Any, gpu: GpuDevice) -> None:
    wanted = program(torch, "cpu")
    np.testing.assert_allclose(program(fw, gpu), wanted, rtol=1e-5)


@pytest.mark.wide
@pytest.mark.parametrize("program", PROGRAMS)
def test_losses_on_the_host_are_those_of_torch(program: Any) -> None:
    wanted = program(torch, "cpu")
    np.testing.assert_allclose(program(fw, "cpu"), wanted, rtol=1e-5)
