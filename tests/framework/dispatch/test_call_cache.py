"""Calls that come again: short, and with the results of the first one."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import vkbackend.framework as fw
from tests import program as running
from tests.program import Program
from tests.program_steps import programs
from tests.reproducible import differing, run_program
from tests.search import search
from vkbackend.framework import ops
from vkbackend.framework.autograd.backward_cache import CachedBackward
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DeviceMismatchError, DTypeError, ShapeError
from vkbackend.framework.dispatch.call_cache import (
    MOST_CACHED_CALLS,
    CallCache,
    call_key,
)
from vkbackend.framework.dispatch.movement import Movement
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.dispatch.primitive import Primitive
from vkbackend.framework.eager.base_tensor import TensorCore
from vkbackend.framework.ops import view


class Pair(NamedTuple):
    """Two numbers, as options of ops are given."""

    first: int
    second: int


def test_what_tells_calls_apart() -> None:
    x, y = fw.ones((2, 3)), fw.ones((2, 3))
    assert (
        call_key((x, 1, "sum", None, (0,)))[0] == call_key((y, 1, "sum", None, (0,)))[0]
    )
    (tensor,) = call_key((x, 1))[1]
    assert tensor is x
    keys = [
        call_key(args)[0]
        for args in (
            (x, 1),
            (x, 1.0),
            (x, True),
            (x, None),
            (x.T, 1),
            (x.int(), 1),
            (x, x, 1),
            (x, (1, 2)),
            (x, Pair(1, 2)),
            (x, (1, 2.0)),
            (x, (1, 0.0)),
            (x, (1, -0.0)),
            (x, (True, 2)),
            (x, 0.0),
            (x, -0.0),
            (x, (1, (2, 3))),
            (x, (1, (2, True))),
        )
    ]
    assert len(set(keys)) == len(keys)
    # Such a one may be changed, or be another one each time.
    assert call_key((x, [1]))[0] == ()
    assert call_key((x, np.float32(1)))[0] == ()
    assert call_key((x, (1, (2, [3]))))[0] == ()


def test_zeros_of_both_signs_are_two_numbers(make: Callable[..., fw.Tensor]) -> None:
    x = make(np.ones(3, np.float32))
    for value in (0.0, -0.0, 0.0):
        edge = fw.nn.functional.pad(x, (1, 0), value=value).numpy()[0]
        assert np.signbit(edge) == np.signbit(value)


def test_lists_within_tuples_are_refused_in_words(
    make: Callable[..., fw.Tensor],
) -> None:
    x = make(np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match="reshape"):
        x.reshape(([3], 2))


def test_second_calls_take_other_elements(gpu: GpuDevice) -> None:
    for step in range(3):
        base = np.arange(24, dtype=np.float32).reshape(4, 6) + step
        x = fw.tensor(base, device=gpu)
        assert x.reshape(6, 4).tolist() == base.reshape(6, 4).tolist()
        # No view: the elements are copied first.
        assert x.T.reshape(-1).tolist() == base.T.reshape(-1).tolist()
        assert x.sum(step % 2).tolist() == base.sum(step % 2).tolist()
        # A kernel that reads rows in order, given columns.
        assert np.allclose(x.T.cumsum(1).numpy(), base.T.cumsum(1))
        values, places = x.max(1)
        assert values.tolist() == base.max(1).tolist()
        assert places.tolist() == base.argmax(1).tolist()


def test_a_view_that_is_gone_leaves_no_trace(gpu: GpuDevice) -> None:
    """Layouts are named by identity: one that died must not be taken for another."""
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = fw.tensor(base, device=gpu)
    for step in range(40):
        rows, columns = step % 3, step % 2
        view = x[rows:, columns:]
        wanted = base[rows:, columns:]
        assert view.T.tolist() == wanted.T.tolist()
        assert view.reshape(-1).tolist() == wanted.reshape(-1).tolist()
        assert view.sum(0).tolist() == wanted.sum(0).tolist()
        del view


def test_second_calls_are_checked_as_the_first(gpu: GpuDevice) -> None:
    a, b = fw.ones((2, 3), device=gpu), fw.ones((3, 2), device=gpu)
    for _ in range(2):
        assert (a @ b).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(ShapeError):
        a @ a
    with pytest.raises(DTypeError):
        a @ b.int()
    with pytest.raises(DeviceMismatchError):
        a @ b.cpu()
    assert (a.cpu() @ b.cpu()).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("create", [False, True])
def test_second_calls_leave_the_same_tape(create: bool, gpu: GpuDevice) -> None:
    x = fw.tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=gpu)
    x.requires_grad_()
    found = []
    for _ in range(3):
        loss = (x.T.reshape(-1).cumsum(0) * x.reshape(-1)).sum()
        x.grad = None
        loss.backward(create_graph=create)
        assert x.grad is not None
        assert x.grad.requires_grad == create
        found.append(x.grad.tolist())
        with fw.no_grad():
            assert not x.T.requires_grad
            assert not x.sum(0).requires_grad
        assert not x.detach().T.sum(0).requires_grad
    assert found[0] == found[1] == found[2]


def test_what_a_device_can_do_is_asked_again(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    if not info.shader_float64:
        pytest.skip("the device has no float64")
    x = fw.tensor(np.ones((2, 2)), device=gpu)
    fw.eval(x @ x)
    lacking = dataclasses.replace(info, supported=info.supported - {"shader_float64"})
    monkeypatch.setattr(gpu.gpu, "info", lacking)
    with pytest.raises(DTypeError, match="has no shader_float64"):
        x @ x


def test_results_are_of_the_class_of_the_first_tensor(gpu: GpuDevice) -> None:
    class Own(fw.Tensor):
        pass

    plain = fw.ones((2, 2), device=gpu)
    own = Own.make(plain.array, plain.layout, plain.device)
    for _ in range(2):
        for x, kind in ((plain, fw.Tensor), (own, Own)):
            assert type(x.sum(0)) is kind
            assert type(x.T) is kind
            assert type(x.reshape(-1)) is kind


@pytest.mark.parametrize("name", ["view", "sum"])
def test_what_is_known_is_bounded(
    name: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = REGISTRY[name]
    assert isinstance(op, Movement | Primitive)
    cache: CallCache[Any] = CallCache()
    for k in range(MOST_CACHED_CALLS):
        cache.add((k,), None)
    monkeypatch.setattr(op, "call_cache", cache)
    x = fw.tensor(np.arange(4, dtype=np.float32).reshape(2, 2), device=gpu)
    for _ in range(2):
        wanted = {"view": [0.0, 1.0, 2.0, 3.0], "sum": [[2.0, 4.0]]}[name]
        found = view.reshape(x, (-1,)) if name == "view" else op(x, (0,), x.dtype)
        assert found.tolist() == wanted
        assert len(op.call_cache) <= 2


def test_a_second_call_in_a_trace_is_replayed(gpu: GpuDevice) -> None:
    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        return ops.softmax(x.T.reshape(3, 2), 1).sum(0) + x.sum(0)[:2]

    for k in range(4):
        base = np.arange(6, dtype=np.float32).reshape(2, 3) + k
        x = fw.tensor(base, device=gpu)
        turned = np.exp(base.T - base.T.max(1, keepdims=True))
        expected = (turned / turned.sum(1, keepdims=True)).sum(0) + base.sum(0)[:2]
        assert np.allclose(step(x).numpy(), expected, rtol=1e-5)
    assert step.traces == 1


def test_tensors_hold_no_tape_of_an_earlier_call(gpu: GpuDevice) -> None:
    """What is remembered names layouts and forms, never a tensor or its memory."""
    x = fw.ones((5, 7), device=gpu, requires_grad=True)
    fw.eval((x.T @ x).sum())
    for op in REGISTRY.values():
        for known in getattr(op, "call_cache", {}).values():
            assert not any(isinstance(each, TensorCore) for each in known)


def clear_caches(gpu: GpuDevice) -> None:
    """Drop all that is cached by calls, plans and backward passes."""
    for op in REGISTRY.values():
        if hasattr(op, "call_cache"):
            op.call_cache.clear()
    gpu.plans.clear()
    gpu.backward_cache.clear()


def spoil_caches(gpu: GpuDevice) -> None:
    """Make all that is cached of no use: who takes it fails."""
    for op in REGISTRY.values():
        cache: dict[Any, Any] = getattr(op, "call_cache", {})
        for key, cached in cache.items():
            names = {"signature", "layout", "recorded_calls"} & {*cached._fields}
            cache[key] = cached._replace(**dict.fromkeys(names))
    for key in gpu.plans:
        gpu.plans[key] = object()  # type: ignore[assignment]
    for key, known in gpu.backward_cache.items():
        if isinstance(known, CachedBackward):
            gpu.backward_cache[key] = known._replace(recorded_nodes=None)  # type: ignore[arg-type]


def run_with(
    program: Program, gpu: GpuDevice, before: Callable[[int], None]
) -> list[np.ndarray | None]:
    """Run a program; `before` is called with the number of each step before it."""
    numbers = iter(range(len(program.steps)))
    usual = running.our_function

    def our_function(name: str) -> Callable[..., Any]:
        before(next(numbers))
        return usual(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "our_function", our_function)
        return [*run_program(program, gpu, jitted=False)]


def check_generations(program: Program, gpu: GpuDevice, begins: bool) -> None:
    """Spoil caches at a random step, with or without beginning a generation."""
    at = random.Random(program.seed).randrange(len(program.steps))

    def spoil(number: int) -> None:
        if number == at:
            spoil_caches(gpu)
            if begins:
                gpu.begin_generation()

    expected = run_with(program, gpu, lambda number: clear_caches(gpu))
    try:
        # The third backward pass over a tape is replayed.
        for _ in range(3):
            assert not differing(expected, run_with(program, gpu, lambda number: None))
        found = run_with(program, gpu, spoil)
    finally:
        gpu.begin_generation()
    assert not differing(expected, found), repr(program)


@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.wide)])
def test_a_generation_that_begins_at_any_step_changes_no_result(
    count: int, gpu: GpuDevice
) -> None:
    search(
        programs(),
        lambda program: check_generations(program, gpu, begins=True),
        count,
        5,
        shrink=False,
    )


def test_entries_of_this_generation_are_taken(gpu: GpuDevice) -> None:
    """Without a new generation the programs above meet what was spoilt."""
    with pytest.raises(AttributeError, match=r"'(NoneType|object)' object has no"):
        search(
            programs(),
            lambda program: check_generations(program, gpu, begins=False),
            20,
            5,
            shrink=False,
        )
    fw.eval()
    clear_caches(gpu)
