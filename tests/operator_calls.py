"""Calls of PyTorch's table of operators: what differs between PyTorch and us.

`differences` runs what the table has for one operator and dtype on PyTorch and on a
device of ours, and names each kind of difference that it meets; `variant` says whether
it is the function that is called, or a method, another name, and so on. The table is
internal to PyTorch, so it is imported only when it is asked for.
"""

from __future__ import annotations

import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

import vkbackend.framework as fw
from tests import operator_variants
from vkbackend.framework.base.device import Device

# Enough of an operator's samples to meet each of its argument patterns.
SAMPLES = 64
# Of variants, which differ from the function in how they are called.
FEW = 12
# Results whose sign or order is free: compared as the table says for gradients.
FREE = ("svd", "eig", "eigh", "qr", "lobpcg", "pca", "svd_lowrank", "pca_lowrank")
# Random results have PyTorch's shape and dtype, not its values.
RANDOM = (
    "dropout", "rand", "normal", "bernoulli", "multinomial", "cauchy", "exponential",
    "geometric", "uniform", "rrelu", "fractional", "empty", "gumbel", "lowrank",
    "poisson", "binomial", "scaled_dot_product", "multi_head_attention",
)  # fmt: skip
TOLERANCE = {"float16": 1e-2, "float32": 1e-3, "complex64": 1e-3, "bfloat16": 2e-2}


class Difference(NamedTuple):
    """One difference: its kind, and what was called and came of it."""

    kind: str
    detail: str


def functions(op: Any) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return the function of PyTorch and ours, `None` where there is none."""
    if op.variant_test_name == "partial_views":
        return None  # about the storage below a view, which arguments here have not
    path = op.name.split(".")
    if getattr(op.op, "__name__", "") == "<lambda>":
        ours = _here(op.op)
        return None if ours is None else (op.op, ours)
    for ours, theirs in ((fw, torch), (fw.Tensor, torch.Tensor)):
        for name in path:
            ours, theirs = getattr(ours, name, None), getattr(theirs, name, None)
        if callable(ours) and callable(theirs):
            return theirs, ours
    return None


def _here(function: Any) -> Callable[..., Any] | None:
    """Return a lambda of the table with the library in place of PyTorch."""
    names = function.__globals__ | {"torch": fw, "F": fw.nn.functional}
    code, closure = function.__code__, function.__closure__
    return types.FunctionType(code, names, "here", function.__defaults__, closure)


class Call(NamedTuple):
    """What is called, and what is compared of it."""

    theirs: Callable[..., Any]
    ours: Callable[..., Any]
    op: Any
    grad: bool
    """Whether gradients are."""
    second: bool
    """Whether gradients of gradients are too."""
    strided: bool
    """Whether each tensor is a view of every other element."""


def differences(
    op: Any, dtype: torch.dtype, device: Device, variant: str = ""
) -> Iterator[Difference]:
    """Run the samples of an operator, with gradients where they are defined."""
    grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    grad = grad and variant != "out"
    second, strided = variant == "second", variant == "strided"
    if second and not (grad and op.supports_gradgrad):
        return
    if second or strided or not variant:
        called = [_both(op)]
    else:
        called = list(getattr(operator_variants, variant)(op))
    if not called:
        return
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    step = max(1, -(-len(found) // (FEW if variant else SAMPLES)))
    for sample in found[::step]:
        for theirs, ours in called:
            call = Call(theirs, ours, op, grad, second, strided)
            yield from _compared(call, sample, device)


def refusals(op: Any, device: Device) -> Iterator[Difference]:
    """Run the calls that PyTorch refuses: they must be refused here, with its class."""
    theirs, ours = _both(op)
    torch.manual_seed(0)
    with mock.patch.object(torch, "empty", _ones):
        errors = list(op.error_inputs("cpu")) if op.error_inputs_func else []
    for error in errors:
        sample = error.sample_input
        wanted = _outcome(theirs, sample.input, sample.args, sample.kwargs)
        if not isinstance(wanted, Exception):
            continue
        if isinstance(wanted, NotImplementedError):
            wanted = RuntimeError()
        try:
            args = _given((sample.input, sample.args, sample.kwargs), device)
        except Exception:
            continue  # a layout or dtype that is not here is refused when it is made
        found = _outcome(ours, *args)
        if isinstance(found, AttributeError):
            continue
        if not isinstance(found, Exception):
            yield Difference("passes", f"{_call(sample)}: {error.error_regex}")
        elif not isinstance(found, type(wanted)):
            kind = f"{type(wanted).__name__}, not {type(found).__name__}"
            yield Difference("class", f"{_call(sample)}: {kind}: {found}")


_empty = torch.empty


def _ones(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Return `torch.empty` with ones: some calls are valid or not by what it holds."""
    return _empty(*args, **kwargs).fill_(1)


