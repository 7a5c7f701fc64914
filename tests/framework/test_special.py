"""Special functions beside PyTorch's."""

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.agree import host_reads
from vkbackend.framework.base.device import GpuDevice

X = np.array([-2.5, -1.0, -0.3, 0.0, 0.4, 0.9, 3.0], np.float32)
SHARES = np.array([0.01, 0.2, 0.5, 0.77, 0.999], np.float32)
OF_ONE = {
    **dict.fromkeys(["ndtr", "log_ndtr", "erfcx", "expit"], X),
    **dict.fromkeys(["i0e", "i1", "i1e", "sinc", "exp2"], X),
    **dict.fromkeys(["ndtri", "entr", "logit", "gammaln", "psi"], SHARES),
}
POLYNOMIALS = [name for name in dir(torch.special) if "polynomial" in name]


def compare(name: str, x: np.ndarray, place: str) -> None:
    """Compare a function's values and gradients with PyTorch's."""
    ours = fw.tensor(x, device=place).requires_grad_()
    theirs = torch.tensor(x).requires_grad_()
    found = getattr(fw.special, name)(ours)
    expected = getattr(torch.special, name)(theirs)
    np.testing.assert_allclose(
        found.detach().numpy(), expected.detach().numpy(), 2e-5, 1e-6
    )
    found.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_tensor(name: str, device: vkbackend.Device) -> None:
    for place in ("cpu", device.name):
        compare(name, OF_ONE[name], place)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    x = X[(np.abs(X) < 1) & (X >= 0)] if "shifted" in name else X / 3.1
    ours, theirs = fw.tensor(x), torch.tensor(x)
    for n in (0, 1, 2, 5):
        found = getattr(fw.special, name)(ours, n)
        expected = getattr(torch.special, name)(theirs, n)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)
    degrees = np.arange(len(x))
    found = getattr(fw.special, name)(ours, fw.tensor(degrees))
    expected = getattr(torch.special, name)(theirs, torch.tensor(degrees))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)
    # A fraction of a degree is cut off, and there may be no elements.
    found = getattr(fw.special, name)(ours, fw.tensor(3.7))
    expected = getattr(torch.special, name)(theirs, torch.tensor(3.7))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)
    empty = getattr(fw.special, name)(fw.zeros(0, 1), fw.zeros(0, 3))
    assert empty.shape == (0, 3)
    found = getattr(fw.special, name)(ours, fw.tensor(True))
    expected = getattr(torch.special, name)(theirs, torch.tensor(True))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_in_one_kernel(name: str, quads: GpuDevice) -> None:
    x = np.linspace(0.01 if "shifted" in name else -0.99, 0.99, 70, dtype=np.float32)
    degrees = np.arange(70) % 9 - 1
    ours, n = fw.tensor(x, device=quads), fw.tensor(degrees, device=quads)
    fw.eval(ours, n)
    reads = host_reads(quads)
    with quads.gpu.profile() as profile:
        found = getattr(fw.special, name)(ours, n)
        fw.eval(found)
    assert host_reads(quads) == reads
    assert len(profile.spans) == 1
    expected = getattr(torch.special, name)(torch.tensor(x), torch.tensor(degrees))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)
    for degree in (-1, 0, 1, 6, 7.9):
        found = getattr(fw.special, name)(ours, degree)
        expected = getattr(torch.special, name)(torch.tensor(x), degree)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)
    beyond = fw.tensor([1e5, np.nan, np.inf], device=quads)
    assert np.isnan(getattr(fw.special, name)(ours[:3], beyond).numpy()).all()
    # A gradient is that of the recurrence.
    ours.requires_grad_()
    getattr(fw.special, name)(ours, 2).sum().backward()
    assert ours.grad is not None


def test_special_points_and_out() -> None:
    out = fw.empty(2)
    fw.special.entr(fw.tensor([-1.0, 0.0]), out=out)
    assert out.tolist() == [-np.inf, 0.0]
    assert fw.special.spherical_bessel_j0(fw.tensor([0.0])).tolist() == [1.0]
    assert fw.special.softmax(fw.zeros(2), dim=0).tolist() == [0.5, 0.5]
    assert fw.special.round(fw.tensor([1.25]), decimals=1).tolist() == [
        1.2000000476837158
    ]


def test_every_name_is_pytorchs() -> None:
    assert set(fw.special.__all__) <= set(dir(torch.special))


@pytest.mark.parametrize("degree", [1e30, float("inf"), float("nan")])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degrees_without_end(name: str, degree: float) -> None:
    for n in (degree, fw.tensor(degree)):
        with pytest.raises(RuntimeError, match="must be at most 10000"):
            getattr(fw.special, name)(fw.ones(2), n)


def test_entropy_has_the_signs_of_zeros_that_pytorch_has() -> None:
    values = [0.0, -0.0, 1.0, 2.0, -1.0]
    found, wanted = [
        each.special.entr(each.tensor(values)).tolist() for each in (fw, torch)
    ]
    assert [repr(each) for each in found[:3]] == [repr(each) for each in wanted[:3]]
    assert found[3:] == pytest.approx(wanted[3:])
    half = fw.tensor([0.5], dtype=fw.bfloat16)
    assert fw.special.entr(half).dtype is fw.bfloat16


def test_slopes_of_entropy_are_those_of_pytorch() -> None:
    values = [-1.0, 0.0, 0.3, 1.0, 2.0, float("inf"), float("nan")]
    slopes = []
    for each in (fw, torch):
        x = each.tensor(values, requires_grad=True)
        each.special.entr(x).sum().backward()
        slopes.append(x.grad.tolist())
    assert slopes[0] == pytest.approx(slopes[1], nan_ok=True)
