"""Forward and backward variables of CTC: launch parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.shape import ceil_div
from ..ir.kernel_call import Argument, Dispatch, StridedSpec, check_rounds, fold_grid
from .reduce import need_countable

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

WORKGROUP = 128
"""Invocations that share the states of a sequence; targets rarely have more labels."""


def ctc_dispatches(
    gpu: DeviceInfo, emissions: StridedSpec, reverse: bool
) -> list[Dispatch]:
    """Return the dispatches that compute the variables of all steps into "out".

    There are several where the loops of one would exceed the limit of a device.
    """
    need_countable("loss/ctc", emissions)
    sequences, steps, states = emissions.shape
    rounds = ceil_div(states, WORKGROUP) + 1
    check_rounds(gpu, "ctc_loss", rounds)
    limit = gpu.target.loop_limit
    most = steps if limit is None else max(1, limit // rounds)
    push: dict[str, Argument] = {
        name: name for name in ("emissions", "skips", "lengths", "counts")
    }
    push |= {"out_": "out", "sequences": sequences, "steps": steps, "states": states}
    constants = {"LOCAL_X": WORKGROUP, "REVERSE": int(reverse)}
    return [
        Dispatch(
            "loss/ctc",
            fold_grid(sequences),
            {**push, "first": first, "last": min(first + most, steps)},
            constants,
        )
        for first in range(0, max(1, steps), max(1, most))
    ]
