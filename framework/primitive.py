"""How an operation is declared: one op, one screen.

`@elementwise` takes the GLSL expression, which is the kernel, alone or fused.
`@primitive` takes rules: `spec` (shapes and dtypes), `kernel` (shader, constants, grid)
and `reference` (NumPy). `@movement` takes a `layout` rule.
`@composite` is written with other ops but has its own gradient rule. All of them take a
`vjp`, whose parameter names decide what the tape keeps:

========== ==========================================================================
`grad`     gradient of the first output
`x`        the argument `x`, a tensor (kept) or not
`out`      the first output, or any output by its declared name (kept)
`x_spec`   shape and dtype of the tensor argument `x` (keeps no memory)
`needs`    one bool per tensor argument: whether its gradient is wanted
========== ==========================================================================

A vjp may answer in the broadcast shape, and with None where there is no gradient.
`REGISTRY` lists every op by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from .autograd import is_grad_enabled, no_grad
from .core import TensorCore, assembled
from .device import Device, GpuDevice
from .dispatch import SOFTWARE_ROUNDS, Dispatch, Placed
from .dtype import DType, bool_, convert, promote, promote_scalar
from .errors import DTypeError
from .graph import Form, Node, Operand, Value, pending_array
from .op import REGISTRY, Op, need_feature, submit_node
from .schedule import append
from .shape import Layout, TensorSpec, broadcast_shapes, interned
from .tape import Keeping
from .tracing import Changing

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])

QUAD_ALIGNMENT = 16
"""Bytes to which hand-written kernels may assume that their inputs are aligned."""


class Shortcut(NamedTuple):
    """What a call of an element-wise op comes to, known from one with like operands.

    Attributes
    ----------
    form : Form
        Of its node.
    compute : DType
        What numbers are converted to.
    device : GpuDevice
        Where it runs.
    keeping : Keeping or None
        How to leave a tape entry; None if the result has no gradient.
    specs : tuple of TensorSpec
        Of the tensors.
    layouts : tuple of Layout
        Of the tensors: they are in the key by identity and must outlive it.
    """

    form: Form
    compute: DType
    device: GpuDevice
    keeping: Keeping | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]


MOST_SHORTCUTS = 4096
"""Shortcuts that an op has at a time; past it, all are forgotten and made afresh."""


class Elementwise(Op[P, R]):
    """An op whose kernel is a GLSL expression over its parameters' names."""

    is_elementwise = True

    def __init__(
        self,
        function: Callable[P, R],
        glsl: str,
        reference: Callable[..., Any],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        device_dtypes: Sequence[DType] | None,
        result: DType | str | None,
    ) -> None:
        super().__init__(function, dtypes)
        self.device_dtypes = device_dtypes
        self.glsl = glsl
        self.numpy_reference = reference
        self.result = result
        self.operands = tuple(name for name in self.names if name != result)

        self.shortcuts: dict[tuple[object, ...], Shortcut] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op, in short when a call with operands like these came before."""
        if kwargs or len(args) != len(self.names):
            bound = self._bind(args, kwargs)
            args = tuple([bound[name] for name in self.names])  # type: ignore
        key: list[object] = []
        values: list[Value] = []
        tensors: list[TensorCore] = []
        numbers: tuple[Any, ...] = ()
        taped = False
        for argument in args:
            if isinstance(argument, TensorCore):
                value = argument.array.value
                key += (id(argument.layout), value.dtype, argument.device)
                values.append(value)
                tensors.append(argument)
                taped = taped or argument.requires_grad
            elif type(argument) is DType:
                key.append(argument)
            else:
                key.append(type(argument))
                numbers += (argument,)
        shortcut = self.shortcuts.get(tuple(key))
        if shortcut is None:
            return cast(R, self._at_length(args, tuple(key)))
        form = shortcut.form
        if numbers:
            if shortcut.compute.is_float:
                numbers = tuple(
                    [
                        each if type(each) is Changing else float(each)
                        for each in numbers
                    ]
                )
            else:
                numbers = tuple(
                    [number(self.name, shortcut.compute, each) for each in numbers]
                )
        node, array = pending_array(form, tuple(values), numbers)
        first, device = tensors[0], shortcut.device
        out = assembled(first.results, array, form.layouts[0], device)
        append(device, node)
        if taped and shortcut.keeping is not None and is_grad_enabled():
            shortcut.keeping.leave(args, tensors, (out,), shortcut.specs)
        return cast(R, out)

    def _at_length(self, args: tuple[Any, ...], key: tuple[object, ...]) -> Any:
        """Check a call and apply the op; on a device, leave a shortcut for `key`."""
        bound = dict(zip(self.names, args))
        tensors = {
            name: bound[name]
            for name in self.tensors
            if isinstance(bound[name], TensorCore)
        }
        compute, result = self._result_dtypes(bound, tensors)
        device = self._checked(tensors, compute)
        shape = broadcast_shapes(self.name, *(t.shape for t in tensors.values()))
        numbers = {
            name: number(self.name, compute, bound[name])
            for name in self.operands
            if name not in tensors
        }
        if not isinstance(device, GpuDevice):
            out = self._on_host(tensors, numbers, compute, result)
            self._record(bound, tensors, (out,))
            return out
        for dtype in (compute, *(tensor.dtype for tensor in tensors.values())):
            need_feature(self.name, dtype, device)
        self._check_device(tensors, device)
        node = Node.of(
            self,
            tuple(
                Operand(t.array.value, t.layout.expand(shape)) for t in tensors.values()
            ),
            (Layout.contiguous(shape),),
            (result,),
            (("compute", compute), ("tensors", tuple(tensors))),
            tuple(numbers.items()),
        )
        (out,) = submit_node(next(iter(tensors.values())), node)
        self._record(bound, tensors, (out,))
        if node.outputs[0].numel:
            if len(self.shortcuts) >= MOST_SHORTCUTS:
                self.shortcuts.clear()
            self.shortcuts[key] = Shortcut(
                node.form,
                compute,
                device,
                self.keeping(tuple(tensors)) if result.is_float else None,
                tuple(tensor.spec for tensor in tensors.values()),
                tuple(tensor.layout for tensor in tensors.values()),
            )
        return out

    def _checked(self, tensors: dict[str, Any], compute: DType) -> Device:
        """Return the device of the tensors after checking all dtypes."""
        accepted = None if isinstance(self.dtypes, Mapping) else self.dtypes
        device = self._check(tensors, None if accepted is None else compute)
        if accepted is not None and compute not in accepted:
            raise DTypeError(
                f"{self.name}: the operands combine to {compute.name}; accepted:"
                f" {', '.join(dtype.name for dtype in accepted)}"
            )
        return device

    def _result_dtypes(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[DType, DType]:
        """Return the dtypes to compute in and to answer with.

        Tensors promote with each other, then with Python numbers in their place.
        """
        if isinstance(self.result, str):
            return bound[self.result], bound[self.result]
        dtypes = [tensor.dtype for tensor in tensors.values()]
        compute: DType = dtypes[0] if dtypes else bool_
        for dtype in dtypes[1:]:
            if dtype is not compute:
                compute = promote(compute, dtype)
        for name in self.tensors:
            if name not in tensors:
                compute = promote_scalar(compute, bound[name])
        return compute, self.result or compute

    def _on_host(
        self,
        tensors: dict[str, Any],
        numbers: dict[str, float],
        compute: DType,
        result: DType,
    ) -> TensorCore:
        with np.errstate(all="ignore"):
            arguments = [
                _taken_as(compute, tensors[name].host_view())
                if name in tensors
                else compute.arithmetic.type(numbers[name])
                for name in self.operands
            ]
            answer = np.asarray(self.numpy_reference(*arguments))
            first: TensorCore = next(iter(tensors.values()))
            return type(first).from_host(answer, first.device, result)


def _taken_as(dtype: DType, array: np.ndarray) -> np.ndarray:
    """Return an operand's elements as an operation of `dtype` computes with them."""
    if array.dtype == dtype.arithmetic:
        return array
    return convert(array, dtype).astype(dtype.arithmetic, copy=False)


