"""The next number in each float dtype, beside PyTorch."""

import itertools

import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.base.device import CPU
from vkbackend.framework.base.errors import DTypeError

# Zeros, subnormal numbers, powers of two and the ends of the dtypes.
EDGES = (
    0.0, -0.0, 6e-8, -6e-8, 1e-40, -1e-40, 6.1035156e-5, -6.1035156e-5, 1.0, -2.0, 1.5,
    65504.0, -65504.0, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
PAIRS = list(itertools.product(EDGES, repeat=2))


def bits(x: object) -> list[int]:
    """Return a tensor's elements as integers, of NaN 0."""
    given = torch.tensor(x.float().tolist(), dtype=torch.float32)  # type: ignore[attr-defined]
    return torch.where(given.isnan(), 0.0, given).view(torch.int32).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("on_host", [True, False])
def test_each_edge_to_each(dtype: str, on_host: bool, device: vkbackend.Device) -> None:
    place = CPU if on_host else fw.device(device.name)
    x, y = zip(*PAIRS, strict=True)
    ours = fw.nextafter(*(fw.tensor(each, device=place).to(dtype) for each in (x, y)))
    kind = getattr(torch, dtype)
    theirs = torch.nextafter(*(torch.tensor(each).to(kind) for each in (x, y)))
    assert ours.dtype.name == dtype
    assert bits(ours) == bits(theirs)


@pytest.mark.parametrize(
    "call",
    [
        "T.nextafter(m, m2)",
        "T.nextafter(m.half(), m2.half())",
        "T.nextafter(m.bfloat16(), m2.half())",
        "T.nextafter(m, i)",
        "m.half().nextafter_(m2.half())",
    ],
)
def test_dtypes_promote(call: str) -> None:
    check(f"!{call}")


def test_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match="the dtype is int32"):
        fw.nextafter(fw.ones(3, dtype="int32"), fw.ones(3, dtype="int32"))
