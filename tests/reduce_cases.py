"""Rows of the op table for reductions, scans, softmax and sorting."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.reduce.common import place_dtype

REDUCED = (
    sample((7, 11), dim=1),
    sample((7, 11), dim=0, keepdim=True),
    sample((3, 113, 5), dim=(0, 2)),
    sample((3, 37, 8), dim=1),
    sample((1031,), dim=None),
)
# Sums of no elements are 0.
SUMMED = (*REDUCED, sample((0, 3), dim=0), sample((3, 0), dim=1), sample((), dim=None))

ALONG = (
    sample((7, 11), dim=1),
    sample((3, 37, 8), dim=1),
    sample((113, 5), dim=0),
    sample((1031,), dim=-1),
    sample((0, 3), dim=1),
)
"""One dimension each: innermost, in the middle, outermost, long, empty."""


def no_elements(name: str, call: Callable[..., Any]) -> Bad:
    """Return the refusal of a reduction that must choose an element."""
    return Bad(
        lambda ones: call(ones(0, 3), 0),
        ShapeError,
        f"{name}: shape (0, 3) has no elements along (0,); there is no result",
    )


def no_dimension(name: str, call: Callable[..., Any]) -> Bad:
    """Return the refusal of a dimension that does not exist."""
    return Bad(
        lambda ones: call(ones(2, 3), dim=2),
        ShapeError,
        f"{name}: there is no dimension 2: the tensor has 2; dim must be from -2 to 1",
    )


def not_float(name: str, call: Callable[..., Any]) -> Bad:
    """Return the refusal of integers by a function of floats."""
    return Bad(
        lambda ones: call(ones(3, dtype="int32")),
        DTypeError,
        f"{name}: `x` is int32; it must be a float dtype; call x.float() first",
    )


def own_dtype(name: str) -> Callable[..., fw.Tensor]:
    """Return `sum` or `prod` in the dtype of the tensor, which every device has."""

    def call(x: fw.Tensor, dim: Any, keepdim: bool = False) -> fw.Tensor:
        op: Callable[..., fw.Tensor] = getattr(ops, name)
        return op(x, dim, keepdim, dtype=x.dtype)

    return call


def extreme(name: str) -> Case:
    """Return the row of `amax` or `amin`."""
    return Case(
        getattr(ops, name),
        (*REDUCED, sample((0, 3), dim=1), sample((1, 1), dim=(0, 1))),
        lambda x, dim, keepdim=False: getattr(np, name)(x, dim, keepdims=keepdim),
        lambda x, dim, keepdim=False: getattr(torch, name)(
            x, () if dim is None else dim, keepdim
        ),
        exact=True,
        bad=(no_elements(name, getattr(ops, name)),),
    )


def position(name: str) -> Case:
    """Return the row of `argmax` or `argmin`."""
    return Case(
        getattr(ops, name),
        (
            *(each for each in REDUCED if not isinstance(each.keywords["dim"], tuple)),
            sample((0, 3), dim=1),
            sample((1,), dim=0),
        ),
        lambda x, dim, keepdim=False: np.asarray(
            getattr(np, name)(x, dim, keepdims=keepdim), np.int64
        ),
        gradient=False,
        bad=(no_elements(name, getattr(ops, name)),),
    )


def chosen(name: str) -> Case:
    """Return the row of `max` or `min` along a dimension."""
    call = getattr(ops, name)
    places = getattr(np, f"arg{name}")

    def numpy(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
        values = getattr(np, name)(x, dim, keepdims=keepdim)
        return values, places(x, dim, keepdims=keepdim).astype(np.int64)

    return Case(
        lambda x, dim, keepdim=False: tuple(call(x, dim, keepdim)),
        (*ALONG, sample((7, 11), dim=0, keepdim=True), sample((1,), dim=0)),
        numpy,
        # PyTorch names any of several equal elements.
        exact=True,
        bad=(no_elements(name, call), no_dimension(name, call)),
    )


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTorch's function, which warns when there is nothing to answer."""
    return lambda x, dim, **options: (
        function(x, dim, **options) if x.numel() else x.sum(dim)
    )


def mapped_sum(x: fw.Tensor, dim: int, mapping: str) -> fw.Tensor:
    """Call the sum that norms and counts are made of."""
    found: fw.Tensor = REGISTRY["mapped_sum"](x, (dim,), x.dtype, mapping)
    return found


