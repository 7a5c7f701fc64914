"""Backward passes that are repeated: the same gradients, and nothing stale."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, ops
from vkbackend.framework.autograd.backward_cache import MOST_MISSES, CachedBackward
from vkbackend.framework.base.errors import GradError

ROUNDS = 5


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    place: Any = fw.device(device.name)
    place.backward_cache.clear()
    place.backward_misses = 0
    return place


def known(place: Any) -> int:
    """Return how many kinds of walks are known."""
    return sum(type(walk) is CachedBackward for walk in place.backward_cache.values())


def leaves(place: Any, *arrays: np.ndarray) -> list[Any]:
    return [fw.tensor(each, device=place, requires_grad=True) for each in arrays]


def grads(expression: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """Return PyTorch's gradients."""
    peers = [torch.tensor(each, requires_grad=True) for each in arrays]
    expression(*peers).backward()
    return [each.grad.numpy() for each in peers]


def same(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-6)


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "twice": lambda a, b: (a * b + a * a).sum(),
    "broadcast": lambda a, b: (a * b[0] + b.exp()).mean(),
    "product": lambda a, b: (a @ b.T).relu().sum(),
    "parts": lambda a, b: (a[:2] * b[1:3] + a[2:4].T[:4].T).sum(),
    "alone": lambda a, b: a.sum() + (b * 0.5).sum(),
    "views": lambda a, b: (a.reshape(-1) * b.T.reshape(-1)).tanh().sum(),
    "rows": lambda a, b: (a.softmax(-1) * b.log_softmax(0)).sum(),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradients_of_other_values(name: str, place: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(ROUNDS):
        arrays = [rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
        mine = leaves(place, *arrays)
        EXPRESSIONS[name](*mine).backward()
        for leaf, expected in zip(mine, grads(EXPRESSIONS[name], *arrays)):
            same(leaf.grad, expected)
    assert known(place) == 1
    assert place.backward_misses == 0


def test_a_training_loop(place: Any) -> None:
    def model(library: Any) -> Any:
        return library.nn.Sequential(
            library.nn.Conv2d(1, 4, 3, padding=1),
            library.nn.BatchNorm2d(4),
            library.nn.ReLU(),
            library.nn.MaxPool2d(2),
            library.nn.Flatten(),
            library.nn.Linear(64, 5),
        )

    rng = np.random.default_rng(1)
    mine, theirs = model(fw).to(place), model(torch)
    mine.load_state_dict(
        {name: fw.tensor(each.numpy()) for name, each in theirs.state_dict().items()}
    )
    ours = fw.optim.AdamW(mine.parameters(), lr=1e-2)
    peer = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    for _ in range(6):
        x = rng.normal(size=(6, 1, 8, 8)).astype(np.float32)
        y = rng.integers(0, 5, 6)
        ours.zero_grad()
        peer.zero_grad()
        scores = mine(fw.tensor(x, device=place))
        loss = nn.functional.cross_entropy(scores, fw.tensor(y, device=place))
        other = torch.nn.functional.cross_entropy(
            theirs(torch.tensor(x)), torch.tensor(y)
        )
        loss.backward()
        other.backward()
        ours.step()
        peer.step()
        assert loss.item() == pytest.approx(other.item(), rel=1e-4)
    assert known(place) == 1
    assert place.backward_misses == 0


def test_numbers_are_those_of_the_call(place: Any) -> None:
    (x,) = leaves(place, np.ones(3, np.float32))
    for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0, -0.0, -0.0, -0.0):
        x.grad = None
        (x * factor).sum().backward()
        assert x.grad.tolist() == [factor] * 3
        assert np.signbit(x.grad.numpy()).tolist() == [np.signbit(factor)] * 3


def test_numbers_of_any_type_count(place: Any) -> None:
    (x,) = leaves(place, np.ones(3, np.float32))
    for factor in (True, False, np.float32(2), np.float32(3), np.int64(2), np.int64(5)):
        for _ in range(3):
            x.grad = None
            ops.mul(x, factor).sum().backward()
            assert x.grad.tolist() == [float(factor)] * 3
            x.grad = None
            ops.mul(x, type(factor)(0)).sum().backward()
            assert x.grad.tolist() == [0.0] * 3


def test_operands_that_change_places_are_another_kind(place: Any) -> None:
    x, y = leaves(place, np.full(3, 2, np.float32), np.full(3, 5, np.float32))
    for turn in range(12):
        x.grad = y.grad = None
        pair = [(x, y), (y, x), (x, x), (y, y)][turn % 4]
        (pair[0] - pair[1] * pair[1]).sum().backward()
        expected = {id(x): 0.0, id(y): 0.0}
        expected[id(pair[0])] += 1
        expected[id(pair[1])] -= 2 * float(pair[1].detach().numpy()[0])
        for leaf in (x, y):
            if leaf.grad is None:
                assert expected[id(leaf)] == 0
            else:
                assert leaf.grad.tolist() == [expected[id(leaf)]] * 3


def test_calls_in_another_order_are_another_kind(place: Any) -> None:
    """Gradients are added up in that order, whatever was done before."""
    rng = np.random.default_rng(5)
    (x,) = leaves(place, rng.normal(size=50).astype("f4"))
    factors = leaves(place, *rng.normal(size=(3, 50)).astype("f4"))

    def gradient(order: tuple[int, ...]) -> np.ndarray:
        x.grad = None
        made = {k: x * factors[k].detach() for k in order}
        (made[0] + made[1] + made[2]).sum().backward()
        found: np.ndarray = x.grad.numpy()
        return found

    expected = gradient((2, 0, 1))
    for _ in range(ROUNDS):
        gradient((0, 1, 2))
    assert known(place) == 1
    np.testing.assert_array_equal(gradient((2, 0, 1)), expected)


def test_what_was_changed_in_place_is_refused(place: Any) -> None:
    (x,) = leaves(place, np.ones(3, np.float32))
    for turn in range(ROUNDS):
        y = x * 2
        z = y.exp()
        if turn == ROUNDS - 1:
            z.detach().add_(1)
            with pytest.raises(GradError, match="changed in place"):
                z.sum().backward()
        else:
            z.sum().backward()
    out = (x * 2).sum()
    out.backward()
    with pytest.raises(GradError, match="freed by an earlier backward"):
        out.backward()


def test_gradients_add_to_those_that_are_there(place: Any) -> None:
    (x,) = leaves(place, np.ones(3, np.float32))
    for turn in range(1, 8):
        if turn == 4:
            x.grad = None
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0 * (turn if turn < 4 else turn - 3)] * 3


