"""Normalisation under PyTorch's signatures."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

SCALE, SHIFT = drawn(4), drawn(4, seed=1)


def test_is_as_in_torch(place: Device) -> None:
    x = drawn(3, 4, 5)
    none = (None, None)
    beside("batch_norm", place, x, *none, SCALE, SHIFT, True, 0.1, 1e-3, scale=16)
    beside("instance_norm", place, x, *none, SCALE, SHIFT, eps=1e-3, scale=16)
    beside("group_norm", place, x, 2, SCALE, SHIFT, 1e-3, scale=16)
    beside("layer_norm", place, x, [4, 5], eps=1e-3, scale=16)
    beside("rms_norm", place, x, [5], eps=1e-3, scale=16)
    beside("normalize", place, x, 3.0, -1, scale=8)


@pytest.mark.parametrize("shape", [(2, 7, 3), (2, 5, 3, 2), (1, 4, 2, 1, 3)])
@pytest.mark.parametrize("size", [2, 3])
def test_local_response_norm(shape: tuple[int, ...], size: int, place: Device) -> None:
    beside("local_response_norm", place, drawn(*shape), size, 0.5, 0.6, 2.0)


def test_result_is_written() -> None:
    x, out = fw.tensor(drawn(3, 4)), fw.zeros((3, 4))
    assert F.normalize(x, out=out) is out
    np.testing.assert_array_equal(out.numpy(), F.normalize(x).numpy())


def test_too_few_dimensions() -> None:
    with pytest.raises(ShapeError, match="local_response_norm: input is"):
        F.local_response_norm(fw.ones((2, 3)), 2)
