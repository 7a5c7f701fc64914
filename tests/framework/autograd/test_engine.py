"""The tape and the walk over it; gradients of single ops are in `test_op.py`."""

import weakref
from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.autograd.engine import backward
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import (
    DeviceMismatchError,
    DTypeError,
    GradError,
    ShapeError,
)

Make = Callable[..., fw.Tensor]


def test_same_tensor_twice(make: Make) -> None:
    x = make([1.0, 2.0, 3.0], grad=True)
    (x + x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    x.grad = None
    (x * x * x).sum().backward()
    assert x.grad.tolist() == [3, 12, 27]


def test_diamond(make: Make) -> None:
    x = make([2.0], grad=True)
    shared = x * 3
    left, right = shared.exp(), shared * shared
    (left * right).backward()
    # d/dx of exp(3x) 9x^2
    assert_close(x.grad, np.float32([np.exp(6) * (27 * 4 + 18 * 2)]))


def test_gradients_accumulate(make: Make) -> None:
    x = make([1.0, 2.0], grad=True)
    for _ in range(3):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_leaf_itself(make: Make) -> None:
    x = make(3.0, grad=True)
    x.backward()
    assert x.grad.item() == 1


def test_gradients_of_several_leaves(make: Make) -> None:
    x, y, z = make([1.0], grad=True), make([2.0], grad=True), make([3.0])
    (x * y * z).backward()
    assert (x.grad.tolist(), y.grad.tolist(), z.grad) == ([6], [3], None)
    assert z.is_leaf
    assert not (x * z).is_leaf


def test_leaves_do_not_share_a_gradient(make: Make) -> None:
    x, y = make([1.0], grad=True), make([2.0], grad=True)
    (x + y).backward()
    x.grad.add_(1)
    assert (x.grad.tolist(), y.grad.tolist()) == ([2], [1])


def test_broadcasting_is_undone(make: Make) -> None:
    row, column = make(np.ones((1, 3), np.float32), grad=True), make([[2.0], [3.0]])
    column.requires_grad_()
    number = make(5.0, grad=True)
    (row * column + number).sum().backward()
    assert row.grad.tolist() == [[5, 5, 5]]
    assert column.grad.tolist() == [[3], [3]]
    assert number.grad.item() == 6


def test_gradient_has_the_dtype_of_its_tensor(make: Make) -> None:
    x = make(np.array([1.0, 2.0], np.float16), grad=True)
    y = make([3.0, 4.0], grad=True)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (fw.float16, fw.float32)
    assert x.grad.tolist() == [3, 4]


@pytest.mark.parametrize("depth", [10_000])
def test_deep_chain(depth: int, make: Make) -> None:
    x = make([1.0], grad=True)
    y = x
    for _ in range(depth):
        y = y + 0.5
    y.backward()
    assert x.grad.tolist() == [1]
    assert y.tolist() == [1 + depth / 2]


def test_backward_of_several_elements_needs_grad(make: Make) -> None:
    x = make(np.ones((2, 3), np.float32), grad=True)
    y = x * 2
    with pytest.raises(GradError) as raised:
        y.backward()
    assert str(raised.value) == (
        "backward: the tensor has shape (2, 3); pass gradient= or reduce it to a scalar"
    )
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    y.backward(make(weights))
    assert_close(x.grad, 2 * weights)


def test_grad_of_another_shape(make: Make) -> None:
    y = make(np.ones((2, 3), np.float32), grad=True) * 2
    with pytest.raises(ShapeError) as raised:
        y.backward(make([1.0]))
    assert str(raised.value) == (
        "backward: grad has shape (1,); it must have the tensor's shape (2, 3)"
    )


def test_grad_of_another_dtype(make: Make) -> None:
    x = make(np.ones(3, np.float32), grad=True)
    (x * 2).backward(make(np.ones(3, np.int32)))
    assert x.grad.dtype is fw.float32
    assert x.grad.tolist() == [2, 2, 2]
    with pytest.raises(DTypeError) as raised:
        (x * 2).backward(make(np.ones(3, np.complex64)))
    assert str(raised.value) == (
        "backward: grad is complex64, the tensor float32; both must be complex, or"
        " neither"
    )


def test_grad_on_another_device(gpu: GpuDevice) -> None:
    y = fw.ones(3, device=gpu).requires_grad_() * 2
    with pytest.raises(DeviceMismatchError) as raised:
        y.backward(fw.ones(3))
    assert str(raised.value) == (
        f"backward: grad is on cpu, the tensor on {gpu}; move one with .to()"
    )


def test_nothing_on_the_tape(make: Make) -> None:
    with pytest.raises(GradError) as raised:
        make(1.0).backward()
    assert str(raised.value) == (
        "backward: the tensor does not require a gradient; set requires_grad=True on"
        " something it is computed from"
    )


def test_graph_is_freed(make: Make) -> None:
    x = make([1.0], grad=True)
    y = x.exp()
    y.backward()
    with pytest.raises(GradError) as raised:
        y.backward()
    assert str(raised.value) == (
        "backward: what exp saved was freed by an earlier backward; pass"
        " retain_graph=True to that one"
    )


def test_retain_graph(make: Make) -> None:
    x = make([2.0], grad=True)
    y = x * x
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12]