def test_hooks_are_called_each_time(place: Any) -> None:
    (x,) = leaves(place, np.ones(3, np.float32))
    for _ in range(ROUNDS):
        x.grad = None
        (x * 2).sum().backward()
    called = []
    y = x * 2
    y.register_hook(lambda grad: called.append("y"))
    x.grad = None
    y.sum().backward()
    x.register_hook(lambda grad: called.append("x"))
    x.grad = None
    (x * 2).sum().backward()
    assert called == ["y", "x"]


def test_a_leaf_that_wants_no_gradient_any_more(place: Any) -> None:
    x, y = leaves(place, np.ones(3, np.float32), np.ones(3, np.float32))
    for turn in range(9):
        x.grad = y.grad = None
        y.requires_grad_(turn % 3 != 2)
        (x * y).sum().backward()
        assert x.grad.tolist() == [1.0] * 3
        assert (y.grad is None) == (turn % 3 == 2)


def test_seeds_of_another_layout(place: Any) -> None:
    (x,) = leaves(place, np.ones((2, 3), np.float32))
    plain = fw.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=place)
    turned = fw.tensor([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]], device=place).T
    for seed in (plain, plain, plain, turned, turned, turned, plain):
        x.grad = None
        (x * 2).backward(seed)
        assert (x.grad.numpy() == plain.numpy() * 2).all()


def test_each_gradient_is_a_storage_of_its_own(place: Any) -> None:
    for _ in range(ROUNDS):
        x, y = leaves(place, np.ones(3, np.float32), np.ones(3, np.float32))
        (x + y).exp().sum().backward()
        x.grad.mul_(0.0)
        assert x.grad.tolist() == [0.0] * 3
        assert y.grad.numpy() == pytest.approx(np.exp(2.0))


def test_dropout_keeps_where_the_forward_pass_did(place: Any) -> None:
    (x,) = leaves(place, np.ones(64, np.float32))
    kept = []
    for _ in range(6):
        x.grad = None
        out = nn.functional.dropout(x, 0.5)
        out.sum().backward()
        assert (x.grad.numpy() == out.detach().numpy()).all()
        kept.append(x.grad.numpy().tobytes())
    assert len(set(kept)) == 6


