"""Windows and indices of triangles beside PyTorch."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.base.errors import DTypeError, ShapeError

CALLS = """\
T.tril_indices(3, 4)
T.tril_indices(3, 3, offset=-1)
T.triu_indices(3, 3, 1)
T.triu_indices(row=3, col=4, offset=-1)
T.bartlett_window(5)
T.blackman_window(6, periodic=False)
T.hamming_window(6)
T.hamming_window(6, True, 0.5, 0.4)
T.hann_window(6)
T.hann_window(6, periodic=False)
T.kaiser_window(6)
T.kaiser_window(6, periodic=False, beta=8.0)
T.hann_window(1)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_on_the_host(call: str) -> None:
    check(call)


def test_on_a_device(device: vkbackend.Device) -> None:
    made = fw.hann_window(5, device=device.name)
    assert made.numpy().tolist() == fw.hann_window(5).tolist()


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="window_length is -1"):
        fw.hann_window(-1)
    with pytest.raises(DTypeError, match="must be a float dtype"):
        fw.hann_window(3, dtype="int32")
    with pytest.raises(ShapeError, match="neither may be below 0"):
        fw.tril_indices(-1, 2)
