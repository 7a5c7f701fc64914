"""Elements between two bounds, as PyTorch's."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import DTypeError

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (None, 0.5), (-0.5, None), (2, -2)])
def test_clamp(low: float | None, high: float | None, make: Make) -> None:
    data = np.array([-3, -1, -0.5, 0, 0.5, 1, 3, INF, -INF, NAN], np.float32)
    x, twin = make(data, grad=True), torch.from_numpy(data).requires_grad_()
    found, expected = ops.clamp(x, low, high), torch.clamp(twin, low, high)
    assert_close(found, expected.detach().numpy(), exact=True)
    found.backward(fw.ones_like(x))
    expected.sum().backward()  # type: ignore[no-untyped-call]
    assert twin.grad is not None
    assert_close(x.grad[:-1], twin.grad.numpy()[:-1], exact=True)


def test_clamp_needs_a_bound() -> None:
    with pytest.raises(TypeError, match="clamp: min and max are both None; give at"):
        ops.clamp(fw.ones(2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("bound", [-0.3, 0.1, 0.7])
def test_bounds_of_two_bytes_are_rounded(
    bound: float, dtype: str, place: Device
) -> None:
    for bounds in ((-9.0, bound), (bound, 9.0), (bound, None), (None, bound)):
        x = fw.tensor([bound], dtype=dtype, device=place, requires_grad=True)
        out = x.clamp(*bounds)
        out.sum().backward()
        assert out.item() == x.item()
        assert x.grad.item() == 1  # as in PyTorch: it is at the bound


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_bounds_of_two_bytes_keep_their_sign(dtype: str) -> None:
    """Also after the other zero was a bound; what no float holds is refused by name."""
    x = fw.tensor([-1.0, 2.0], dtype=dtype)
    signs = [np.signbit(fw.clamp(x, low, 1).float().numpy()[0]) for low in (0.0, -0.0)]
    assert signs == [False, True]
    with pytest.raises(DTypeError, match="clamp: an integer of 1329 bits"):
        fw.clamp(x, 0, 10**400)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (-1.0, -0.5), (1e-40, 1.0), (-1e-300, 0.5), (0.0, 0.0)]
)
def test_the_kind_of_a_bound_does_not_matter(
    bounds: tuple[float, float], dtype: str
) -> None:
    data = torch.tensor([-2.0, -0.75, -1e-39, -0.0, 0.0, 1e-39, 0.6, 3.0, NAN, -INF])
    given = data.to(getattr(torch, dtype)).requires_grad_()
    x = fw.tensor(data.detach().numpy(), device="cpu").to(dtype).requires_grad_()
    found, wanted = x.clamp(*bounds), given.clamp(*bounds)
    found.sum().backward()
    wanted.sum().backward()
    assert given.grad is not None
    np.testing.assert_array_equal(
        found.detach().double().numpy(), wanted.detach().double().numpy()
    )
    np.testing.assert_array_equal(x.grad.double().numpy(), given.grad.double().numpy())