def test_rules_that_are_not_the_librarys_run_each_time(place: Any) -> None:
    from vkbackend.framework.dispatch.declare import composite
    from vkbackend.framework.dispatch.op import REGISTRY

    times = []

    @composite(dtypes=(fw.float32,))
    def counted(x: "fw.Tensor") -> "fw.Tensor":
        """Double."""
        return x * 2

    @counted.vjp
    def rule(grad: Any) -> Any:
        times.append(len(times) + 1)
        return grad * float(len(times))

    try:
        (x,) = leaves(place, np.ones(2, np.float32))
        for turn in range(1, ROUNDS + 1):
            x.grad = None
            counted(x).sum().backward()
            assert x.grad.tolist() == [turn, turn]
    finally:
        del REGISTRY["counted"]
    assert times == [1, 2, 3, 4, 5]


def test_longer_than_what_may_be_pending(place: Any) -> None:
    (x,) = leaves(place, np.full(4, 0.5, np.float32))
    for _ in range(3):
        x.grad = None
        y = x
        for _ in range(600):
            y = y * 1.001
        y.sum().backward()
        assert x.grad.numpy() == pytest.approx(1.001**600, rel=1e-3)


def test_walks_that_never_come_again_are_seldom_looked_up(place: Any) -> None:
    (x,) = leaves(place, np.ones(2, np.float32))
    for turn in range(3 * MOST_MISSES):
        x.grad = None
        (x * float(turn)).sum().backward()
        assert x.grad.tolist() == [turn, turn]
    assert known(place) == 0
    assert len(place.backward_cache) < 2 * MOST_MISSES


def test_another_era_is_another_kind(place: Any) -> None:
    before = fw.get_float32_matmul_precision()
    x, y = leaves(place, np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32))
    try:
        for precision in ("highest", "high"):
            fw.set_float32_matmul_precision(precision)
            for _ in range(3):
                x.grad = y.grad = None
                (x @ y).sum().backward()
    finally:
        fw.set_float32_matmul_precision(before)
    assert known(place) == 2


class _Tripled(fw.autograd.Function):
    """A rule that the library does not know, which counts its calls."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        _Tripled.calls += 1
        return grad * 3


class _Swapped(fw.autograd.Function):
    """Two outputs, of which the second is the first input."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return y * 1, x * 1

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return second, first