def test_create_graph(make: Make) -> None:
    x = make([2.0], grad=True)
    (x * x * x).backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    x.grad = None
    first.backward()
    assert (first.tolist(), x.grad.tolist()) == ([12], [12])


def test_third_derivative(make: Make) -> None:
    x = make([0.5, 1.0], grad=True)
    y = x.sin()
    for _ in range(3):
        (y,) = backward([y], [fw.ones_like(y)], create_graph=True, inputs=[x])
    # Vulkan allows sin and cos an absolute error of 2^-11.
    assert_close(y, -np.cos(np.float32([0.5, 1.0])), scale=100)
    assert x.grad is None


def test_gradients_of_inputs(make: Make) -> None:
    x, y, z = make([2.0], grad=True), make([3.0], grad=True), make([1.0], grad=True)
    middle = x * y
    grads = backward([middle * middle], [make([1.0])], inputs=[x, middle, z])
    assert grads[0].tolist() == [36]
    assert grads[1].tolist() == [12]
    assert grads[2] is None
    assert (x.grad, y.grad) == (None, None)


def test_several_outputs_at_once(make: Make) -> None:
    x = make([2.0], grad=True)
    backward([x * 3, x * x], [make([1.0]), make([10.0])])
    assert x.grad.tolist() == [43]


@pytest.mark.parametrize("where", ["leaf", "result"])
def test_hooks(where: str, make: Make) -> None:
    x = make([1.0, 2.0], grad=True)
    hooked = x if where == "leaf" else x * 1.0
    seen: list[list[float]] = []

    def remember(grad: fw.Tensor) -> None:
        seen.append(grad.tolist())

    hooked.register_hook(remember)
    hooked.register_hook(lambda grad: grad * 10)
    (hooked * hooked + hooked).sum().backward()
    # Once, with the sum of all paths.
    assert seen == [[3, 5]]
    assert x.grad.tolist() == [30, 50]


def test_no_grad(make: Make) -> None:
    x = make([1.0], grad=True)
    with fw.no_grad():
        assert not fw.is_grad_enabled()
        assert not (x * 2).requires_grad
        with fw.enable_grad():
            assert (x * 2).requires_grad
    assert fw.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), fw.set_grad_enabled(False):
        raise ZeroDivisionError
    assert fw.is_grad_enabled()

    @fw.no_grad()
    def function() -> bool:
        return (x * 2).requires_grad

    assert not function()
    assert fw.is_grad_enabled()


def test_blocks_without_gradients_nest() -> None:
    block = fw.no_grad()
    with block:
        with fw.enable_grad(), block:
            assert not fw.is_grad_enabled()
        assert not fw.is_grad_enabled()
    assert fw.is_grad_enabled()

    @fw.no_grad()
    def again(depth: int) -> bool:
        with fw.enable_grad():
            inner = depth == 0 or again(depth - 1)
            return inner and fw.is_grad_enabled()

    assert again(2)
    assert fw.is_grad_enabled()


def test_detach_stops_the_gradient(make: Make) -> None:
    x = make([3.0], grad=True)
    (x * x.detach()).backward()
    assert x.grad.tolist() == [3]


