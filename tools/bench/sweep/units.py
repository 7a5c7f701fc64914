"""What the sweep calls: every function by its name here and in PyTorch.

A function takes part by being declared: its arguments are made from its signature. The
tables of `calls` and `layer_calls` have those of which the signature says too little.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import FLOAT
from vkbackend.framework.dispatch.op import REGISTRY, Op

from ...from_pytorch import collected
from .calls import CALLS, OPTIONS, Options
from .creation import CREATION
from .forms import Call, Given, ShapeClass, call, first, operand, other
from .further_calls import FURTHER, Further
from .layer_calls import LAYERS

SPACES = ("nn.functional", "torch", "special", "linalg", "fft")
"""Namespaces of PyTorch, in the order in which a name is looked for."""


def _plain_linear_cross_entropy(
    torch: Any, x: Any, weight: Any, target: Any, **keywords: Any
) -> Any:
    """Return what PyTorch 2.11 has no function for: the loss of a product."""
    return torch.nn.functional.cross_entropy(x @ weight.T, target, **keywords)


PEERS: Mapping[str, str | Callable[..., Any]] = {
    "gelu_exact": "nn.functional.gelu",
    "log_sigmoid": "nn.functional.logsigmoid",
    "copy": "clone",
    "expand": "Tensor.expand",
    "repeat": "Tensor.repeat",
    "sum_to_size": "Tensor.sum_to_size",
    "col2im": "nn.functional.fold",
    "im2col": "nn.functional.unfold",
    "int_mm": "_int_mm",
    "einsum": "einsum",
    "linear_cross_entropy": _plain_linear_cross_entropy,
}
"""Where PyTorch has what is called otherwise here, or is no function of its own."""

NUMBERS: Mapping[str, Any] = {
    "dim": -1,
    "k": 2,
    "n": 2,
    "p": 2,
    "correction": 1,
    "dtype": fw.float16,
}
"""Values of parameters that must be given, by name; of floats it is 0.5."""

MANY = 3
"""Tensors that stand for any number of them."""

DTYPES = (
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "uint8",
    "bool",
    "complex64",
    "float64",
)
"""Dtypes that take part, in this order."""


class UnknownArgumentsError(Exception):
    """A parameter's value is not to be made from its name and annotation."""


@dataclass(frozen=True)
class SweptFunction:
    """Function of the sweep.

    Attributes
    ----------
    name : str
        With its namespace, where that is neither `torch` nor `nn.functional`.
    function : callable
        The function here.
    peer : str, callable or None
        Its path in PyTorch, or a function that is given the module first; None where
        PyTorch has none.
    op : Op or None
        The op, where the function is one.
    of : SweptFunction or None
        The same with its first arguments, where these are others.
    further : mapping, callable or None
        These arguments, see `further_calls`.
    """

    name: str
    function: Callable[..., Any]
    peer: str | Callable[..., Any] | None
    op: Op[..., Any] | None
    of: SweptFunction | None = None
    further: Further | None = None

    @property
    def options(self) -> Options:
        """What differs for it."""
        return OPTIONS.get(self.of.name if self.of else self.name, Options())

    def arguments(self, form: ShapeClass) -> Call | None:
        """Return the arguments for a shape class, None where it says nothing.

        Raises
        ------
        UnknownArgumentsError
            If they are neither in the tables nor to be made from the signature.
        """
        if self.of is not None and isinstance(self.further, Mapping):
            found = self.of.arguments(form)
            if found is None:
                return None
            return Call(found.args, {**found.keywords, **self.further})
        make = self.further or CALLS.get(self.name) or LAYERS.get(self.name)
        if callable(make):
            return make(form)
        if self.op is not None and self.op.is_elementwise:
            return _elementwise(self.op, form, self.options)
        return _from_signature(self.function, form, self.options)

    def dtypes(self) -> tuple[str, ...]:
        """Return the dtypes that it is tried with, the first one for every class."""
        if self.options.dtypes is not None:
            return self.options.dtypes
        if self.of is not None:
            return self.of.dtypes()
        op = self.op or REGISTRY.get(self.name)
        if op is None:
            return ("float32", "float16", "bfloat16", "int64")
        taken = op.dtypes
        if isinstance(taken, Mapping):
            taken = next((taken[name] for name in op.tensors if name in taken), FLOAT)
        names = {dtype.name for dtype in taken}
        return tuple(name for name in DTYPES if name in names)


