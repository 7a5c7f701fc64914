"""Functions that are ops, second names of them, or methods; a word for each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import ops
from ..dispatch.diagnosis import explained, need_tensor
from ..dispatch.keywords import takes_keywords
from ..dispatch.view_cache import caches_views, uncached
from ..ops import matrix_functions
from . import out  # noqa: F401  # writes results into `out`
from .tensor import Tensor

OPS = """
    broadcast_shapes
    angle conj fill is_same_size real
    complex conj_physical imag istft polar stft view_as_complex view_as_real
    gradient index_reduce narrow_copy split_with_sizes
    addbmm addmv addr adjoint aminmax argwhere as_strided as_strided_scatter
    atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist
    chain_matmul column_stack combinations corrcoef cov cross cummax cummin
    cumulative_trapezoid deg2rad diagflat diagonal_scatter dist dsplit dstack fliplr
    flipud float_power fmax fmin frexp gcd heaviside histogram hsplit inner isin
    isneginf isposinf isreal kron lcm ldexp logaddexp2 logcumsumexp logit matrix_power
    mode msort mvlgamma nanmedian nanquantile nextafter positive quantile rad2deg
    renorm rsub select_scatter sgn signbit sinc slice_scatter swapaxes trapezoid
    unique_consecutive unravel_index vander vsplit
"""
"""Functions of `ops` under their own names."""

ALIASES = """
    unsafe_chunk:chunk unsafe_split:split unsafe_split_with_sizes:split_with_sizes
    absolute:abs arccos:acos arccosh:acosh arcsin:asin arcsinh:asinh arctan:atan
    arctan2:atan2 arctanh:atanh clip:clamp concat:cat concatenate:cat divide:div
    fix:trunc ger:outer greater:gt greater_equal:ge less:lt less_equal:le
    moveaxis:movedim multiply:mul negative:neg not_equal:ne row_stack:vstack
    dsmm:mm spmm:mm subtract:sub swapdims:transpose trapz:trapezoid true_divide:div
"""
"""Second names, each with that of the function of `ops`."""

METHODS = """
    conj_physical_ resolve_conj resolve_neg get_device is_neg
    ravel abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_
    as_strided_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_
    cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_
    gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_
    negative_ rad2deg_ reciprocal_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_
    sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
"""
"""Methods that are functions, too; most change their tensor in place."""


def _of_tensor(name: str) -> Callable[..., Any]:
    """Return a method as a function, which refuses what is no tensor."""
    given = getattr(Tensor, name)
    plain = uncached(given)
    if plain is not None:
        return caches_views(_function_of(name, plain))
    return _function_of(name, given)


def _function_of(name: str, given: Callable[..., Any]) -> Callable[..., Any]:
    method = explained(given)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            need_tensor(name, "input", args[0])
        return method(*args, **kwargs)

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(ops, name) for name in OPS.split()},
    **{
        alias: getattr(ops, name)
        for alias, _, name in (pair.partition(":") for pair in ALIASES.split())
    },
    **{name: _of_tensor(name) for name in METHODS.split()},
    **{name: takes_keywords(each) for name, each in matrix_functions.TOP.items()},
    "matrix_power": takes_keywords(matrix_functions.matrix_power),
}
"""What `framework` offers of them, by name."""