def number(name: str, dtype: DType, value: Any) -> float:
    """Return a Python number as a kernel of `dtype` takes it.

    Raises
    ------
    TypeError
        If it is no number.
    DTypeError
        If `dtype` is an integer one that cannot hold it.
    """
    if not isinstance(value, int | float | np.number | np.bool_):
        raise TypeError(
            f"{name}: {value!r} is no operand; use a tensor or a real number"
        )
    if dtype.is_float:
        return value if type(value) is Changing else float(value)
    low, high = dtype.limits
    if not low <= value <= high:
        raise DTypeError(
            f"{name}: {value} is no {dtype.name}, which holds {low} to {high};"
            " cast the tensor to a wider dtype first"
        )
    return int(value)


class Primitive(Op[P, R]):
    """An op with a hand-written kernel."""

    def __init__(
        self,
        function: Callable[P, R],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        device_dtypes: Sequence[DType] | Mapping[str, Sequence[DType]] | None,
        outputs: Sequence[str],
        strided: bool,
        typed: str | None,
        reduction: str | None,
    ) -> None:
        super().__init__(function, dtypes, outputs)
        self.typed = typed
        self.reduction = reduction
        self.device_dtypes = device_dtypes
        self.strided = strided
        self.rules: dict[str, Callable[..., Any]] = {}

    def spec(self, rule: Rule) -> Rule:
        """Declare the shape and dtype rule: from specs and arguments to specs."""
        self.rules["spec"] = rule
        return rule

    def kernel(self, rule: Rule) -> Rule:
        """Declare the kernel choice: from `DeviceInfo`, specs and arguments."""
        self.rules["kernel"] = rule
        return rule

    def reference(self, rule: Rule) -> Rule:
        """Declare the NumPy reference, which is also how the host computes the op."""
        self.rules["reference"] = rule
        return rule

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        device = self._check(tensors)
        first = next(iter(tensors.values()))
        static = {name: v for name, v in bound.items() if name not in self.tensors}
        specs = {
            name: tensors[name].spec if name in tensors else None
            for name in self.tensors
        }
        answer = self.rules["spec"](**specs, **static)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        if not isinstance(device, GpuDevice):
            return self._on_host(first, tensors, static, outputs)
        self._check_device(tensors, device)
        if self.typed is not None:
            need_feature(self.name, tensors[self.typed].dtype, device, typed=True)
        node = Node.of(
            self,
            tuple(self._operand(tensor) for tensor in tensors.values()),
            tuple(Layout.contiguous(spec.shape) for spec in outputs),
            tuple(spec.dtype for spec in outputs),
            (("tensors", tuple(tensors)), *static.items()),
        )
        if any(layout.numel > SOFTWARE_ROUNDS for _, layout in node.inputs):
            self._check_rounds(node, device.gpu.info)
        return submit_node(first, node)

    def _check_rounds(self, node: Node, gpu: DeviceInfo) -> None:
        """Raise `ShapeError` now, not when the node runs, for what cannot run."""
        if gpu.kind == "software":
            self.dispatches(gpu, self.placed(node), dict(node.params))

    def _operand(self, tensor: Any) -> Operand:
        """Return the tensor as the kernel may read it, copied first if it must be."""
        layout, size = tensor.layout, tensor.dtype.itemsize
        fits = self.strided or layout.is_contiguous
        # Shaders that read words cannot start within one.
        start = size if self.typed else max(size, 4)
        if not fits or layout.offset * size % (
            start if self.strided else QUAD_ALIGNMENT
        ):
            with no_grad():
                tensor = REGISTRY["copy"](tensor)
        return Operand(tensor.array.value, tensor.layout)

    def _on_host(
        self,
        first: TensorCore,
        tensors: dict[str, Any],
        static: dict[str, Any],
        outputs: tuple[TensorSpec, ...],
    ) -> tuple[TensorCore, ...]:
        arrays = {
            name: _taken_as(tensors[name].dtype, tensors[name].host_view())
            if name in tensors
            else None
            for name in self.tensors
        }
        with np.errstate(all="ignore"):
            answers = self.rules["reference"](**arrays, **static)
        if not isinstance(answers, tuple):
            answers = (answers,)
        return tuple(
            type(first).from_host(
                np.asarray(answer).reshape(spec.shape), first.device, spec.dtype
            )
            for answer, spec in zip(answers, outputs)
        )

    def dispatches(
        self, gpu: DeviceInfo, placed: Mapping[str, Placed], params: dict[str, object]
    ) -> Sequence[Dispatch]:
        """Return the kernels that compute a node."""
        static = {name: value for name, value in params.items() if name != "tensors"}
        inputs = {name: placed.get(name) for name in self.tensors}
        answer = self.rules["kernel"](gpu, **inputs, **static)
        return [answer] if isinstance(answer, Dispatch) else list(answer)