@pytest.mark.parametrize(
    "change",
    [lambda x: x.add_(1), lambda x: x[:1].zero_(), lambda x: x.T.mul_(2)],
    ids=["itself", "a slice", "a view"],
)
def test_change_of_what_was_saved(
    change: Callable[[fw.Tensor], fw.Tensor], make: Make
) -> None:
    x, w = make([1.0, 2.0]), make([3.0, 4.0], grad=True)
    y = (x * w).sum()
    change(x)
    with pytest.raises(GradError) as raised:
        y.backward()
    assert str(raised.value) == (
        "backward: `x`, which mul saved, was changed in place: version 1, saved at 0;"
        " change a copy instead"
    )


def test_change_of_what_was_not_saved(make: Make) -> None:
    x, w = make([1.0, 2.0]), make([3.0, 4.0], grad=True)
    y = (x + w).sum()
    x.zero_()
    y.backward()
    assert w.grad.tolist() == [1, 1]


def test_change_of_a_result_that_was_saved(make: Make) -> None:
    x = make([1.0], grad=True)
    y = x.exp()
    with fw.no_grad():
        y.mul_(2)
    with pytest.raises(GradError, match="`out`, which exp saved, was changed in place"):
        y.backward()


def test_op_without_a_rule(make: Make) -> None:
    x = make([1.0, 2.0], grad=True)
    assert not ops.argmax(x).requires_grad
    moments = ops.REGISTRY["batch_norm_moments"](x.reshape(1, 1, 2))[0]
    with pytest.raises(GradError) as raised:
        moments.backward(fw.ones_like(moments))
    assert str(raised.value) == (
        "backward: batch_norm_moments has no gradient rule; use its result under"
        " no_grad() or .detach() it"
    )


@pytest.mark.usefixtures("_no_collector")
def test_tape_is_freed_by_reference_count(make: Make) -> None:
    x = make(np.ones((5, 5), np.float32), grad=True)
    for walked in (False, True):
        hidden = ((x @ x).exp() + x.T).relu()
        out = (hidden[1:].amax(0) * hidden.sum(1)).sum()
        watched = [weakref.ref(hidden), weakref.ref(out)]
        if walked:
            out.backward()
        del hidden, out
        fw.eval()
        assert [each() for each in watched] == [None, None]


@pytest.mark.core
@pytest.mark.usefixtures("_no_collector")
def test_device_memory_is_freed_by_reference_count(gpu: GpuDevice) -> None:
    x = fw.ones((64, 64), device=gpu, requires_grad=True)
    fw.eval()

    def step() -> int:
        out = ((x @ x).tanh() * x).sum()
        out.backward()
        assert out.item() > 0
        x.grad = None
        gpu.gpu.synchronize()
        del out
        return gpu.gpu.memory_stats()["in_use"]

    first = step()
    assert [step() for _ in range(5)] == [first] * 5


def test_a_gradient_can_be_changed_in_place(place: Device) -> None:
    """Also that of a sum, which is one number for all elements."""
    x = fw.ones((2, 3), device=place, requires_grad=True)
    x.sum().backward()
    x.grad.mul_(2)
    x.sum().backward()
    assert x.grad.tolist() == [[3, 3, 3], [3, 3, 3]]


def test_called_on_its_own_recording_is_set_from_then_on() -> None:
    before = fw.is_grad_enabled()
    fw.set_grad_enabled(False)
    assert not fw.is_grad_enabled()
    with fw.enable_grad():
        fw.set_grad_enabled(False)
        assert not fw.is_grad_enabled()
    assert not fw.is_grad_enabled()
    fw.set_grad_enabled(True)
    assert before is fw.is_grad_enabled() is True
    with fw.set_grad_enabled(False):
        assert not fw.is_grad_enabled()
    assert fw.is_grad_enabled()

    @fw.set_grad_enabled(False)
    def inside() -> bool:
        return fw.is_grad_enabled()

    assert fw.is_grad_enabled()
    assert not inside()
    assert fw.is_grad_enabled()


def test_ops_that_save_no_tensor_can_be_passed_again(place: Device) -> None:
    # As `torch.tensor(data, requires_grad=True).to(device)` before a training loop.
    leaf = fw.tensor([1.0, 2.0], requires_grad=True)
    moved = leaf.to(place)[None].reshape(2) + 1
    for _ in range(4):  # The cached pass as well.
        moved.square().sum().backward()
    assert leaf.grad.tolist() == [16, 24]