def mapped_sum_oracle(x: Any, dim: int, mapping: str) -> Any:
    """Answer as NumPy does."""
    maps: dict[str, Callable[..., Any]]
    maps = {"abs": np.abs, "square": np.square, "nonzero": lambda x: x != 0}
    maps |= {"number": lambda x: x, "is_number": np.ones_like}
    maps["zero"] = lambda x: x == 0
    terms = maps[mapping](x)
    kind = np.float64 if x.dtype.kind == "f" else x.dtype
    return np.sum(terms, dim, keepdims=True, dtype=kind).astype(x.dtype)


REDUCE = {
    "sum": Case(
        own_dtype("sum"),
        SUMMED,
        lambda x, dim, keepdim=False: np.sum(
            x,
            dim,
            keepdims=keepdim,
            dtype=np.float64 if x.dtype.kind == "f" else x.dtype,
        ).astype(x.dtype),
        lambda x, dim, keepdim=False: torch.sum(x, dim, keepdim, dtype=x.dtype),
        scale=20,  # a thousand terms of size 2, in any order
        bad=(
            no_dimension("sum", ops.sum),
            Bad(
                lambda ones: ones(2, 3).sum((0, -2)),
                ShapeError,
                "sum: a dimension is named twice: (0, -2)",
            ),
            not_float("mean", ops.mean),
        ),
    ),
    "mapped_sum": Case(
        mapped_sum,
        (
            sample((7, 11), dim=1, mapping="abs"),
            sample((7, 11), dim=0, mapping="square"),
            sample((3, 5003), dim=1, mapping="nonzero"),
            sample((7, 11), dim=1, mapping="number"),
            sample((7, 11), dim=0, mapping="is_number"),
            sample((7, 11), dim=1, mapping="zero"),
            sample((1,), dim=0, mapping="square"),
        ),
        mapped_sum_oracle,
        scale=20,  # sums in any order
        gradient=False,  # the norms have their own
    ),
    "factor_prod": Case(
        lambda x, dim: REGISTRY["factor_prod"](x, (dim,), x.dtype),
        (
            sample((7, 11), dim=1),
            sample((3, 5, 4), dim=0),
            sample((2, 3, 5), dim=2),
            sample((1,), dim=0),
        ),
        lambda x, dim: np.prod(
            np.where(x == 0, 1, x), dim, keepdims=True, dtype=x.dtype
        ),
        scale=20,  # products of up to eleven numbers, up to 2^11
        gradient=False,  # it is part of one
        bad=(no_dimension("prod", ops.prod),),
    ),
    "number_sum": Case(
        lambda x, dim: REGISTRY["number_sum"](x, (dim,)),
        (
            sample((7, 11), dim=1),
            sample((113, 5), dim=0),
            sample((2, 5003), dim=1),
            sample((3, 0), dim=1),
            sample((1,), dim=0),
        ),
        torch=lambda x, dim: torch.nansum(x, dim, True),
        scale=20,  # sums in any order
        bad=(no_dimension("nansum", ops.nansum),),
    ),
    "empty_result": Case(
        own_dtype("sum"),
        (sample((3, 0), dim=1), sample((0, 3), dim=(0, 1), keepdim=True)),
        lambda x, dim, keepdim=False: np.sum(x, dim, keepdims=keepdim, dtype=x.dtype),
        exact=True,
        gradient=False,  # has no elements
    ),
    "prod": Case(
        own_dtype("prod"),
        (
            sample((7, 11), dim=1),
            sample((3, 5, 4), dim=0, keepdim=True),
            sample((2, 3, 5), dim=2),
            sample((0, 3), dim=0),
            sample((1,), dim=0),
        ),
        lambda x, dim, keepdim=False: np.prod(x, dim, keepdims=keepdim, dtype=x.dtype),
        lambda x, dim, keepdim=False: torch.prod(x, dim, keepdim, dtype=x.dtype),
        scale=20,  # products of up to eleven numbers, up to 2^11
        bad=(no_dimension("prod", ops.prod),),
    ),
    "amax": extreme("amax"),
    "amin": extreme("amin"),
    "minmax": Case(
        lambda x, dim: ops.aminmax(x.detach(), dim=dim, keepdim=True),
        (
            sample((3, 7, 37), dim=1),
            sample((11, 1031), dim=-1),
            sample((4099, 3), dim=0),
            sample((1, 1), dim=0),
            sample((0, 7), dim=1),
        ),
        lambda x, dim: (np.min(x, dim, keepdims=True), np.max(x, dim, keepdims=True)),
        gradient=False,
        exact=True,
    ),
    "ends": Case(
        lambda x: REGISTRY["ends"](x.detach(), tuple(range(x.ndim))),
        (
            sample((3, 7, 37)),
            sample((11, 1031)),
            sample((4099, 3)),
            sample((1,)),
        ),
        lambda x: np.array([np.min(x), np.max(x)]),
        gradient=False,
        exact=True,
    ),
    "argmax": position("argmax"),
    "argmin": position("argmin"),
    "max": chosen("max"),
    "min": chosen("min"),
    "var": Case(
        lambda x, dim, **options: ops.var(x, dim, **options),
        (
            sample((7, 11), dim=1),
            sample((7, 11), dim=0, keepdim=True, correction=0),
            sample((3, 113, 5), dim=(0, 2), correction=2),
            sample((10_007,), dim=None),
            sample((5, 0), dim=0),
            sample((1,), dim=0, correction=0),
        ),
        torch=spread(torch.var),
        scale=4,  # squares of numbers up to 2
        bad=(not_float("var", ops.var), no_dimension("var", ops.var)),
    ),
    "std": Case(
        lambda x, dim, correction=1: ops.std(x, dim, correction=correction),
        (
            sample((7, 11), dim=1),
            sample((3, 37, 8), dim=(0, 2), correction=0),
            sample((5, 0), dim=0),
        ),
        torch=spread(torch.std),
        scale=4,  # as the variance
        bad=(not_float("std", ops.std),),
    ),
    "norm": Case(
        ops.norm,
        (
            sample((7, 11), p=2, dim=1),
            sample((7, 11), p=1, dim=0, keepdim=True),
            sample((3, 37, 8), p=3, dim=(0, 2)),
            sample((37, 5), p=0.5, dim=1),
            sample((10_007,), p=2, dim=None),
            sample((7, 11), p=np.inf, dim=1),
            sample((7, 11), p=-np.inf, dim=None),
            sample((0, 3), p=2, dim=1),
            sample((1,), p=2, dim=0),
        ),
        torch=lambda x, p, dim, keepdim=False: torch.linalg.vector_norm(
            x, p, dim, keepdim
        ),
        scale=100,  # thousands of terms; the square of a sum of roots
        bad=(
            not_float("norm", ops.norm),
            Bad(
                lambda ones: ops.norm(ones(2), "l1"),
                ShapeError,
                'norm: p is \'l1\'; it must be a number, "fro" or "nuc"',
            ),
        ),
    ),
    "logsumexp": Case(
        ops.logsumexp,
        (
            *(s for s in REDUCED if s.keywords["dim"] is not None),
            sample((10_007,), dim=0),
            sample((0, 3), dim=1),
            sample((1,), dim=0),
        ),
        torch=torch.logsumexp,
        scale=4,  # an exponential and a logarithm
        bad=(no_dimension("logsumexp", ops.logsumexp),),
    ),
}


