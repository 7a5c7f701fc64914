"""Matrix products: shapes at the edges of tiles, layouts, batches, precision."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.dispatch.op import REGISTRY

Make = Callable[..., fw.Tensor]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


SIZES = [
    (1, 1, 1),
    (1, 113, 1),
    (113, 1, 3),
    (7, 11, 13),
    (16, 16, 16),
    (17, 31, 33),
    (64, 64, 64),
    (65, 7, 129),
    (100, 300, 10),
    (3, 1031, 2),
]


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_sizes(m: int, k: int, n: int, make: Make) -> None:
    a, b = draw(m, k), draw(k, n, seed=1)
    wanted = (a.astype(np.float64) @ b).astype(np.float32)
    # k terms of size 1/3 in any order.
    assert_close(make(a) @ make(b), wanted, scale=max(4, k**0.5))


LAYOUTS: dict[str, Callable[[fw.Tensor], fw.Tensor]] = {
    "plain": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT,
    "stepped": lambda x: x[..., ::2],
    "offset": lambda x: x[..., 1:, 3:],
    "repeated": lambda x: x[..., :1].expand(*x.shape),
}


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_layouts(first: str, second: str, make: Make) -> None:
    a, b = LAYOUTS[first](make(draw(3, 14, 20))), LAYOUTS[second](make(draw(3, 20, 16)))
    k = min(a.shape[-1], b.shape[-2])
    a, b = a[..., :k], b[..., :k, :]
    assert_close(a @ b, a.numpy() @ b.numpy(), scale=4)  # 20 terms


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5, 3, 7), (7, 4)),
        ((5, 3, 7), (5, 7, 4)),
        ((3, 7), (5, 7, 4)),
        ((2, 1, 3, 7), (5, 7, 4)),
        ((7,), (7, 4)),
        ((3, 7), (7,)),
        ((5, 3, 7), (7,)),
        ((7,), (7,)),
        ((0, 3, 7), (7, 4)),
        ((5, 0, 7), (5, 7, 4)),
        ((3, 0), (0, 4)),
        ((2, 3, 0), (2, 0, 4)),
    ],
)
def test_shapes(first: tuple[int, ...], second: tuple[int, ...], make: Make) -> None:
    a, b = draw(*first), draw(*second, seed=1)
    x, y = make(a, grad=True), make(b, grad=True)
    found = ops.matmul(x, y)
    assert_close(found, np.asarray(a @ b), scale=4)  # 7 terms
    found.sum().backward()
    assert (x.grad.shape, y.grad.shape) == (first, second)


def test_more_products_than_one_grid_dimension_takes(make: Make) -> None:
    a = draw(65_537, 2, 1)
    b = draw(65_537, 1, 2, seed=1)
    assert_close(make(a) @ make(b), a * b, exact=True)


def test_transposed_operands_are_not_copied(make: Make) -> None:
    x = make(draw(5, 7))
    if not x.is_gpu:
        pytest.skip("the host counts no dispatches")
    fw.eval()
    before = x.device.gpu.counters.snapshot()  # type: ignore[attr-defined]
    assert_close(x @ x.mT, x.numpy() @ x.numpy().T, scale=4)  # 7 terms
    counted = x.device.gpu.counters - before  # type: ignore[attr-defined]
    assert counted.dispatches == 1


def test_deep_products_of_float16_sum_in_float32(make: Make) -> None:
    x = make(np.ones((1, 40_000), np.float16))
    if x.is_gpu and not x.device.gpu.info.storage_16bit:  # type: ignore[attr-defined]
        pytest.skip("float16 needs storage_16bit")
    assert (x @ x.mT).item() == 40_000


def test_special_values(make: Make) -> None:
    a = np.array([[np.nan, 1], [np.inf, 1], [0, 1]], np.float32)
    b = np.array([[1, 0], [0, 1]], np.float32)
    with np.errstate(invalid="ignore"):
        assert_close(make(a) @ make(b), a @ b)


def test_a_product_of_matrices_is_one_entry_of_the_tape(make: Make) -> None:
    a, b = make(draw(5, 7)).requires_grad_(), make(draw(7, 3)).requires_grad_()
    node = (a @ b).grad_fn
    assert node is not None
    assert node.name() == "MmBackward0"
    assert [each.variable for each, _ in node.next_functions] == [a, b]


def test_a_product_of_a_matrix_with_itself_does_not_slow_others(
    gpu: fw.device,
) -> None:
    """Of operands that share a value no call is recorded, of the next ones one is."""
    a, b = (fw.tensor(draw(6, 6, seed=seed), device=gpu) for seed in (1, 2))
    for first, second in ((a, a), (a, a), (a, b), (b, a), (a, b)):
        want = first.numpy() @ second.numpy()
        assert_close((first @ second).numpy(), want)
    recorded = [
        each
        for call in REGISTRY["mm"].call_cache.values()
        for each in call.recorded_calls.values()
    ]
    assert None not in recorded
    assert any(each is not None and each.last for each in recorded)
