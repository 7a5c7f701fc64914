"""Multi-label margin loss of rows of scores: launch parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.index_checks import CLASSES
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    StridedSpec,
    check_rounds,
    fold_grid,
)
from .linear import words_of, zeros_dispatch
from .reduce import need_countable
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

ITEMS, SOFTWARE_ITEMS = 4, 16
"""Classes that an invocation has in registers: the more, the fewer wait at barriers."""

TILE = 1024
"""Classes of a workgroup: longer rows are several's."""

_ROUND = 4
"""Labels of a round, at least of which a workgroup takes one for each invocation."""


def multilabel_margin_dispatches(
    gpu: DeviceInfo, x: StridedSpec, labels: StridedSpec, counts: bool
) -> list[Dispatch]:
    """Return the dispatches of the losses, or with `counts` of their derivative.

    One, but two for the derivative of long rows, which is counted into zeros.
    """
    name = "multilabel_margin_loss"
    need_countable(name, x)
    words_of(name, labels)
    rows, classes = x.shape
    items = ITEMS if gpu.target.cheap_barriers else SOFTWARE_ITEMS
    wanted = 1 << (ceil_div(classes, items) - 1).bit_length()
    workgroup = min(max(wanted, gpu.subgroup_size, _ROUND), TILE // items)
    # Each label meets some classes in a round, and with `counts` each tile of classes.
    check_rounds(gpu, name, 2 * (classes + workgroup))
    parts = ceil_div(classes, TILE)
    push: dict[str, Argument] = {"x": "x", "labels": "labels"}
    push |= {"counts" if counts else "out_": "out"}
    push |= {"error": IndexSlot(f"{name}: {CLASSES}", classes)}
    push |= {"rows": rows, "classes": classes, "parts": parts}
    constants = {"LOCAL_X": workgroup, "LABEL_WORDS": labels.dtype.itemsize // 4}
    defines = {**storage_defines(x.dtype), "ITEMS": str(items)}
    defines |= {"COUNTS": "1"} if counts else {}
    grid = fold_grid(rows * parts)
    kernel = Dispatch("loss/multilabel_margin", grid, push, constants, defines)
    zeros = [zeros_dispatch(x.numel)] if counts and parts > 1 else []
    return [*zeros, kernel]