def _both(op: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    found = functions(op)
    assert found is not None
    return found


def _outcome(function: Any, first: Any, args: Any, kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = function(first, *args, **kwargs)
            for tensor in tensors(answer):
                if isinstance(tensor, fw.Tensor):
                    tensor.detach().numpy()
        except Exception as error:
            return error
        return answer


def _compared(this: Call, sample: Any, device: Device) -> Iterator[Difference]:
    """Compare one call: its error, results and gradients."""
    op, grad = this.op, this.grad
    given = (sample.input, sample.args, sample.kwargs)
    if this.strided:
        try:
            views = sample.noncontiguous()
        except RuntimeError:
            return  # of a layout that is not here
        given = (views.input, views.args, views.kwargs)
    call = _call(sample)
    leaves = [x for x in tensors(given) if x.requires_grad]
    try:
        mine = _given(given, device)
        mine = _strided(mine) if this.strided else mine
    except Exception:
        return
    own = [x for x in tensors(mine) if x.requires_grad]
    wanted, found = _outcome(this.theirs, *given), _outcome(this.ours, *mine)
    if isinstance(wanted, Exception):
        return
    if isinstance(found, AttributeError):
        return  # a name that is not here, in a lambda of the table
    if isinstance(found, Exception):
        yield Difference("raises", f"{call}: {type(found).__name__}: {found}")
        return
    free = op.name.rpartition(".")[2] in FREE
    if free:
        wanted, found = map(sample.output_process_fn_grad, (wanted, found))
    random = any(name in op.name for name in RANDOM)
    for kind, detail in itertools.islice(_results(wanted, found, random), 1):
        yield Difference(kind, f"{call}: {detail}")
        return
    if grad and not random and leaves:
        if not free:
            wanted, found = map(sample.output_process_fn_grad, (wanted, found))
        gaps = _gradients(wanted, found, leaves, own, this.second)
        for detail in itertools.islice(gaps, 1):
            yield Difference("gradient", f"{call}: {detail}")


def _results(wanted: Any, found: Any, random: bool) -> Iterator[tuple[str, str]]:
    one, two = list(tensors(wanted, numbers=True)), list(tensors(found, numbers=True))
    if len(one) != len(two):
        yield "shape", f"{len(two)} results, not {len(one)}"
        return
    for theirs, ours in zip(one, two, strict=True):
        if isinstance(theirs, torch.Tensor) != isinstance(ours, fw.Tensor):
            yield "dtype", f"{type(ours).__name__}, not {type(theirs).__name__}"
        elif not isinstance(theirs, torch.Tensor):
            if not random and not np.allclose(ours, theirs, 1e-3, equal_nan=True):
                yield "value", f"{ours}, not {theirs}"
        elif tuple(theirs.shape) != tuple(ours.shape):
            yield "shape", f"{tuple(ours.shape)}, not {tuple(theirs.shape)}"
        elif not same_dtype(theirs, ours):
            yield "dtype", f"{ours.dtype}, not {theirs.dtype}"
        elif ours.requires_grad != theirs.requires_grad and theirs.numel():
            yield "requires_grad", f"{ours.requires_grad}"
        elif not random and (between := gap(theirs, ours)):
            yield "value", between


def _gradients(
    wanted: Any, found: Any, leaves: Any, own: Any, second: bool
) -> Iterator[str]:
    """Compare the gradients of a weighted sum of what is differentiable."""
    roots = [x for x in tensors(wanted) if x.requires_grad]
    ends = [x for x in tensors(found) if x.requires_grad]
    if not roots or len(roots) != len(ends):
        return
    rng = np.random.default_rng(0)
    weights = [_weights(rng, x) for x in roots]
    kinds = [x.dtype for x in roots]
    seeds = [torch.as_tensor(w, dtype=d) for w, d in zip(weights, kinds, strict=True)]
    try:
        theirs = torch.autograd.grad(
            roots, leaves, seeds, allow_unused=True, create_graph=second
        )
        [each.numpy() for each in theirs if each is not None and not second]
    except Exception:
        return
    try:
        own_seeds = [
            fw.tensor(w, device=x.device).to(x.dtype)
            for w, x in zip(weights, ends, strict=True)
        ]
        ours = fw.autograd.grad(
            ends, own, own_seeds, allow_unused=True, create_graph=second
        )
        if second:
            pairs = [
                each
                for each in zip(theirs, ours, strict=True)
                if each[0] is not None and each[1] is not None
            ]
            if pairs:
                one, two = map(list, zip(*pairs, strict=True))
                yield from _gradients(one, two, leaves, own, False)
            return
        for one, two in zip(theirs, ours, strict=True):
            if one is None or two is None:
                zero = two if one is None else one
                if zero is not None and zero.detach().numpy().any():
                    yield f"{two if two is None else 'a gradient'}, not {one}"
            elif tuple(one.shape) != tuple(two.shape):
                yield f"{tuple(two.shape)}, not {tuple(one.shape)}"
            elif between := gap(one, two):
                yield between
    except Exception as error:
        yield f"{type(error).__name__}: {error}"


def _weights(rng: np.random.Generator, like: torch.Tensor) -> np.ndarray:
    return np.asarray(rng.uniform(0.5, 1.5, tuple(like.shape)), np.float32)


def same_dtype(theirs: torch.Tensor, ours: Any) -> bool:
    names = [str(x.dtype).rpartition(".")[2].rstrip("_") for x in (theirs, ours)]
    # Indices and counts are int32 here; see the notes of `argmax`.
    return names[0] == names[1] or names == ["int64", "int32"]


def gap(theirs: torch.Tensor, ours: Any) -> str:
    """Return by how much two tensors differ, nothing where they are close."""
    dtype = str(theirs.dtype).rpartition(".")[2]
    if dtype == "bfloat16":
        theirs, ours = theirs.float(), ours.float()
    one = theirs.detach().resolve_conj().resolve_neg().numpy()
    two = np.asarray(ours.detach().numpy())
    if not one.size:
        return ""
    if one.dtype.kind not in "fc":
        same = np.array_equal(one, two)
        return "" if same else f"{two.ravel()[:4]}, not {one.ravel()[:4]}"
    tolerance = TOLERANCE.get(dtype, 1e-3)
    finite = np.abs(one[np.isfinite(one)])
    scale = min(max(float(finite.max()), 1.0), 1e4) if finite.size else 1.0
    with np.errstate(all="ignore"):
        close = np.isclose(two, one, tolerance, 0.3 * tolerance * scale, equal_nan=True)
    if close.all():
        return ""
    return f"{two[~close][:3]}, not {one[~close][:3]}"


def tensors(value: Any, numbers: bool = False) -> Iterator[Any]:
    if isinstance(value, torch.Tensor | fw.Tensor):
        yield value.to_dense() if value.is_sparse else value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()), numbers)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors(each, numbers)
    elif numbers and isinstance(value, int | float | complex):
        yield value