def softmax_terms(x: np.ndarray, dim: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the greatest, and sums of exponentials of differences from it."""
    wide = x.astype(np.float64)
    greatest = wide.max(dim, keepdims=True)
    kind = np.float64 if x.dtype == np.float64 else np.float32
    total = np.exp(wide - greatest).sum(dim, keepdims=True)
    return greatest.astype(kind), total.astype(kind)


def softmax_grad(grad: Any, y: Any, dim: int, logarithm: bool) -> Any:
    """Return the gradient of softmax along the middle of three dimensions."""
    return REGISTRY["softmax_grad"](grad, y, logarithm)


def softmax_grad_oracle(grad: Any, y: Any, dim: int, logarithm: bool) -> Any:
    """Answer with PyTorch's operations."""
    if logarithm:
        return grad - y.exp() * grad.sum(dim, True)
    return y * (grad - (grad * y).sum(dim, True))


SOFTMAX = {
    "softmax": Case(
        lambda x, dim, log=False: (ops.log_softmax if log else ops.softmax)(x, dim),
        (
            *ALONG,
            sample((7, 11), dim=1, log=True),
            sample((3, 37, 8), dim=1, log=True),
            sample((), dim=0),
            Sample((Draw((5, 113), -80, 80),), {"dim": 1}),
        ),
        torch=lambda x, dim, log=False: (torch.log_softmax if log else torch.softmax)(
            x, dim
        ),
        scale=10,  # an exponential of a difference that is itself rounded
        bad=(no_dimension("softmax", ops.softmax),),
    ),
    "softmax_terms": Case(
        lambda x, dim=1: REGISTRY["softmax_terms"](x, (dim,)),
        (
            sample((7, 11)),
            sample((113, 5), dim=0),
            sample((3, 40, 2)),
            sample((2, 10_007)),
            sample((1, 1)),
        ),
        softmax_terms,
        device_dtypes=("float16", "bfloat16", "float32"),
        gradient=False,
        scale=10,  # sums of exponentials
    ),
    "split_softmax": Case(
        lambda x, dim=1, log=False: REGISTRY["split_softmax"](x, dim, log),
        (
            sample((7, 11)),
            sample((5, 113), log=True),
            sample((113, 5), dim=0),
            sample((3, 40, 2), log=True),
            sample((2, 1, 3, 1, 4, 5), dim=2),
            sample((1, 1)),
        ),
        torch=lambda x, dim=1, log=False: (torch.log_softmax if log else torch.softmax)(
            x, dim
        ),
        device_dtypes=("float16", "bfloat16", "float32"),
        scale=10,  # an exponential of a difference that is itself rounded
    ),
    "composed_softmax": Case(
        lambda x, dim=1, log=False: REGISTRY["composed_softmax"](x, dim, log),
        (
            sample((7, 11)),
            sample((5, 113), log=True),
            sample((113, 5), dim=0),
            sample((3, 40, 2), log=True),
            sample((1, 1)),
            sample((0, 3)),
        ),
        torch=lambda x, dim=1, log=False: (torch.log_softmax if log else torch.softmax)(
            x, dim
        ),
        device_dtypes=("float16", "bfloat16", "float32"),
        scale=10,  # an exponential of a difference that is itself rounded
    ),
    "softmax_grad": Case(
        softmax_grad,
        (
            sample((7, 11, 1), (7, 11, 1), dim=1, logarithm=False),
            sample((7, 11, 1), (7, 11, 1), dim=1, logarithm=True),
            sample((3, 37, 8), (3, 37, 8), dim=1, logarithm=False),
            sample((3, 0, 5), (3, 0, 5), dim=1, logarithm=False),
            sample((1, 1, 1), (1, 1, 1), dim=1, logarithm=True),
        ),
        torch=softmax_grad_oracle,
        scale=40,  # sums of products up to 4, times e^2
    ),
}


def running(name: str) -> Callable[..., Any]:
    """Return a scan in the dtype of the tensor, which every device has."""

    def call(x: Any, dim: int, zeros: tuple[int, ...] = ()) -> Any:
        for place in zeros:
            keep = np.ones(x.shape, bool)
            keep[(slice(None),) * (dim % x.ndim) + (place,)] = False
            mask = fw.tensor(keep, device=x.device)
            x = ops.where(mask, x, 0 if not x.dtype.is_float else 0.0)
        op: Callable[..., fw.Tensor] = getattr(ops, name)
        return op(x, dim, dtype=x.dtype)

    return call


def torch_running(name: str) -> Callable[..., Any]:
    """Return PyTorch's."""

    def call(x: Any, dim: int, zeros: tuple[int, ...] = ()) -> Any:
        for place in zeros:
            keep = torch.ones(x.shape, dtype=torch.bool)
            keep.select(dim, place).fill_(False)
            x = torch.where(keep, x, torch.zeros((), dtype=x.dtype))
        return getattr(torch, name)(x, dim, dtype=x.dtype)

    return call


SCANS = {
    "cumsum": Case(
        running("cumsum"),
        (
            *ALONG,
            sample((2, 9001), dim=1),
            sample((9001, 2), dim=0),
            sample((1,), dim=0),
        ),
        torch=torch_running("cumsum"),
        scale=400,  # thousands of terms of size 2, in another order
        bad=(no_dimension("cumsum", ops.cumsum),),
    ),
    "cumprod": Case(
        running("cumprod"),
        (
            sample((7, 11), dim=1),
            sample((3, 13, 4), dim=1),
            sample((7, 11), dim=1, zeros=(4,)),
            sample((7, 11), dim=1, zeros=(3, 8)),
            sample((11, 5), dim=0, zeros=(0,)),
            sample((0, 3), dim=1),
            sample((1,), dim=0),
        ),
        torch=torch_running("cumprod"),
        scale=100,  # products up to 2^13
        bad=(no_dimension("cumprod", ops.cumprod),),
    ),
    "logcumsumexp": Case(
        ops.logcumsumexp,
        (
            *ALONG,
            sample((2, 5001), dim=1),
            sample((5001, 2), dim=0),
            sample((1,), dim=0),
        ),
        torch=torch.logcumsumexp,
        scale=40,  # thousands of terms in another order, and differences of such sums
        bad=(no_dimension("logcumsumexp", ops.logcumsumexp),),
    ),
    "running_extreme": Case(
        lambda x, dim, least=False: tuple(
            (ops.cummin if least else ops.cummax)(x, dim)
        ),
        (
            *ALONG,
            sample((7, 11), dim=0, least=True),
            sample((2, 5001), dim=1),
            sample((5001, 2), dim=0, least=True),
            sample((1,), dim=0),
        ),
        torch=lambda x, dim, least=False: tuple(
            (torch.cummin if least else torch.cummax)(x, dim)
        ),
        exact=True,
        bad=(no_dimension("cummax", ops.cummax),),
    ),
}


def with_stable_indices(x: Any, dim: int, descending: bool = False) -> Any:
    """Sort as PyTorch does when equal elements keep their order."""
    return tuple(torch.sort(x, dim=dim, descending=descending, stable=True))


def search(values: Any, x: Any, right: bool = False) -> Any:
    """Look values up in a sorted sequence."""
    return ops.searchsorted(ops.sort(x).values, values, right=right)


def ranked(x: Any, rank: int, missing: str = "counts") -> Any:
    """Call the op behind medians."""
    return REGISTRY["rank"](x, rank, missing, place_dtype(x))


SORTS = {
    "rank": Case(
        ranked,
        (
            sample((7, 11), rank=3),
            sample((5, 113), rank=56, missing="takes_place"),
            sample((3, 1031), rank=515, missing="left_out"),
            sample((0, 3), rank=1),
            sample((1, 1), rank=0),
        ),
        torch=lambda x, rank, missing="counts": tuple(
            each[:, rank] for each in torch.sort(x, dim=1, stable=True)
        ),
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.kthvalue(ones(3), 0),
                ShapeError,
                "kthvalue: k is 0; it must be from 1 to 3, the size of dimension 0 of"
                " shape (3,)",
            ),
        ),
    ),
    "sort": Case(
        lambda x, dim, descending=False: tuple(ops.sort(x, dim, descending)),
        (
            *ALONG,
            sample((7, 11), dim=0, descending=True),
            sample((2, 1500), dim=1),
            sample((300, 3), dim=0, descending=True),
            sample((1,), dim=0),
        ),
        torch=with_stable_indices,
        exact=True,
        bad=(
            no_dimension("sort", ops.sort),
            Bad(
                lambda ones: ops.topk(ones(3), 4),
                ShapeError,
                "topk: k is 4; it must be from 0 to 3, the size of dimension 0 of"
                " shape (3,)",
            ),
            Bad(
                lambda ones: ops.kthvalue(ones(3), 0),
                ShapeError,
                "kthvalue: k is 0; it must be from 1 to 3, the size of dimension 0 of"
                " shape (3,)",
            ),
            Bad(
                lambda ones: ops.median(ones(2, 0), 1),
                ShapeError,
                "median: shape (2, 0) has no elements along 1; there is no result",
            ),
        ),
    ),
    "searchsorted": Case(
        lambda x, values, right=False: search(values, x, right),
        (
            sample((113,), (7, 5)),
            sample((113,), (7,), right=True),
            sample((3, 37), (3, 5)),
            sample((3, 37), (3, 5), right=True),
            sample((113,), (0, 3)),
            sample((1,), (1,)),
        ),
        torch=lambda x, values, right=False: torch.searchsorted(
            torch.sort(x).values.contiguous(), values.contiguous(), right=right
        ),
        gradient=False,
        bad=(
            Bad(
                lambda ones: ops.searchsorted(ones(2, 3), ones(3, 3)),
                ShapeError,
                "searchsorted: sorted_sequence is (2, 3), values (3, 3); sizes but the"
                " last must be the same, or the sequence have one dimension",
            ),
        ),
    ),
    "bincount": Case(
        lambda x, size: REGISTRY["bincount"](x, size),
        (
            sample((113,), size=3),
            sample((2, 113), size=29),
            sample((0,), size=3),
            sample((1,), size=1),
        ),
        lambda x, size: np.bincount(x[(x >= 0) & (x < size)], minlength=size).astype(
            np.int32
        ),
        gradient=False,
        bad=(
            Bad(
                lambda ones: ops.bincount(ones(2, 3, dtype="int32")),
                ShapeError,
                "bincount: x is (2, 3), weights none; x must have one dimension, and"
                " weights its shape",
            ),
            Bad(
                lambda ones: ops.bincount(-ones(2, dtype="int32")),
                ShapeError,
                "bincount: elements are from -1 to -1; they must be from 0 to"
                " 2147483646",
            ),
            Bad(
                lambda ones: ops.bincount(ones(2)),
                DTypeError,
                "bincount: `x` is float32; it must be an integer dtype",
            ),
            Bad(
                lambda ones: ops.histc(ones(2), 0),
                ShapeError,
                "histc: bins is 0, the range from 0 to 0; there must be a bin, and max"
                " not be below min",
            ),
        ),
    ),
}

REDUCTIONS: dict[str, Case] = REDUCE | SOFTMAX | SCANS | SORTS
