"""Transposed convolutions whose results are planes between each other, in one volume.

Planes of a transpose's result that are a stride apart are one convolution, a phase.
Each writes its planes where they lie: nothing is copied, and nothing filled before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base.dtype import FLOAT
from ...base.shape import Layout, TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import (
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
    with_memory,
)
from ...ir.lazy_graph import EXACT_TYPES
from ...kernels.conv.problem import ConvCall, Convolution
from ...kernels.conv.window import Pair
from ...kernels.gemm.tiles import BF16X3
from ...kernels.shader_types import check_same_dtype
from ..movement.slice import as_strided
from ..reduce.sum import sum
from .conv2d import (
    _conv2d,
    _conv2d_input_vjp_reference,
    _conv2d_weight_vjp,
    input_dispatches,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_PHASES = 4
"""Phases of an op, which has so many arguments."""

LEAST_RESULTS = 1 << 21
"""Elements of a phase from which it is written where it lies.

Products of fewer are in slices of K where these fill a device, and slices are summed up
in one piece.
"""

MOST_RESULTS = 1 << 31
"""Elements of a volume to which kernels count."""


class Phases(NamedTuple):
    """Phases of planes: their number, which is the stride, and the planes of all.

    The first plane of a phase is that of its number.
    """

    step: int
    deep: int

    def count(self, phase: int) -> int:
        """Return the planes of a phase."""
        return ceil_div(self.deep - phase, self.step)

    def layout(self, phase: int, out: TensorSpec) -> Layout:
        """Return where a phase lies in the result."""
        batch, channels, _, height, width = out.shape
        plane = height * width
        volume = self.deep * plane
        shape = (batch, channels, self.count(phase), height, width)
        strides = (channels * volume, volume, self.step * plane, width, 1)
        return Layout(shape, strides, phase * plane)


EXACT_TYPES.add(Phases)


def writes_phases(results: int, phases: Phases, how: Convolution) -> bool:
    """Return whether phases are written where they lie; `results` is of all planes."""
    few = 2 <= phases.step <= MOST_PHASES and phases.deep >= phases.step
    # A deep K of bf16x3 is in slices, for the error.
    whole = how.mode != BF16X3 and (how.window.kernel, how.window.stride) != (
        (1, 1), (1, 1)
    )  # fmt: skip
    return few and whole and LEAST_RESULTS * phases.step <= results < MOST_RESULTS


Spec = TensorSpec | None


@primitive(dtypes=FLOAT, typed="part0")
def _conv_transpose_phases(
    part0: Tensor, part1: Tensor, part2: Tensor | None, part3: Tensor | None,
    filters0: Tensor, filters1: Tensor, filters2: Tensor | None,
    filters3: Tensor | None, bias: Tensor | None,
    size: Pair, how: Convolution, phases: Phases,
) -> Tensor:  # fmt: skip
    """Return the transposed convolutions of planes, one between the others."""


def _there(*parts: Spec) -> list[TensorSpec]:
    return [part for part in parts if part is not None]


@_conv_transpose_phases.spec
def _conv_transpose_phases_spec(
    part0: TensorSpec, part1: TensorSpec, part2: Spec, part3: Spec,
    filters0: TensorSpec, filters1: TensorSpec, filters2: Spec, filters3: Spec,
    bias: Spec, size: Pair, how: Convolution, phases: Phases,
) -> TensorSpec:  # fmt: skip
    parts = _there(part0, part1, part2, part3)
    filters = _there(filters0, filters1, filters2, filters3)
    named = {f"part{k}": each for k, each in enumerate(parts)}
    named |= {f"filters{k}": each for k, each in enumerate(filters)}
    check_same_dtype("conv_transpose3d", **named, bias=bias)
    assert len(parts) == len(filters) == phases.step, "phases have no part each"
    batch, channels, _, high, wide = how.x(part0, filters0, size).shape
    return TensorSpec((batch, channels, phases.deep, high, wide), part0.dtype)


@_conv_transpose_phases.kernel
def _conv_transpose_phases_kernel(
    gpu: DeviceInfo, part0: StridedSpec, part1: StridedSpec, part2: Spec, part3: Spec,
    filters0: StridedSpec, filters1: StridedSpec, filters2: Spec, filters3: Spec,
    bias: Spec, size: Pair, how: Convolution, phases: Phases,
) -> list[Dispatch]:  # fmt: skip
    parts = _there(part0, part1, part2, part3)
    filters = _there(filters0, filters1, filters2, filters3)
    made: list[Dispatch] = []
    for k, (part, weight) in enumerate(zip(parts, filters)):
        x = how.x(part, weight, size)
        call = ConvCall.of(gpu, how, x, weight, part, bias is not None)
        call = call._replace(result_planes=phases.deep, result_step=phases.step)
        found = input_dispatches(call)
        found = [found] if isinstance(found, Dispatch) else found
        first = k * size[0] * size[1] * part.dtype.itemsize
        made += with_memory(
            found,
            {
                "grad_out": f"part{k}",
                "weight": f"filters{k}",
                "out": BufferOffset("out", first),
            },
        )
    return _sharing(made)


def _sharing(dispatches: Sequence[Dispatch]) -> list[Dispatch]:
    """Return dispatches whose scratch memory of one name is the largest of these."""

    def scratch_of(value: Argument) -> Scratch | None:
        memory = value.memory if isinstance(value, BufferOffset) else value
        return memory if isinstance(memory, Scratch) else None

    sizes: dict[str, int] = {}
    for each in dispatches:
        for value in each.push.values():
            scratch = scratch_of(value)
            if scratch is not None:
                name = scratch.name
                sizes[name] = max(sizes.get(name, 0), scratch.size)

    def shared(value: Argument) -> Argument:
        scratch = scratch_of(value)
        if scratch is None:
            return value
        largest = Scratch(scratch.name, sizes[scratch.name])
        if isinstance(value, BufferOffset):
            return BufferOffset(largest, value.offset)
        return largest

    return [
        replace(each, push={name: shared(value) for name, value in each.push.items()})
        for each in dispatches
    ]


@_conv_transpose_phases.vjp
def _conv_transpose_phases_vjp(
    grad: Tensor,
    part0: Tensor, part1: Tensor, part2: Tensor | None, part3: Tensor | None,
    filters0: Tensor, filters1: Tensor, filters2: Tensor | None,
    filters3: Tensor | None,
    how: Convolution, phases: Phases, needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    filters = (filters0, filters1, filters2, filters3)
    by_part: list[Tensor | None] = [None] * MOST_PHASES
    by_filters: list[Tensor | None] = [None] * MOST_PHASES
    for k, (part, weight) in enumerate(zip((part0, part1, part2, part3), filters)):
        wanted = needs[k], needs[MOST_PHASES + k]
        if part is None or weight is None or not any(wanted):
            continue
        own = as_strided(grad, phases.layout(k, TensorSpec(grad.shape, grad.dtype)))
        if wanted[0]:
            by_part[k] = _conv2d(own, weight, None, how)
        if wanted[1]:
            by_filters[k] = _conv2d_weight_vjp(part, own, how)
    by_bias = sum(grad, (0, 2, 3, 4)) if needs[-1] else None
    return (*by_part, *by_filters, by_bias)


@_conv_transpose_phases.reference
def _conv_transpose_phases_reference(
    part0: np.ndarray, part1: np.ndarray, part2: np.ndarray | None,
    part3: np.ndarray | None, filters0: np.ndarray, filters1: np.ndarray,
    filters2: np.ndarray | None, filters3: np.ndarray | None,
    bias: np.ndarray | None, size: Pair, how: Convolution, phases: Phases,
) -> np.ndarray:  # fmt: skip
    filters = (filters0, filters1, filters2, filters3)
    channels = filters0.shape[1] * how.groups
    shape = (part0.shape[0], channels, phases.deep, *size)
    out = np.empty(shape, part0.dtype)
    for k, (part, weight) in enumerate(zip((part0, part1, part2, part3), filters)):
        if part is not None and weight is not None:
            made = _conv2d_input_vjp_reference(part, weight, bias, size, how)
            out[:, :, k :: phases.step] = made
    return out