class Movement(Op[P, R]):
    """An op that only chooses elements: a view, or a copy where none is possible."""

    layout_rule: Callable[..., Layout | None]

    def layout(self, rule: Rule) -> Rule:
        """Declare the layout rule.

        It takes the input's `Layout` in place of the tensor and answers with the
        result's, or with None when the elements must first be copied into row-major
        order.
        """
        self.layout_rule = rule
        return rule

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        self._check(tensors)
        (name, tensor), *_ = tensors.items()
        arguments = [value for key, value in bound.items() if key != name]
        layout = self.layout_rule(tensor.layout, *arguments)
        if layout is None:
            with no_grad():
                tensor = REGISTRY["copy"](tensor)
            layout = self.layout_rule(tensor.layout, *arguments)
            assert layout is not None, f"{self.name}: no view of a row-major tensor"
        return (tensor.view_of(interned(layout)),)


class Composite(Op[P, R]):
    """An op written with other ops, with a gradient rule of its own."""

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        self._check(tensors)
        with no_grad():
            answer: Any = self.function(**bound)  # type: ignore[call-arg]
        return answer if isinstance(answer, tuple) else (answer,)


def elementwise(
    *,
    glsl: str,
    reference: Callable[..., Any],
    dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
    device_dtypes: Sequence[DType] | None = None,
    result: DType | str | None = None,
) -> Callable[[Callable[P, R]], Elementwise[P, R]]:
    """Declare an element-wise op.

    Parameters
    ----------
    glsl : str
        Expression over the parameters' names, of the promoted dtype's GLSL type.
    reference : callable
        The same over NumPy arrays, in the order of the parameters.
    dtypes : sequence of DType, or mapping of str to sequence
        What tensors it takes, for all of them or by parameter.
    device_dtypes : sequence of DType or None
        What it takes on a Vulkan device, where that is less.
    result : DType, str or None
        Dtype of the result, or the parameter that names it; None means the promoted
        dtype of the operands.
    """

    def declare(function: Callable[P, R]) -> Elementwise[P, R]:
        return Elementwise(function, glsl, reference, dtypes, device_dtypes, result)

    return declare


