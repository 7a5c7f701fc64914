"""Element-wise ops: a GLSL expression, and a call cache for their graph nodes.

Checks, dtypes and layouts depend only on the layouts and dtypes of the operands. The
first call takes the slow path and leaves a `CachedElementwise`; the next ones use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from ..autograd.engine import grad_mode
from ..autograd.saved_tensors import TapeRecorder
from ..base import modes
from ..base.device import CPU, META, Device, GpuDevice
from ..base.docstring import cleaned, dtype_words, section, with_parameters
from ..base.dtype import (
    BOOL,
    COMPLEX,
    INT,
    UINT,
    DType,
    bool_,
    combined,
    convert,
    default_dtype,
    takes,
)
from ..base.errors import DTypeError
from ..base.shape import Layout, TensorSpec, broadcast_shapes, in_memory_order
from ..base.symbolic_number import is_symbolic
from ..base.trace_hooks import Changing
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import recorded_result
from ..ir.lazy_graph import CacheKey, Node, NodeSignature, Operand, Value
from . import batching
from .call_cache import CallCache
from .deprecated_order import in_order
from .diagnosis import explained_op, reraise, signature_of
from .keywords import into, translated
from .op import REGISTRY, Op, Rule, need_feature, submit_node
from .scalar import (
    is_number_tensor,
    is_rounded,
    number,
    parts_of,
    real,
    rounded,
    scalar_items,
)

P = ParamSpec("P")
R = TypeVar("R")

_FORM = {"x": "input", "y": "other"}
"""Names of the functions of `Op.form`, by ours."""

KINDS = {"bool": BOOL, "uint": UINT, "int": INT}
"""Dtypes of the kinds that an op may be another one for."""


class CachedElementwise(NamedTuple):
    """Cached call of an element-wise op: validated, with its node signature.

    Attributes
    ----------
    device : GpuDevice
        Where it runs.
    generation : int
        Generation of the device when it was cached.
    signature : NodeSignature
        Of its node.
    compute : DType
        Dtype that scalars are converted to.
    plain : bool
        Whether they are floats for a float dtype, which need no conversion.
    limits : (int, int)
        The least and the most number that needs no conversion; 1 and 0 where all do.
    tape_recorder : TapeRecorder or None
        Recorder of its tape entry; None if the result has no gradient.
    specs : tuple of TensorSpec
        Of the tensors.
    layouts : tuple of Layout
        Of the tensors: they are in the key by identity and must outlive it.
    kept : Layout or None
        Of the result, where it is in the memory order of the operands, not row-major.
    """

    device: GpuDevice
    generation: int
    signature: NodeSignature
    compute: DType
    plain: bool
    limits: tuple[int, int]
    tape_recorder: TapeRecorder | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]
    kept: Layout | None


class CachedOnHost(NamedTuple):
    """Cached call of an element-wise op of floats on the host: validated.

    Attributes
    ----------
    compute, result : DType
        Dtypes of the operands and of the result.
    tensors : tuple of str
        Parameters that are tensors.
    layouts : tuple of Layout
        Of these; see `CachedElementwise`.
    kept : Layout or None
        Of the result, as there.
    """

    compute: DType
    result: DType
    tensors: tuple[str, ...]
    layouts: tuple[Layout, ...]
    kept: Layout | None


class Elementwise(Op[P, R]):
    """Element-wise op: its kernel is a GLSL expression over its parameters' names."""

    is_elementwise = True

    def __init__(
        self,
        function: Callable[P, R],
        glsl: str,
        reference: Callable[..., Any],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        result: DType | str | Callable[[DType], DType] | None,
        fractional: bool,
        refuse_integers: Callable[[str, object], None] | None = None,
    ) -> None:
        super().__init__(function, dtypes)
        self.complex_reference: Callable[..., Any] = reference
        self.complex_linear = False
        self.complex_result: Callable[[DType], DType] | None = None
        self.complex_rule: tuple[Callable[..., Any], tuple[str, ...]] | None = None
        self._complex_recorders: dict[tuple[str, ...], TapeRecorder] = {}
        self.fractional = fractional
        self.glsl = glsl
        self.numpy_reference = reference
        self.result = result
        self.refuse_integers = refuse_integers
        self.operands = tuple(name for name in self.names if name != result)
        self.only_numbers = tuple(
            name for name in self.operands if name not in self.tensors
        )
        self.for_kinds: dict[str, Callable[..., Any]] = {}
        self.refuse: Callable[..., None] | None = None
        self.adapt: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None

        self.call_cache: CallCache[CachedElementwise] = CallCache()
        self._known = self.call_cache.get  # bound once, for each call
        self.host_calls: CallCache[CachedOnHost] = CallCache()
        self._describe()

    def _describe(self) -> None:
        """Let the docstring of an op of one tensor name the dtypes that it takes."""
        doc = cleaned(self.function.__doc__)
        if len(self.names) > 1 or not doc or section(doc, "Parameters"):
            return
        assert not isinstance(self.dtypes, Mapping)
        kinds = [KINDS[kind] for kind in self.for_kinds]
        words = dtype_words([*itertools.chain(self.dtypes, *kinds)])
        entry = f"{self.names[0]} : Tensor, any shape, {words}"
        if self.fractional:
            entry += "\n    Integers and bools are converted to the default dtype."
        self.__doc__ = with_parameters(doc, entry)

    def bools(self, function: Rule) -> Rule:
        """Declare what the op is where it computes in bools; it takes the operands."""
        self.for_kinds["bool"] = function
        self._describe()
        return function

    def integers(self, function: Rule) -> Rule:
        """Declare what the op is where it computes in integers, as `bools`."""
        self.for_kinds["int"] = self.for_kinds["uint"] = function
        self._describe()
        return function

    def complexes(
        self,
        *,
        glsl: str,
        reference: Callable[..., Any] | None = None,
        result: Callable[[DType], DType] | None = None,
        linear: bool = False,
    ) -> Callable[[Rule], Rule]:
        """Declare the op of complex numbers, and by decoration its gradient rule.

        Without a rule there, the function is holomorphic, and the rule for real numbers
        serves: PyTorch's gradient is the incoming one times the conjugate derivative.

        Parameters
        ----------
        glsl : str
            Expression over the parameters' names, which are of type vec2.
        reference : callable or None
            NumPy reference; None means that of real numbers.
        result : callable or None
            Returns the dtype of the result for that of the promoted operands.
        linear : bool, default False
            Whether the rule for real numbers serves as it is.
        """
        self.complex_linear = linear
        self.complex_glsl = glsl
        self.complex_reference = reference or self.numpy_reference
        self.complex_result = result
        if isinstance(self.dtypes, Mapping):
            self.dtypes = {
                name: kinds if tuple(kinds) == BOOL else (*kinds, *COMPLEX)
                for name, kinds in self.dtypes.items()
            }
        else:
            self.dtypes = (*self.dtypes, *COMPLEX)
        self._describe()

        def declare(rule: Rule) -> Rule:
            self.complex_rule = rule, self.checked_rule_names(rule)
            return rule

        return declare

    def refuses(self, function: Rule) -> Rule:
        """Declare a check of operands by their dtypes, which raises an error."""
        self.refuse = function
        return function

    def forget(self) -> None:
        """Clear the call caches."""
        self.call_cache.clear()
        self.host_calls.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op, on the fast path if the call is cached."""
        given = args
        casts = modes.autocast_blocks and self.policy is not None
        if casts or kwargs or len(args) != len(self.names):
            if "out" in kwargs:
                return cast(R, into(self, args, kwargs))
            form = self.keyword_form
            if form is not None and (kwargs or len(args) != len(self.names)):
                try:
                    return cast(R, form(*args, **translated(_FORM, kwargs, self.name)))
                except TypeError as error:
                    found = None if kwargs else in_order(self.name, args)
                    if found:
                        return cast(R, form(*found[0], **found[1]))
                    reraise(error, self.name, signature_of(form), args, kwargs)
            given = self._given(args, kwargs)  # type: ignore[assignment]  # P.args
        # Inlined `call_key`, with numbers by type; a tenth less host time.
        numbers: tuple[Any, ...] = ()
        key: tuple[object, ...]
        argument: Any = given[0]
        if len(given) == 1 and isinstance(argument, TensorCore):
            key = id(argument.layout), argument.array.value.dtype, argument.device
            tensors: list[TensorCore] = [argument]
            taped = argument.needs_grad
        else:
            parts: list[object] = []
            tensors = []
            taped = False
            for argument in given:
                if isinstance(argument, TensorCore):
                    dtype = argument.array.value.dtype
                    parts += (id(argument.layout), dtype, argument.device)
                    tensors.append(argument)
                    taped = taped or argument.needs_grad
                elif type(argument) is DType:
                    parts.append(argument)
                else:
                    parts.append(type(argument))
                    numbers += (argument,)
            key = tuple(parts)
        cached = self._known(key)
        if cached is None or cached.generation != cached.device.generation:
            return cast(R, self._slow_path(given, key))
        if numbers and not cached.plain:
            if cached.compute.is_float:
                try:
                    numbers = tuple(
                        [
                            each if type(each) is Changing else float(each)
                            for each in numbers
                        ]
                    )
                except OverflowError:
                    numbers = tuple([real(self.name, each) for each in numbers])
                # Inlined `is_rounded`.
                if self.result is bool_ and cached.compute.itemsize == 2:
                    numbers = tuple([rounded(n, cached.compute) for n in numbers])
            else:
                if self.refuse_integers is not None:
                    self.refuse_integers(self.name, given[-1])
                low, high = cached.limits
                numbers = tuple(
                    [
                        each
                        if type(each) is int and low <= each <= high
                        else number(self.name, cached.compute, each)
                        for each in numbers
                    ]
                )
                if cached.compute.is_complex:
                    numbers = parts_of(numbers)
        first, device = tensors[0], cached.device
        with device.lock:
            # Inlined, as it runs once per op.
            if len(tensors) == 1:
                values: tuple[Value, ...] = (first.array.value,)
            elif len(tensors) == 2:
                values = first.array.value, tensors[1].array.value
            else:
                values = tuple([each.array.value for each in tensors])
            kind = first.results
            out = recorded_result(cached.signature, values, numbers, kind, device)
        if cached.kept is not None:
            out.layout = cached.kept
        if taped and cached.tape_recorder is not None and grad_mode.top.value:
            tape_recorder, specs = cached.tape_recorder, cached.specs
            tape_recorder.record(given, tensors, (out,), specs, cached)
        result: R = out  # no `cast`, which is a call
        return result

    @explained_op
    def _slow_path(self, args: tuple[Any, ...], key: CacheKey) -> Any:
        """Check a call and apply the op; on a device, cache the call under `key`."""
        bound = dict(zip(self.names, args))
        if batching.has_rules:
            answer = batching.batched_call(self, bound)
            if answer is not NotImplemented:
                return answer
        if self.adapt is not None:
            other = self.adapt(bound)
            if other is not None:
                return self(**other)  # type: ignore[call-arg]  # the parameters P
        for name in self.only_numbers:
            if is_number_tensor(bound[name]):
                return self(**{**bound, name: bound[name].item()})  # type: ignore[call-arg]  # the parameters P
        known = self.host_calls[key]
        if known is not None:
            return self._on_host_again(known, args, bound)
        # Of calls on the host there are none, so that they look here alone.
        before = self.call_cache[key]
        if before is not None and before.generation == before.device.generation:
            return self(*args)  # type: ignore[call-arg]  # the parameters P
        tensors = self._tensors(bound)
        compute, result = self._result_dtypes(bound, tensors)
        if len({tensor.device for tensor in tensors.values()}) > 1:
            moved = _beside(tensors, compute)
            if moved:
                return self(*[moved.get(name, bound[name]) for name in self.names])  # type: ignore[call-arg]  # the parameters P
        if self.refuse is not None:
            self.refuse(*args)
        if compute.kind in self.for_kinds:
            return self.for_kinds[compute.kind](*args)
        device = self._checked(tensors, compute)
        shape = broadcast_shapes(self.name, *(t.shape for t in tensors.values()))
        if self.refuse_integers is not None and not compute.is_float:
            self.refuse_integers(self.name, args[-1])
        numbers = {
            name: self._number(compute, bound[name])
            for name in self.operands
            if name not in tensors
        }
        views = [each.layout.expand(shape) for each in tensors.values()]
        kept, views = (None, views) if self.row_major else in_memory_order(views)
        if device is META:
            out = next(iter(tensors.values())).results.without_data(shape, result)
            out.layout = out.layout if kept is None else kept
            self._record_in(compute, bound, tensors, out)
            return out
        if not isinstance(device, GpuDevice):
            out = self._on_host(tensors, numbers, compute, result, kept)
            self._record_in(compute, bound, tensors, out)
            if compute.is_float and all(t.dtype is compute for t in tensors.values()):
                layouts = tuple(tensor.layout for tensor in tensors.values())
                entry = CachedOnHost(compute, result, tuple(tensors), layouts, kept)
                self.host_calls.add(key, entry)
            return out
        generation = device.generation
        for dtype in (compute, result, *(each.dtype for each in tensors.values())):
            need_feature(self.name, dtype, device)
        shape = views[0].shape
        with device.lock:
            values = [each.array.value for each in tensors.values()]
            node = Node.of(
                self,
                tuple(map(Operand, values, views)),
                (Layout.contiguous(shape),),
                (result,),
                (("compute", compute), ("tensors", tuple(tensors))),
                scalar_items(compute, numbers),
            )
            (out,) = submit_node(next(iter(tensors.values())), node)
            if kept is not None:
                out.layout = kept
        self._record_in(compute, bound, tensors, out)
        if node.outputs[0].numel and not any(map(is_symbolic, numbers.values())):
            cached = CachedElementwise(
                device,
                generation,
                node.signature,
                compute,
                compute.is_float
                and not (self.result is bool_ and is_rounded(compute))
                and all(type(bound[name]) is float for name in numbers),
                (1, 0)
                if compute.kind == "bool" or compute.is_differentiable
                else compute.limits,
                self._recorder(compute, tuple(tensors))
                if result.is_differentiable
                else None,
                tuple(tensor.spec for tensor in tensors.values()),
                tuple(tensor.layout for tensor in tensors.values()),
                kept,
            )
            self.call_cache.add(key, cached)
        return out

    def _number(self, compute: DType, value: Any) -> float:
        """Return a scalar argument; what elements are compared with has their dtype."""
        found = number(self.name, compute, value)
        compared = self.result is bool_ and is_rounded(compute)
        return rounded(found, compute) if compared else found

    def _on_host_again(
        self, known: CachedOnHost, args: tuple[Any, ...], bound: dict[str, Any]
    ) -> Any:
        """Apply the op on the host by a cached call."""
        if self.refuse is not None:
            self.refuse(*args)
        compute, given = known.compute, known.tensors
        tensors = {name: bound[name] for name in given}
        numbers = {
            name: self._number(compute, bound[name])
            for name in self.operands
            if name not in tensors
        }
        out = self._on_host(tensors, numbers, compute, known.result, known.kept)
        self._record_in(compute, bound, tensors, out)
        return out

    def _recorder(self, compute: DType, present: tuple[str, ...]) -> TapeRecorder:
        """Return the tape recorder of calls that compute in a dtype."""
        if not compute.is_complex or self.complex_linear:
            return self.tape_recorder(present)
        found = self._complex_recorders.get(present)
        if found is None:
            rule = self.complex_rule or (_holomorphic(self.rule), self.rule_names)
            found = self.recorder_of(rule, present)
            self._complex_recorders[present] = found
        return found

    def _record_in(
        self,
        compute: DType,
        bound: dict[str, Any],
        tensors: dict[str, Any],
        out: TensorCore,
    ) -> None:
        """Record a tape entry, by the rule of the dtype that is computed in."""
        if not compute.is_complex or self.complex_linear:
            self._record(bound, tensors, (out,))
        elif (
            grad_mode.top.value
            and out.dtype.is_differentiable
            and any(each.needs_grad for each in tensors.values())
        ):
            self._recorder(compute, tuple(tensors)).record(
                [bound[name] for name in self.names],
                list(tensors.values()),
                (out,),
                tuple(each.spec for each in tensors.values()),
            )

    def _checked(self, tensors: dict[str, Any], compute: DType) -> Device:
        """Return the device of the tensors after checking all dtypes."""
        accepted = None if isinstance(self.dtypes, Mapping) else self.dtypes
        passing = None if accepted is None else compute
        mixed = self.fractional or (
            passing in (accepted or ())
            and any(tensor.dtype in (accepted or ()) for tensor in tensors.values())
        )
        device = self._check(tensors, passing, mixed)
        if accepted is not None and not takes(accepted, compute):
            raise DTypeError(
                f"{self.name}: the operands combine to {compute.name}; accepted:"
                f" {', '.join(dtype.name for dtype in accepted)}"
            )
        return device

    def _result_dtypes(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[DType, DType]:
        """Return the compute dtype and the result dtype."""
        if isinstance(self.result, str):
            return bound[self.result], bound[self.result]
        given = tensors.values()
        compute = combined(
            [each.dtype for each in given if each.ndim],
            [each.dtype for each in given if not each.ndim],
            [bound[name] for name in self.tensors if name not in tensors],
        )
        if self.fractional and not compute.is_differentiable:
            compute = default_dtype()
        if self.complex_result is not None and compute.is_complex:
            return compute, self.complex_result(compute)
        if self.result is None or isinstance(self.result, DType):
            return compute, self.result or compute
        return compute, self.result(compute)

    def _on_host(
        self,
        tensors: dict[str, Any],
        numbers: dict[str, float],
        compute: DType,
        result: DType,
        kept: Layout | None,
    ) -> TensorCore:
        with np.errstate(all="ignore"):
            arguments = [
                operand_as(compute, host_elements(tensors[name]))
                if name in tensors
                else compute.arithmetic.type(numbers[name])
                for name in self.operands
            ]
            made = self.complex_reference if compute.is_complex else None
            answer = np.asarray((made or self.numpy_reference)(*arguments))
            first: TensorCore = next(iter(tensors.values()))
            if kept is None:
                return type(first).from_host(answer, first.device, result)
            in_order = answer.transpose(kept.memory_order)
            out = type(first).from_host(in_order, first.device, result)
            out.layout = kept
            return out


def _beside(tensors: Mapping[str, Any], compute: DType) -> dict[str, Any]:
    """Return zero-dimensional operands on the host, moved to the device of the others.

    Differentiable. None where the others, too, are on several devices; what shaders of
    the device cannot load is cast to `compute` first.
    """
    alone = {n: t for n, t in tensors.items() if not t.ndim and t.device is CPU}
    places = {t.device for n, t in tensors.items() if n not in alone}
    if len(places) != 1:
        return {}
    (device,) = places
    move, cast_to = REGISTRY["move"], REGISTRY["cast"]
    moved = {}
    for name, tensor in alone.items():
        feature = tensor.dtype.feature if device.is_gpu else None
        if feature is not None and not getattr(device.gpu.info, feature, False):
            tensor = cast_to(tensor, compute)
        moved[name] = move(tensor, tensor.device, device)
    return moved


def host_elements(tensor: TensorCore) -> np.ndarray:
    """Return the elements of a tensor on the host, which are read from a device."""
    return tensor.host_copy() if tensor.is_gpu else tensor.host_view()


def operand_as(dtype: DType, array: np.ndarray) -> np.ndarray:
    """Return an operand of any dtype, converted as for an op that computes in `dtype`.

    A zero-dimensional operand wider than a 2-byte float is not rounded.
    """
    if dtype.itemsize == 2 and dtype.is_float and array.dtype.kind == "f":
        return array.astype(dtype.arithmetic, copy=False)
    return taken_as(dtype, array)


def taken_as(dtype: DType, array: np.ndarray) -> np.ndarray:
    """Return an operand's elements, converted to the compute dtype."""
    if array.dtype == dtype.arithmetic:
        return array
    return convert(array, dtype).astype(dtype.arithmetic, copy=False)


def _holomorphic(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the complex gradient rule of a function, from the rule for real numbers.

    That one multiplies the gradient with the derivative, and here with its conjugate.
    """
    conj = REGISTRY["conj_physical"]

    def complex_rule(grad: Any, **arguments: Any) -> tuple[Any, ...]:
        answers = rule(grad=conj(grad) if grad.dtype.is_complex else grad, **arguments)
        answers = answers if isinstance(answers, tuple) else (answers,)
        return tuple(
            conj(each)
            if isinstance(each, TensorCore) and each.dtype.is_complex
            else each
            for each in answers
        )

    complex_rule.__module__ = getattr(rule, "__module__", "")
    return complex_rule
