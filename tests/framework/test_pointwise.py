"""Element-wise ops: what a call leaves for the next one like it."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.errors import DeviceMismatchError, DTypeError
from vkbackend.framework.op import REGISTRY
from vkbackend.framework.pointwise import MOST_SHORTCUTS, Elementwise


def test_a_shortcut_does_not_outlive_what_it_was_for(gpu: GpuDevice) -> None:
    """The second call of each pair differs in one thing that the first one settled."""
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = fw.tensor(base, device=gpu)
    for step in range(40):
        view = x[step % 3 :, step % 2 :]
        assert (view + 1).tolist() == (base[step % 3 :, step % 2 :] + 1).tolist()
        del view
    assert (x * 2).dtype is fw.int32
    assert (x * 2.0).dtype is fw.float32
    assert (x * True).dtype is fw.int32
    y = x.float()
    for factor in (2.0, 3.5, 3, np.float32(0.5), 2.0):
        assert (y * factor).tolist() == (base * np.float32(factor)).tolist()
    with pytest.raises(DTypeError, match="holds"):
        x * 2**40
    with pytest.raises(TypeError, match="no operand"):
        REGISTRY["mul"](x, "2")
    with pytest.raises(DeviceMismatchError):
        REGISTRY["mul"](x, fw.ones(4))
    assert REGISTRY["cast"](x, fw.float16).dtype is fw.float16
    assert REGISTRY["cast"](x, fw.float32).dtype is fw.float32


def test_a_shortcut_leaves_the_same_tape(gpu: GpuDevice) -> None:
    x = fw.tensor([1.0, 2.0], device=gpu, requires_grad=True)
    for _ in range(2):
        x.grad = None
        (x * x * 3.0).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [6.0, 12.0]
        with fw.no_grad():
            assert not (x * x).requires_grad
        assert not (x > x).requires_grad
        assert not (x.detach() * x.detach()).requires_grad


def test_shortcuts_are_bounded(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    op = REGISTRY["add"]
    assert isinstance(op, Elementwise)
    monkeypatch.setattr(op, "shortcuts", {(k,): None for k in range(MOST_SHORTCUTS)})
    x = fw.ones(3, device=gpu)
    assert (x + x).tolist() == [2.0, 2.0, 2.0]
    assert len(op.shortcuts) == 1
    assert (x + x).tolist() == [2.0, 2.0, 2.0]
    assert len(op.shortcuts) == 1
