"""Tensors as text, beside PyTorch's."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend import Buffer, Device
from vkbackend.framework.base.device import GpuDevice

SHAPES = [(), (0,), (2, 0), (1,), (7,), (30,), (3, 5), (2, 3, 4), (1001,), (9, 8, 20)]


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    yield
    for library in (fw, torch):
        library.set_printoptions(profile="default")


def arrays(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield arrays of one shape that are printed in different ways."""
    draws = np.asarray(np.random.default_rng(0).standard_normal(shape), np.float32)
    for scale in (1, 1e-5, 1e3, 1e10):
        yield draws * np.float32(scale)
    yield np.round(draws * 10)
    yield np.where(draws > 1, np.inf, np.where(draws < -1, np.nan, draws)).astype("f")
    yield draws * np.float32(0)
    for dtype in ("float64", "float16", "int64", "int32", "uint8", "bool"):
        yield np.asarray(np.abs(draws) * 50).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_pytorch(shape: tuple[int, ...]) -> None:
    for array in arrays(shape):
        ours, theirs = fw.tensor(array), torch.from_numpy(np.array(array))
        assert repr(ours) == repr(theirs)
        if ours.dtype.is_float:
            assert str(ours.requires_grad_()) == str(theirs.requires_grad_())


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2, "sci_mode": False},
        {"sci_mode": True, "linewidth": 40},
        {"threshold": 5, "edgeitems": 1},
        {"profile": "short"},
        {"profile": "full"},
    ],
)
def test_options(options: dict[str, object]) -> None:
    array = np.random.default_rng(1).standard_normal((3, 40)).astype(np.float32)
    for library in (fw, torch):
        library.set_printoptions(**options)  # type: ignore[arg-type]
    assert repr(fw.tensor(array)) == repr(torch.from_numpy(array))
    with pytest.raises(ValueError, match=r"^set_printoptions: profile is 'long'"):
        fw.set_printoptions(profile="long")


@pytest.mark.core
def test_reads_only_what_it_prints(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fw.zeros(1000, 1000, device=gpu)
    read: list[int] = []
    original = Device.read

    def counted(self: Device, buffer: Buffer, offset: int, size: int) -> memoryview:
        read.append(size)
        return original(self, buffer, offset, size)

    monkeypatch.setattr(Device, "read", counted)
    assert repr(x).endswith(f"device='{gpu}')")
    assert 0 < sum(read) < 100_000


def test_html_is_a_table_of_what_is_printed() -> None:
    small = fw.tensor([[1.0, -2.5]], requires_grad=True)._repr_html_()
    assert (
        "<caption>Tensor: shape (1, 2), float32, cpu, requires_grad</caption>" in small
    )
    assert small.count("<td>") == 2
    assert "<td>-2.5000</td>" in small
    many = fw.zeros(100, 50)._repr_html_()
    assert many.count("<tr>") == many.count("<td>") // 7 == 7  # three, a gap, three
    assert "<td>7</td>" in fw.tensor(7)._repr_html_()
    assert fw.zeros(2, 1, 2)._repr_html_().endswith("</pre>")
    assert "[]" in fw.zeros(0, 3)._repr_html_()