def units() -> dict[str, SweptFunction]:
    """Return every function that takes part, by name.

    They are the functions of PyTorch's namespaces that are here, and the element-wise
    ops that no public function is; functions whose arguments are not known are left
    out, see `unknown`.
    """
    found: dict[str, SweptFunction] = {}
    seen: set[int] = set()
    names = collected()[1]
    for space in SPACES:
        owner = fw if space == "torch" else attrgetter(space)(fw)
        functions = {name: getattr(owner, name, None) for name in sorted(names[space])}
        for name, function in sorted(functions.items(), key=_is_alias):
            if function is None:
                continue
            title = name if space in ("torch", "nn.functional") else f"{space}.{name}"
            short = function.name if isinstance(function, Op) else name
            if (space == "special" and short in found) or title in found:
                continue
            if not _is_swept(name, function) or id(function) in seen:
                continue
            seen.add(id(function))
            place = name if space == "torch" else f"{space}.{name}"
            op = function if isinstance(function, Op) else REGISTRY.get(title)
            if op is not None and not op.is_elementwise and op is not function:
                op = None
            found[title] = SweptFunction(title, function, place, op)
    for name, path in PEERS.items():
        function = getattr(fw.ops, name, None) or getattr(fw.Tensor, name, None)
        if path and function is not None and name not in found:
            op = function if isinstance(function, Op) else None
            found[name] = SweptFunction(name, function, path, op)
    for name in fw.ops.NAMES:
        function = getattr(fw.ops, name)
        if name not in found and id(function) not in seen and name in CALLS:
            found[name] = SweptFunction(name, function, PEERS.get(name), None)
    for name, function in CREATION.items():
        found[name] = SweptFunction(name, partial(function, fw), function, None)
    for name, op in REGISTRY.items():
        if name not in found and op.is_elementwise and id(op) not in seen:
            found[name] = SweptFunction(name, op, PEERS.get(name) or None, op)
    for name, labels in FURTHER.items():
        base = found[name]
        for label, further in labels.items():
            title = f"{name}({label})"
            found[title] = replace(base, name=title, of=base, further=further)
    return found


def _is_alias(named: tuple[str, Any]) -> bool:
    """Return whether a function is called otherwise itself."""
    name, function = named
    return bool(getattr(function, "__name__", name) != name)


def _is_swept(name: str, function: Any) -> bool:
    """Return whether a public name is a function of tensors that changes nothing."""
    if not callable(function) or inspect.isclass(function) or name.endswith("_"):
        return False
    if name in LEFT_OUT:
        return False
    if isinstance(function, Op):
        return True
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        "Tensor" in str(each.annotation) and each.default is inspect.Parameter.empty
        for each in parameters
    )


LEFT_OUT = frozenset(
    """
    get_device is_complex is_conj is_floating_point is_neg is_nonzero is_same_size
    is_signed numel result_type to_dlpack detach alias_copy detach_copy resolve_conj
    resolve_neg row_stack dsmm ger orgqr moveaxis swapdims range empty empty_like
    max_pool1d_with_indices native_channel_shuffle
    """.split()
)
"""Names that compute nothing, or are other names of what takes part."""


def _elementwise(op: Op[..., Any], form: ShapeClass, options: Options) -> Call | None:
    """Return operands for an element-wise op, then its numbers."""
    if op.source is not None and not op.tensors[1:]:
        raise UnknownArgumentsError(f"{op.name}: it has no operands in memory")
    several = len(op.tensors) > 1
    values: list[Any] = []
    for name, parameter in op.parameters.items():
        if name in op.tensors:
            given = operand(form, len(values), options.low, options.high)
            values.append(given if several else first(form, options.low, options.high))
        elif parameter.default is inspect.Parameter.empty:
            values.append(_number(name, str(parameter.annotation)))
        else:
            break
    return Call(tuple(values))


def _from_signature(
    function: Callable[..., Any], form: ShapeClass, options: Options
) -> Call | None:
    """Return arguments for the parameters that must be given."""
    values: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = str(parameter.annotation)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            if "Tensor" in annotation:
                values += [Given(form.shape, seed=seed) for seed in range(MANY)]
            continue
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        value: Any
        if "Sequence[Tensor" in annotation:
            value = [Given(form.shape, seed=seed) for seed in range(MANY)]
        elif "Tensor" in annotation:
            value = (
                other(form, len(values))
                if values
                else first(form, options.low, options.high)
            )
            if values and options.low is not None:
                value = Given(value.shape, options.low, options.high, seed=value.seed)
        else:
            value = _number(name, annotation)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            keywords[name] = value
        else:
            values.append(value)
    return call(*values, **keywords)


def _number(name: str, annotation: str) -> Any:
    if name in NUMBERS:
        return NUMBERS[name]
    if annotation.strip("'\"") == "float":
        return 0.5
    raise UnknownArgumentsError(f"`{name}: {annotation}` is in no table")