def test_segments_around_a_users_function_are_replayed(place: Any) -> None:
    rng = np.random.default_rng(2)
    _Tripled.calls = 0
    for turn in range(ROUNDS):
        arrays = [rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
        a, b = leaves(place, *arrays)
        (_Tripled.apply((a * b).tanh()) * b.exp()).sum().backward()
        expected = grads(lambda a, b: (3 * (a * b).tanh() * b.exp()).sum(), *arrays)
        for leaf, wanted in zip((a, b), expected):
            same(leaf.grad, wanted)
        assert _Tripled.calls == turn + 1
    assert known(place) == 2
    assert place.backward_misses == 0


def test_functions_of_several_outputs_divide_a_pass(place: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(ROUNDS):
        arrays = [rng.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]
        a, b = leaves(place, *arrays)
        first, second = _Swapped.apply(a.exp(), b.tanh())
        (first * second + second * second * first).sum().backward()

        def expression(a: Any, b: Any) -> Any:
            return (b.tanh() * a.exp() + a.exp() * a.exp() * b.tanh()).sum()

        for leaf, wanted in zip((a, b), grads(expression, *arrays)):
            same(leaf.grad, wanted)
    assert known(place) == 2


def test_segments_add_to_gradients_that_have_arrived(place: Any) -> None:
    """One leaf, and one node, that both segments and the function lead to."""
    rng = np.random.default_rng(4)
    for _ in range(ROUNDS):
        (array,) = (rng.normal(size=(4, 4)).astype(np.float32),)
        (a,) = leaves(place, array)
        inner = a.exp()
        outer = _Tripled.apply(inner * a)
        (outer * inner + outer * a + inner * a).sum().backward()

        def expression(a: Any) -> Any:
            outer = 3 * a.exp() * a
            return (outer * a.exp() + outer * a + a.exp() * a).sum()

        same(a.grad, grads(expression, array)[0])
    assert known(place) == 2


def test_slices_arrive_across_segments(place: Any) -> None:
    rng = np.random.default_rng(6)
    for _ in range(ROUNDS):
        array = rng.normal(size=(4, 4)).astype(np.float32)
        (a,) = leaves(place, array)
        (_Tripled.apply(a[:2] * 2)[1:] * a[1:3].tanh() + a[3:]).sum().backward()

        def expression(a: Any) -> Any:
            return ((a[:2] * 6)[1:] * a[1:3].tanh() + a[3:]).sum()

        same(a.grad, grads(expression, array)[0])


def test_gradients_accumulate_after_replays(place: Any) -> None:
    rng = np.random.default_rng(7)
    a, b = leaves(place, *rng.normal(size=(2, 3, 3)).astype("f4"))
    for _ in range(3):
        a.grad = b.grad = None
        (a @ b).tanh().sum().backward()
    once = a.grad.numpy(), b.grad.numpy()
    nodes = fw.autograd.engine.BackwardPass.visit
    try:
        fw.autograd.engine.BackwardPass.visit = None  # type: ignore[assignment,method-assign]  # no rule may run
        (a @ b).tanh().sum().backward()
    finally:
        fw.autograd.engine.BackwardPass.visit = nodes  # type: ignore[method-assign]
    for leaf, first in zip((a, b), once):
        np.testing.assert_array_equal(leaf.grad.numpy(), first + first)


def test_passes_that_keep_what_was_saved(place: Any) -> None:
    rng = np.random.default_rng(8)
    array = rng.normal(size=(3, 3)).astype(np.float32)
    (a,) = leaves(place, array)
    expected = grads(lambda a: (a.exp() * a).sum(), array)[0]
    for _ in range(ROUNDS):
        out = (a.exp() * a).sum()
        for _ in range(2):
            a.grad = None
            out.backward(retain_graph=True)
            same(a.grad, expected)
        a.grad = None
        out.backward()
        same(a.grad, expected)
        with pytest.raises(GradError, match="freed by an earlier backward"):
            out.backward()
    assert known(place) >= 2


def test_gradients_of_some_tensors(place: Any) -> None:
    rng = np.random.default_rng(9)
    for _ in range(ROUNDS):
        arrays = rng.normal(size=(2, 3, 3)).astype("f4")
        a, b = leaves(place, *arrays)
        inner = a.exp() * b
        found = fw.autograd.grad((inner.tanh() * b).sum(), [inner, b])
        peers = [torch.tensor(each, requires_grad=True) for each in arrays]
        other = peers[0].exp() * peers[1]
        wanted = torch.autograd.grad((other.tanh() * peers[1]).sum(), [other, peers[1]])
        for mine, theirs in zip(found, wanted):
            same(mine, theirs.numpy())
        assert a.grad is None
        assert b.grad is None


def test_leaves_with_hooks_accumulate_in_the_order_of_rules(place: Any) -> None:
    a, b = leaves(place, *np.ones((2, 3), np.float32))
    order: list[str] = []
    a.register_post_accumulate_grad_hook(lambda leaf: order.append("a"))
    b.register_post_accumulate_grad_hook(lambda leaf: order.append("b"))
    for _ in range(ROUNDS):
        a.grad = b.grad = None
        order.clear()
        ((a.exp() * 2).tanh() * b).sum().backward()
        assert order == ["b", "a"]


def test_pieces_of_a_replay(place: Any) -> None:
    """A device with processors of its own computes the first while others are made."""
    (x,) = leaves(place, np.full(4, 0.5, np.float32))
    before = place.first_submitted
    place.first_submitted = place.max_pending = 16
    try:
        counts = []
        for _ in range(ROUNDS):
            x.grad = None
            y = x
            for _ in range(40):
                y = (y * 1.001).tanh()
            fw.eval(y)
            start = place.gpu.counters.snapshot()
            y.sum().backward()
            counts.append((place.gpu.counters.snapshot() - start).submits)
            peer = torch.full((4,), 0.5, requires_grad=True)
            other = peer
            for _ in range(40):
                other = (other * 1.001).tanh()
            other.sum().backward()
            assert peer.grad is not None
            same(x.grad, peer.grad.numpy())
    finally:
        place.first_submitted = place.max_pending = before
    assert known(place) == 1
    assert counts[-1] > 2
    assert counts[-1] == counts[-2]
