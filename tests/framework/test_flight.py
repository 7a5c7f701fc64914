"""Submissions that an interrupt keeps from being noted."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.flight import Flush

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
