"""Initial values: distributions, repeatability, equality across devices."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import init

SHAPE = (61, 37, 3, 3)
FILLS: list[tuple[Callable[..., object], Callable[..., object], dict[str, object]]] = [
    (init.uniform_, torch.nn.init.uniform_, {"a": -2.0, "b": 5.0}),
    (init.normal_, torch.nn.init.normal_, {"mean": 3.0, "std": 0.5}),
    (init.xavier_uniform_, torch.nn.init.xavier_uniform_, {"gain": 2.0}),
    (init.xavier_normal_, torch.nn.init.xavier_normal_, {}),
    (init.kaiming_uniform_, torch.nn.init.kaiming_uniform_, {"a": math.sqrt(5)}),
    (init.kaiming_uniform_, torch.nn.init.kaiming_uniform_, {"mode": "fan_out"}),
    (init.kaiming_normal_, torch.nn.init.kaiming_normal_, {"nonlinearity": "relu"}),
]


@pytest.mark.parametrize(("ours", "theirs", "options"), FILLS)
def test_distributions_are_pytorchs(
    ours: Callable[..., object],
    theirs: Callable[..., object],
    options: dict[str, object],
) -> None:
    found, expected = fw.zeros(SHAPE), torch.zeros(SHAPE)
    assert ours(found, **options) is found
    torch.manual_seed(0)
    theirs(expected, **options)
    # Of 20,000 draws, these quantiles vary by 1 to 2 % of the spread.
    spread = float(expected.std())
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    np.testing.assert_allclose(
        np.quantile(found.numpy(), shares),
        np.quantile(expected.numpy(), shares),
        atol=0.05 * spread,
    )


def test_constants() -> None:
    x = fw.zeros(3, requires_grad=True)
    assert init.constant_(x, 2.5).tolist() == [2.5] * 3
    assert init.ones_(x).tolist() == [1.0] * 3
    assert init.zeros_(x).tolist() == [0.0] * 3
    assert x.requires_grad


def test_a_seed_repeats_the_draws() -> None:
    draws = []
    for _ in range(2):
        fw.manual_seed(7)
        draws.append(init.normal_(fw.zeros((5, 7))).numpy())
    assert_close(draws[0], draws[1], exact=True)
    assert not np.array_equal(draws[0], init.normal_(fw.zeros((5, 7))).numpy())


@pytest.mark.core
@pytest.mark.parametrize("fill", [init.uniform_, init.normal_, init.kaiming_uniform_])
def test_devices_draw_the_same(
    fill: Callable[[fw.Tensor], fw.Tensor], gpu: GpuDevice
) -> None:
    fw.manual_seed(3)
    host = fill(fw.zeros((11, 29)))
    fw.manual_seed(3)
    device = fill(fw.zeros((11, 29), device=gpu))
    assert device.is_gpu
    assert_close(device, host.numpy(), exact=True)


@pytest.mark.parametrize(
    "name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu"]
)
def test_gains_are_pytorchs(name: str) -> None:
    param = 0.2 if name == "leaky_relu" else 0.01
    expected = torch.nn.init.calculate_gain(name, param)  # type: ignore[arg-type]
    assert init.calculate_gain(name, param) == pytest.approx(expected)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="calculate_gain: nonlinearity is 'step'"):
        init.calculate_gain("step")
    with pytest.raises(ValueError, match="mode is 'fan'; it must be 'fan_in' or"):
        init.kaiming_uniform_(fw.zeros((2, 2)), mode="fan")
    with pytest.raises(ShapeError, match=r"xavier_uniform_: the tensor is \(3,\)"):
        init.xavier_uniform_(fw.zeros(3))


def test_cut_normals() -> None:
    found = init.trunc_normal_(fw.zeros(20000), 1.0, 2.0, -1.0, 2.0).numpy()
    torch.manual_seed(0)
    expected = torch.nn.init.trunc_normal_(torch.zeros(20000), 1.0, 2.0, -1.0, 2.0)
    shares = (0.02, 0.25, 0.5, 0.75, 0.98)
    quantiles = [np.quantile(each, shares) for each in (found, expected.numpy())]
    np.testing.assert_allclose(*quantiles, atol=0.04)
    assert found.min() >= -1
    assert found.max() <= 2


def test_quantiles_of_the_normal_distribution() -> None:
    x = np.linspace(-8, 8, 101)
    distribution = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in x])
    lower = x <= 4  # above, the distribution function is too close to 1
    found = init._normal_quantiles(distribution)
    np.testing.assert_allclose(found[lower], x[lower], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 4, 2), (1, 6)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    tensor = fw.zeros(shape)
    assert init.orthogonal_(tensor, 2.0) is tensor
    matrix = tensor.numpy().reshape(shape[0], -1)
    product = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_matrices_are_uniform() -> None:
    # Of a uniform rotation or reflection each element has mean 0 and variance 1 / n.
    drawn = np.array([init.orthogonal_(fw.zeros((2, 2))).numpy() for _ in range(400)])
    assert np.abs(drawn.mean(0)).max() < 0.15
    assert abs((np.linalg.det(drawn) > 0).mean() - 0.5) < 0.1


def test_patterns() -> None:
    for name, shape, options in (
        ("eye_", (3, 5), {}),
        ("dirac_", (4, 2, 3), {"groups": 2}),
        ("dirac_", (3, 5, 3, 4), {}),
    ):
        found, expected = fw.ones(shape), torch.ones(shape)
        getattr(init, name)(found, **options)
        getattr(torch.nn.init, name)(expected, **options)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_sparse_columns() -> None:
    found = init.sparse_(fw.ones((10, 50)), 0.25, std=2.0).numpy()
    assert ((found == 0).sum(0) == 3).all()
    assert 1.7 < found[found != 0].std() < 2.3


def test_a_generator_of_its_own() -> None:
    draws = [
        init.uniform_(fw.zeros(5), generator=fw.Generator().manual_seed(3)).tolist()
        for _ in range(2)
    ]
    assert draws[0] == draws[1]


def test_names_without_underscore() -> None:
    with pytest.warns(FutureWarning, match="init.constant is deprecated"):
        assert init.constant(fw.zeros(2), 3.0).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("name", "options"),
    [("eye_", {}), ("sparse_", {"sparsity": 0.1}), ("orthogonal_", {}), ("dirac_", {})],
)
def test_too_few_dimensions(name: str, options: dict[str, float]) -> None:
    with pytest.raises(ShapeError, match=f"{name}: the tensor is"):
        getattr(init, name)(fw.zeros(3), **options)


def test_complex_numbers_have_two_drawn_parts() -> None:
    fw.manual_seed(0)
    drawn = init.normal_(fw.empty(4000, dtype=fw.complex64), 1.0, 2.0).numpy()
    for part in (drawn.real, drawn.imag):
        assert part.mean() == pytest.approx(1.0, abs=0.1)
        assert part.std() == pytest.approx(2.0**0.5, abs=0.05)
    drawn = init.uniform_(fw.empty(4000, dtype=fw.complex64), -1.0, 3.0).numpy()
    for part in (drawn.real, drawn.imag):
        assert -1 <= part.min() < -0.95
        assert 2.95 < part.max() < 3