def comparison(
    *, glsl: str, reference: Callable[..., Any], dtypes: Sequence[DType]
) -> Callable[[Callable[P, R]], Elementwise[P, R]]:
    """Declare an element-wise op whose result is bool."""
    return elementwise(glsl=glsl, reference=reference, dtypes=dtypes, result=bool_)


def primitive(
    *,
    dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
    device_dtypes: Sequence[DType] | Mapping[str, Sequence[DType]] | None = None,
    outputs: Sequence[str] = ("out",),
    strided: bool = False,
    typed: str | None = None,
    reduction: str | None = None,
) -> Callable[[Callable[P, R]], Primitive[P, R]]:
    """Declare an op with rules `spec`, `kernel` and `reference`.

    Parameters
    ----------
    dtypes : sequence of DType, or mapping of str to sequence
        What tensors it takes, for all of them or by parameter.
    device_dtypes : same, or None
        What its shader takes, where that is less.
    outputs : sequence of str
        Names of the outputs, which are the shader's argument names.
    strided : bool
        Whether the shader reads inputs through strides; otherwise each arrives in
        row-major order at a 16-byte boundary, copied if it must be.
    typed : str or None
        The tensor whose dtype the shader's `lib/element.glsl` has, which the device
        must be able to store; None means that the shader reads 32-bit words.
    reduction : str or None
        See `Op`.
    """

    def declare(function: Callable[P, R]) -> Primitive[P, R]:
        return Primitive(
            function, dtypes, device_dtypes, outputs, strided, typed, reduction
        )

    return declare


def movement(*, dtypes: Sequence[DType]) -> Callable[[Callable[P, R]], Movement[P, R]]:
    """Declare an op that answers with a view; declare its `layout` rule next."""

    def declare(function: Callable[P, R]) -> Movement[P, R]:
        return Movement(function, dtypes)

    return declare


def composite(
    *,
    dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
    outputs: Sequence[str] = ("out",),
) -> Callable[[Callable[P, R]], Composite[P, R]]:
    """Declare an op written with other ops, under its own gradient rule."""

    def declare(function: Callable[P, R]) -> Composite[P, R]:
        return Composite(function, dtypes, outputs)

    return declare
