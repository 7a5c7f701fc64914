"""Submissions that an interrupt keeps from being noted."""

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.scheduler import scheduler, submission
from vkbackend.framework.scheduler.submission import Flush

pytestmark = pytest.mark.core


def test_a_submission_that_was_not_noted_is_noted_later(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fw.tensor(np.arange(37, dtype=np.float32), device=gpu)
    fw.eval()
    wanted = x.numpy() + np.float32(1)
    x.add_(1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Flush, "settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fw.eval()
    later = x * 2
    before = gpu.gpu.counters.dispatches
    assert_close(x, wanted, exact=True)
    assert gpu.gpu.counters.dispatches == before
    assert_close(later, wanted * np.float32(2), exact=True)


def test_a_storage_holds_the_last_content_before_what_failed(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where several changes in place are pending, which a read has left."""
    x, u = fw.zeros((4,), device=gpu), fw.ones((4,), device=gpu)
    fw.eval()
    x.add_(1)
    x.mul_(10)
    (u + 1).numpy()
    x.copy_(u * 7)

    def fail(*_: object) -> None:
        raise MemoryError("injected")

    with monkeypatch.context() as patched:
        patched.setattr(scheduler, "plan_batch", fail)
        with pytest.raises(MemoryError, match="injected"):
            fw.eval()
    assert_close(x, np.full(4, 10, np.float32), exact=True)


class Interrupt:
    """Raises KeyboardInterrupt at one of the lines that a module runs."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != submission.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == -1:
                raise KeyboardInterrupt
        return self


def test_no_line_at_which_an_interrupt_keeps_a_failure_from_being_noted(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("injected")

    for at in range(1000):
        x, z, u = (fw.full((4,), k, device=gpu) for k in (0.0, 1.0, 2.0))
        fw.eval()
        lost = u * 3
        x.add_(lost)  # gives way to what it held, as it needs what is lost
        z.add_(1)
        interrupt, before = Interrupt(at), sys.gettrace()
        with monkeypatch.context() as patched:
            patched.setattr(scheduler, "plan_batch", fail)
            sys.settrace(interrupt)
            try:
                lost.numpy()
            except (KeyboardInterrupt, RuntimeError):
                pass
            finally:
                sys.settrace(before)
        # Neither may the first read raise, nor may the second differ.
        for _ in range(2):
            assert x.numpy()[0] in (0, 6), at
            assert z.numpy()[0] == 2, at
        fw.eval()
        if interrupt.left >= 0:
            break
    assert 20 < at < 1000
