"""Names of tensor types."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DTypeError


@pytest.mark.core
def test_names(gpu: GpuDevice) -> None:
    assert fw.zeros(1, device=gpu).type() == "torch.vulkan.FloatTensor"
    assert fw.zeros(1, dtype=fw.uint16).type() == "torch.UInt16Tensor"
    assert fw.zeros(1).type("torch.LongTensor").dtype is fw.int64
    assert fw.zeros(1).type(fw.float16).dtype is fw.float16


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"^type: 'torch.cuda.FloatTensor' is unknown"):
        fw.zeros(1).type("torch.cuda.FloatTensor")
