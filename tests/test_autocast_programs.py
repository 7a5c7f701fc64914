"""Training programs under autocast have the losses that they have with PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests import autocast_programs

STEPS = 20


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "program", autocast_programs.PROGRAMS, ids=lambda program: program.__name__
)
def test_the_losses_are_those_of_torch(
    program: Callable[[Any, Any, int], list[float]], dtype: str
) -> None:
    # PyTorch's LSTM on the host has no float16.
    theirs = "bfloat16" if program is autocast_programs.recurrence else dtype
    try:
        wanted = program(torch, getattr(torch, theirs), STEPS)
    except RuntimeError as error:
        # Nor bfloat16, where the processor has no AVX-512.
        if "could not create a primitive descriptor" not in str(error):
            raise
        pytest.skip(f"PyTorch's own is refused: {error}"[:100])
    found = program(fw, getattr(fw, dtype), STEPS)
    # Products are summed in float32 by both, but not in the same order: an element of
    # a product may round to its neighbour, one epsilon away. Losses are means.
    epsilon = torch.finfo(getattr(torch, theirs)).eps
    np.testing.assert_allclose(found, wanted, rtol=epsilon, atol=epsilon)
    assert found[-1] < found[0]
