"""Edge calls beside PyTorch: value, dtype and shape, or that both refuse.

`tests/data/edge_calls.txt` has one call a line, of the library `m`, its `F`, and `t`,
which makes a tensor: NaN, infinities and nothing at all, mixed dtypes, numbers that
wrap, dimensions from the end.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw

CALLS = (Path(__file__).parent / "data" / "edge_calls.txt").read_text().splitlines()
NUMBERS = {"NAN": math.nan, "INF": math.inf}


def outcome(call: str, scope: dict[str, Any]) -> Any:
    """Return what a call gives: dtype, shape and elements; or that it is refused."""
    try:
        found = eval(call, {**scope, **NUMBERS})
    except (TypeError, ValueError, RuntimeError, IndexError):
        return "refused"
    found = found[0] if isinstance(found, tuple | list) and found else found
    if not hasattr(found, "numpy"):
        return found
    elements = found.detach().numpy()
    return str(found.dtype).rpartition(".")[2].rstrip("_"), elements.shape, elements


def agree(ours: Any, wanted: Any) -> bool:
    """Return whether two outcomes are the same, up to rounding."""
    if isinstance(wanted, tuple) and isinstance(ours, tuple) and len(wanted) == 3:
        same = ours[:2] == wanted[:2]
        return same and np.allclose(ours[2], wanted[2], 2e-5, 1e-6, equal_nan=True)
    return bool(ours == wanted) or (ours != ours and wanted != wanted)


@pytest.mark.int64
@pytest.mark.core
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("on_host", [True, False])
def test_edge_calls(on_host: bool, device: vkbackend.Device) -> None:
    place = fw.device("cpu" if on_host else device.name)

    def ours(values: Any, dtype: str | None = None) -> fw.Tensor:
        return fw.tensor(values, dtype=dtype, device=place)

    def theirs(values: Any, dtype: str | None = None) -> torch.Tensor:
        return torch.tensor(values, dtype=getattr(torch, dtype) if dtype else None)

    mine = {"m": fw, "F": fw.nn.functional, "t": ours}
    its = {"m": torch, "F": torch.nn.functional, "t": theirs}
    different = []
    for call in CALLS:
        found, wanted = outcome(call, mine), outcome(call, its)
        if not agree(found, wanted):
            different.append((call, found, wanted))
    assert different == []
