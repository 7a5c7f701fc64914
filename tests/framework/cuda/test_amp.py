"""Mixed precision and CUDA's namespace, as programs begin with them."""

import pytest

import vkbackend.framework as fw
from vkbackend import NoVulkanError
from vkbackend.framework.cuda.amp import GradScaler, autocast


def test_addresses() -> None:
    assert autocast is fw.amp.autocast is fw.autocast
    assert GradScaler is fw.amp.GradScaler is fw.GradScaler
    assert fw.amp.GradScaler("cuda", 8.0).get_scale() == 8.0
    assert GradScaler(4.0).get_scale() == 4.0


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        (("cuda",), fw.float16),
        (("cpu",), fw.bfloat16),
        (("cuda", fw.bfloat16), fw.bfloat16),
        ((), fw.float16),
    ],
)
def test_blocks_as_pytorch_writes_them(
    arguments: tuple[object, ...], dtype: fw.dtype
) -> None:
    x = fw.ones(2, 2)
    with fw.autocast(*arguments):  # type: ignore[arg-type]
        assert (x @ x).dtype is fw.get_autocast_dtype("gpu") is dtype
    with fw.autocast(device_type="cuda", dtype=fw.float32, enabled=False):
        assert (x @ x).dtype is fw.float32


def test_there_is_no_cuda() -> None:
    assert not fw.cuda.is_available()
    assert fw.cuda.device_count() == fw.cuda.memory_allocated() == 0
    fw.cuda.manual_seed_all(1)
    fw.cuda.synchronize()
    fw.cuda.empty_cache()
    with pytest.raises(NoVulkanError, match=r"^cuda.get_device_name: there is no"):
        fw.cuda.get_device_name(0)
