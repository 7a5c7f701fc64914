"""Cross entropy over rows of logits: launch parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.index_checks import CLASSES
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    Scratch,
    StridedSpec,
    divisor,
    fold_grid,
    linear_grid,
)
from .gpu_model import model_of
from .linear import linear_dispatch
from .reduce import SOFTWARE_WORKGROUP, need_countable, sharing_workgroup
from .rowwise import row_tile
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


SITE = f"cross_entropy: {CLASSES}"
"""Index site of the labels."""

_IN_FLIGHT = 8
"""Loads of an invocation at once, where those hide latency."""

_LEAST_PART = 1 << 14
"""Columns of a part of a row, at least."""

_STATE_SIZE = 16
"""Bytes of the sums of a part."""


def loss_dispatches(
    gpu: DeviceInfo,
    logits: StridedSpec,
    labels: StridedSpec,
    options: tuple[int, float],
) -> list[Dispatch]:
    """Return the dispatches of the row losses, for register-resident rows if they fit.

    One, but two for few long rows, whose parts are summed first. `options` are the
    label that is ignored, and the smoothing.
    """
    need_countable("loss/cross_entropy", logits)
    rows, columns = logits.shape
    push: dict[str, Argument] = {"logits": "logits", "labels": "labels"}
    push |= {"loss": "losses", "counts": "counts"}
    push |= {"greatest": "greatest", "log_total": "log_total"}
    push |= {"rows": rows, "columns": columns, "error": IndexSlot(SITE, columns)}
    push |= {"ignore_index": options[0], "label_smoothing": options[1]}
    words = {"LABEL_WORDS": labels.dtype.itemsize // 4}
    defines = storage_defines(logits.dtype)
    tile = row_tile(gpu, logits.dtype, columns)
    if tile is not None:
        # Without a gradient nothing is read or written there.
        push |= {"share": "logits", "out_": "losses"}
        constants = {**tile.constants, **words, "SMOOTHED": int(options[1] != 0)}
        grid = tile.grid(rows)
        name = "loss/cross_entropy_registers"
        return [Dispatch(name, grid, push, constants, defines)]
    most = sharing_workgroup(gpu)
    group = min(1 << max(0, (columns // 8).bit_length() - 1), most)
    size = most if group > 1 or gpu.target.hides_latency else SOFTWARE_WORKGROUP
    constants = {"LOCAL_X": size, "GROUP": group, **words}
    kernel, grid = "loss/cross_entropy", linear_grid(rows * group, size)
    if gpu.target.hides_latency:
        defines = {**defines, "ITEMS": str(_IN_FLIGHT)}
    parts = _parts(gpu, rows, columns)
    if parts == 1:
        push["parts"] = 1
        return [Dispatch(kernel, grid, push, constants, defines)]
    states = Scratch("states", rows * parts * _STATE_SIZE)
    sizes = {"rows": rows, "columns": columns, "parts": parts}
    first: dict[str, Argument] = {"logits": "logits", "states": states, **sizes}
    return [
        Dispatch(
            kernel,
            fold_grid(ceil_div(rows * group, size), parts),
            first,
            {"LOCAL_X": size, "GROUP": group},
            {**defines, "PARTIAL": "1"},
        ),
        Dispatch(
            kernel,
            grid,
            {**push, "states": states, "parts": parts},
            constants,
            {**defines, "MERGE": "1"},
        ),
    ]


def _parts(gpu: DeviceInfo, rows: int, columns: int) -> int:
    """Return the parts of a row, so that workgroups fill the device."""
    wanted = ceil_div(model_of(gpu).reduction_groups, rows)
    return max(1, min(wanted, columns // _LEAST_PART))


def grad_dispatch(
    logits: StridedSpec,
    labels: StridedSpec,
    grad: str,
    options: tuple[int, float],
    shared: bool = False,
) -> Dispatch:
    """Return the dispatch of dlogits from the gradients of the row losses.

    With `shared`, `grad` is one scalar for all rows.
    """
    rows, columns = logits.shape
    magic, shift = divisor(columns)
    push: dict[str, Argument] = {"grad": grad, "out_": "out"}
    push |= {name: name for name in ("logits", "labels", "greatest", "log_total")}
    push |= {"rows": rows, "columns": columns}
    push |= {"columns_magic": magic, "columns_shift": shift}
    push |= {"ignore_index": options[0], "label_smoothing": options[1]}
    constants = {"LABEL_WORDS": labels.dtype.itemsize // 4, "SHARED": int(shared)}
    kernel, defines = "loss/cross_entropy_vjp", storage_defines(logits.dtype)
    return linear_dispatch(kernel, logits.numel, push, constants, defines)
