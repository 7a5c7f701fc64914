"""Collectives within `fw.jit`: nodes of the trace, which each replay runs again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import trace_hooks
from ..base.device import CPU
from ..base.dtype import STORED, DType
from ..base.errors import TraceError
from ..base.scoped_setting import SettingScope
from ..base.shape import Layout, TensorSpec
from ..dispatch.declare import primitive
from ..dispatch.op import REGISTRY
from ..ir.host_step import HostStep, compiling
from ..ir.kernel_call import Dispatch
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from .elements import contiguous
from .reductions import Reduction

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from .group import Group
    from .transport import Call


@dataclass(frozen=True)
class Collective(HostStep):
    """A collective on tensors of one shape and dtype.

    Parameters
    ----------
    group : Group
    method : str
        The group's method, which takes a tensor of the host first.
    arguments : tuple
        What it takes beside the tensor, in its order.
    shape, out_shape : tuple of int
        Of the tensor, and of the result.
    dtype : DType
        Of both.
    """

    group: Group
    method: str
    arguments: tuple[Any, ...]
    shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    dtype: DType

    def run(self, data: np.ndarray) -> np.ndarray:
        """Return what the collective makes of elements."""
        layout = Layout.contiguous(self.shape)
        x = Tensor.from_stored(data, layout, CPU, self.dtype)
        with trace_hooks.listening(None):
            found: Tensor = getattr(self.group, self.method)(x, *self.arguments)
        return found.stored().reshape(-1)


@dataclass(frozen=True)
class Reduced(HostStep):
    """A reduction of elements, which makes no tensors of them.

    Parameters
    ----------
    group : Group
    call : Call
    op : str
        See `Reduction`.
    dtype : DType
    """

    group: Group
    call: Call
    op: str
    dtype: DType

    def run(self, data: np.ndarray) -> np.ndarray:
        """Return the reduction of the elements of all ranks."""
        group, call = self.group, self.call
        reduction = Reduction(call.name, self.op, self.dtype, group.size)
        with trace_hooks.listening(None):
            return group.reduced_elements(call, reduction, data)


@primitive(dtypes=STORED)
def _communicated(x: Tensor, step: HostStep, out_shape: Sequence[int]) -> Tensor:
    """Return what a host step makes of a tensor."""
    raise AssertionError("the rules of an op stand for its body")


# No op of programs: only `recorded` calls it.
del REGISTRY["communicated"]


@_communicated.spec
def _communicated_spec(
    x: TensorSpec, step: HostStep, out_shape: Sequence[int]
) -> TensorSpec:
    return TensorSpec(tuple(out_shape), x.dtype)


@_communicated.kernel
def _communicated_kernel(
    gpu: DeviceInfo, x: TensorSpec, step: HostStep, out_shape: Sequence[int]
) -> Dispatch:
    if not compiling.top.value:
        raise TraceError(
            "jit: a collective that was recorded is to run without a replay, which it"
            " cannot here; call it outside of the function"
        )
    return Dispatch("copy/words", (1, 1, 1), {"x": "x", "out_": "out", "count": 0})


@_communicated.reference
def _communicated_reference(
    x: np.ndarray, step: HostStep, out_shape: Sequence[int]
) -> np.ndarray:
    raise AssertionError("communicated: a collective on the host is not recorded")


def is_recorded(x: Tensor) -> bool:
    """Return whether a collective on a tensor is to be a node of the running trace."""
    trace = trace_hooks.listener()
    return trace is not None and x.is_gpu and trace.takes_host_steps()


def recorded(x: Tensor, step: HostStep, out_shape: Sequence[int]) -> Tensor:
    """Record a host step on a tensor, off the tape, and return what it will make.

    Parameters
    ----------
    x : Tensor
        On a device.
    step : HostStep
    out_shape : sequence of int
        Of the result; its dtype is that of `x`.
    """
    if not x.numel():
        return zeros(*out_shape, dtype=x.dtype, device=x.device)
    whole = contiguous(x.detach())
    count, value = whole.numel(), whole.array.value
    if value.numel > count and not step.in_place(count * value.dtype.itemsize):
        # The host would read all that it is a part of.
        whole = whole.clone()
    # Where a tensor is large the kernel is asked for as the node is recorded.
    with SettingScope(compiling, True):
        return _communicated(whole, step, tuple(out_shape))
