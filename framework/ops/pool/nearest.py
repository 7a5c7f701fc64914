"""Nearest-neighbour resampling of up to three dimensions in one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec, check_rounds, divisor
from ...kernels.linear import copy_dispatch
from ...kernels.shader_types import storage_defines
from ..view import reshape
from .filter_weights import Nearest
from .resample import check_rules

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

Rules = tuple[Nearest, Nearest, Nearest]


@primitive(dtypes=FLOAT, typed="x")
def _nearest(x: Tensor, rules: Rules, back: bool) -> Tensor:
    """Return the nearest elements along the last three of four dimensions.

    With `back` the gradient of that by its input.
    """


@_nearest.spec
def _nearest_spec(x: TensorSpec, rules: Rules, back: bool) -> TensorSpec:
    sizes = [rule.size if back else rule.out for rule in rules]
    return TensorSpec((x.shape[0], *sizes), x.dtype)


@_nearest.kernel
def _nearest_kernel(
    gpu: DeviceInfo, x: StridedSpec, rules: Rules, back: bool
) -> Dispatch:
    out = _nearest_spec(x, rules, back)
    if back:
        rounds = [math.ceil(rule.out / rule.size) + 1 for rule in rules]
        check_rounds(gpu, "nearest", math.prod(rounds))
    push: dict[str, int | float | str] = {"x": "x", "out_": "out"}
    push |= {"count": out.numel, "shift": 0.5 if rules[0].centred else 0.0}
    for k, rule in enumerate(rules):
        magic, shift = divisor(out.shape[1 + k])
        push |= {f"size[{k}]": rule.size, f"out_size[{k}]": rule.out}
        push |= {f"magic[{k}]": magic, f"shift_by[{k}]": shift}
        push[f"step[{k}]"] = rule.step
    constants, defines = {"BACK": int(back)}, storage_defines(x.dtype)
    return copy_dispatch(gpu, "resample/nearest", out.numel, push, constants, defines)


@_nearest.vjp
def _nearest_vjp(grad: Tensor, rules: Rules, back: bool) -> Tensor:
    return _nearest(grad, rules, not back)


@_nearest.reference
def _nearest_reference(x: np.ndarray, rules: Rules, back: bool) -> np.ndarray:
    for dim, rule in enumerate(rules, start=1):
        places = rule.places()
        if back:
            shape = (*x.shape[:dim], rule.size, *x.shape[dim + 1 :])
            sums = np.zeros(shape, x.dtype)
            np.add.at(sums.swapaxes(0, dim), places, x.swapaxes(0, dim))
            x = sums
        else:
            x = x.take(places, dim)
    return x


def nearest_resampled(name: str, x: Tensor, rules: Mapping[int, Nearest]) -> Tensor:
    """Return a tensor with the nearest elements along its last dimensions.

    Parameters
    ----------
    name : str
        The op's, for errors.
    x : Tensor
    rules : mapping of int to Nearest
        One to three, by dimension, of which the last is the tensor's; all centred, or
        none.

    Raises
    ------
    ShapeError
        If a dimension has no element, or too many.
    """
    check_rules(name, x, rules)
    kept = Nearest(1, 1, 1.0, next(iter(rules.values())).centred)
    given = [rules[dim] for dim in sorted(rules)]
    all_rules = [*[kept] * (3 - len(given)), *given]
    outer = x.layout.shape[: min(rules)]
    sizes = [rule.size for rule in all_rules]
    rows = reshape(x, (math.prod(outer), *sizes))
    out = _nearest(rows, (all_rules[0], all_rules[1], all_rules[2]), False)
    return reshape(out, (*outer, *(rule.out for rule in given)))
