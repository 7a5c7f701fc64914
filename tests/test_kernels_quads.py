"""Kernels with register-resident rows, against NumPy."""

import numpy as np
import pytest

from tests.kernel_run import Array, close, linear, random, run
from vkbackend import Device

# Rows of one subgroup, of many, ragged and not, with several to a workgroup, and with
# more or fewer quads than are held. What an invocation holds is unrolled, so of long
# rows software compiles the kernel for seconds where its subgroups are small.
SHAPES = [(37, 128), (5, 113), (3, 256), (7, 253), (1, 1), (9, 29), (130, 64)]
LONG = [(3, 2048), (7, 1021)]


@pytest.fixture(
    params=[*SHAPES, *(pytest.param(each, marks=pytest.mark.gpu) for each in LONG)],
    ids=str,
)
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    chosen: tuple[int, int] = request.param
    return chosen


@pytest.fixture(params=[1, 4], ids="subgroups={}".format)
def subgroups(request: pytest.FixtureRequest, device: Device) -> int:
    if not device.info.subgroup_arithmetic:
        pytest.skip("the device has no subgroup arithmetic")
    count: int = request.param
    return count


def tile(device: Device, count: int, subgroups: int) -> tuple[dict[str, int], int]:
    """Return the constants for rows of `count`, and how many a workgroup has."""
    group = device.info.subgroup_size * subgroups
    per_workgroup = max(1, 32 // group)
    quads = count // 4 if count % 4 == 0 else (count + 6) // 4
    constants = {"LOCAL_X": group * per_workgroup, "GROUP": group}
    kept = -(-quads // group)
    ends = 2 if count % 4 else int(quads < kept * group)
    constants |= {"REGISTERS": kept, "ENDS": ends}
    return constants, per_workgroup


def softmax(x: Array) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("logarithm", [0, 1])
def test_softmax(
    device: Device, shape: tuple[int, int], subgroups: int, logarithm: int
) -> None:
    rows, count = shape
    constants, per_workgroup = tile(device, count, subgroups)
    constants["LOGARITHM"] = logarithm
    grid = linear(-(-rows // per_workgroup))
    x = random(*shape) * 20
    # Some subgroups have nothing, and the rest is far from 0.
    x[-1] -= 200
    x[-1, : count // 2] = -np.inf
    sizes = {"rows": rows, "count": count}
    outputs = {"out_": (shape, np.float32)}
    (out,) = run(
        device, "norm/softmax_registers", grid, outputs, constants, {"x": x, **sizes}
    )
    expected = softmax(x)
    with np.errstate(divide="ignore"):
        wanted = np.log(expected) if logarithm else expected
    np.testing.assert_allclose(
        out, wanted, rtol=2e-5, atol=1e-5 if logarithm else 1e-37
    )

    grad, y = random(*shape, seed=1), random(*shape, seed=2)
    (out,) = run(
        device,
        "norm/softmax_vjp_registers",
        grid,
        outputs,
        constants,
        {"grad": grad, "y": y, **sizes},
    )
    exact, own = grad.astype(np.float64), y.astype(np.float64)
    wanted = own * (exact - (exact * own).sum(axis=1, keepdims=True))
    if logarithm:
        wanted = exact - np.exp(own) * exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4 * count**0.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_softmax_of_what_is_no_number(
    device: Device, subgroups: int, bad: float
) -> None:
    x = random(4, 101)
    x[0] = -np.inf
    x[2, 50] = bad
    constants, per_workgroup = tile(device, 101, subgroups)
    (out,) = run(
        device,
        "norm/softmax_registers",
        linear(-(-4 // per_workgroup)),
        {"out_": (x.shape, np.float32)},
        constants,
        {"x": x, "rows": 4, "count": 101},
    )
    assert np.isnan(out[[0, 2]]).all()
    np.testing.assert_allclose(out[[1, 3]], softmax(x[[1, 3]]), rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("centred", [0, 1])
def test_row_norm(
    device: Device, shape: tuple[int, int], subgroups: int, centred: int
) -> None:
    rows, count = shape
    x = random(*shape) + np.float32(10)
    weight, bias = random(count, seed=3), random(count, seed=4)
    constants, per_workgroup = tile(device, count, subgroups)
    constants |= {"CENTRED": centred, "HAS_WEIGHT": 1, "HAS_BIAS": centred}
    each = ((rows,), np.float32)
    sizes = {"rows": rows, "count": count}
    out, mean, inverse_std = run(
        device,
        "norm/layer_norm_registers",
        linear(-(-rows // per_workgroup)),
        {"out_": (shape, np.float32), "mean": each, "inverse_std": each},
        constants,
        {"x": x, "weight": weight, "bias": bias, "eps": 1e-3, **sizes},
    )
    exact = x.astype(np.float64)
    middle = exact.mean(axis=1, keepdims=True) if centred else 0.0
    scale = 1 / np.sqrt(((exact - middle) ** 2).mean(axis=1, keepdims=True) + 1e-3)
    y = (exact - middle) * scale
    np.testing.assert_allclose(out, y * weight + bias * centred, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(inverse_std, scale[:, 0], rtol=1e-5)
    if centred:
        np.testing.assert_allclose(mean, exact.mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("turns", [1, 3])
def test_row_norm_vjp(device: Device, subgroups: int, centred: int, turns: int) -> None:
    rows, count = 11, 132
    grad, x = random(rows, count), random(rows, count, seed=1)
    weight, mean = random(count, seed=2), random(rows, seed=3) * centred
    inverse_std = np.abs(random(rows, seed=4)) + np.float32(0.5)
    constants, _ = tile(device, count, subgroups)
    constants |= {"CENTRED": centred, "HAS_WEIGHT": 1}
    constants["LOCAL_X"] = constants["GROUP"]
    partial = ((turns, count), np.float32)
    out, products, sums = run(
        device,
        "norm/layer_norm_vjp_registers",
        (turns, 1, 1),
        {"out_": (x.shape, np.float32), "products": partial, "sums": partial},
        constants,
        {
            "grad": grad,
            "x": x,
            "weight": weight,
            "mean": mean,
            "inverse_std": inverse_std,
            "rows": rows,
            "count": count,
        },
    )
    y = (x.astype(np.float64) - mean[:, None]) * inverse_std[:, None]
    h = grad * weight.astype(np.float64)
    inner = h - y * (h * y).mean(axis=1, keepdims=True)
    inner -= h.mean(axis=1, keepdims=True) * centred
    np.testing.assert_allclose(out, inner * inverse_std[:, None], rtol=1e-4, atol=1e-4)
    for turn in range(turns):
        close(products[turn], (grad * y)[turn::turns].sum(axis=0), 100)
        close(sums[turn], grad[turn::turns].sum(axis=0), 100)