def _given(value: Any, device: Device) -> Any:
    """Return arguments with our tensors, dtypes and device."""
    if isinstance(value, torch.Tensor):
        return _tensor(value, device)
    if isinstance(value, torch.nn.Module):
        raise TypeError("a module of PyTorch's is not for our tensors")
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return getattr(fw, str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return device
    if isinstance(value, dict):
        given = {name: _given(each, device) for name, each in value.items()}
        return given | {"device": device} if "device" in given else given
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        given = [_given(each, device) for each in value]
        return given if isinstance(value, list) else tuple(given)
    return value


def _strided(value: Any) -> Any:
    """Return arguments whose tensors are views of every other element."""
    if isinstance(value, fw.Tensor):
        wide = fw.stack([value.detach()] * 2, -1)[..., 0]
        return wide.requires_grad_() if value.requires_grad else wide
    if isinstance(value, dict):
        return {name: _strided(each) for name, each in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(map(_strided, value))
    return value


def _tensor(value: torch.Tensor, device: Device) -> fw.Tensor:
    plain = value.detach().resolve_conj().resolve_neg()
    if value.dtype is torch.bfloat16:
        made = fw.tensor(plain.float().numpy(), device=device).bfloat16()
    else:
        made = fw.tensor(plain.numpy().copy(), device=device)
    return made.requires_grad_() if value.requires_grad else made


def _call(sample: Any) -> str:
    parts = [_shown(sample.input), *map(_shown, sample.args)]
    parts += [f"{name}={_shown(value)}" for name, value in sample.kwargs.items()]
    return f"({', '.join(parts)})"


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)
