"""Ops: the binding, checks and tape entries that every declared op shares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

import numpy as np

from ..autograd.engine import is_grad_enabled
from ..autograd.saved_tensors import TapeRecorder, tape_recorder
from ..base import modes
from ..base.device import Device, GpuDevice, on_device_removed
from ..base.dtype import FLOAT8, DType, bool_, complex128, float32, takes
from ..base.errors import (
    DeviceMismatchError,
    DTypeError,
    Float8Error,
    GradError,
)
from ..base.parameters import parameter_kinds
from ..base.shape import Layout
from ..base.size_limits import check_value, check_views
from ..eager.base_tensor import TensorCore
from ..ir.kernel_call import Dispatch, StridedSpec
from ..ir.lazy_graph import Array, Node, Value
from ..scheduler.scheduler import append
from . import batching
from .autocast_policy import Policy, autocast_arguments
from .keywords import into, renamed, translated

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])

_NO_NUMBERS = (str, bytes, list, tuple, dict, set, np.ndarray)
"""Types of arguments that are taken for no number, nor anything else but a tensor."""

REGISTRY: dict[str, Op[..., Any]] = {}
"""Every declared op by name."""


class Op(Generic[P, R]):
    """Declared op; call it like the function it was declared with.

    Attributes
    ----------
    name : str
        The function's name.
    tensors : tuple of str
        Parameters that are tensors.
    dtypes : tuple of DType or mapping of str to tuple
        Supported dtypes of the tensors, for all of them or by parameter.
    epilogue_dims : int
        Trailing dimensions of a product's result within which its kernel makes
        contiguous elements, so that an epilogue may be fused; 0 for every other op.
    glsl, complex_glsl : str or None
        Expression of an element-wise op, of real and of complex numbers.
    operands : tuple of str
        Parameters of an element-wise expression.
    row_major : bool
        Whether results of an element-wise op are in row-major order, also where all
        operands share another memory order.
    elementwise_form : Op or None
        Element-wise op of one tensor that gives the same, which takes the place of one
        that is not element-wise where that is fused with what makes the operand.
    shorter_form : Op or None
        Op of the first operands that makes the first results alone, which takes the
        place of this one where nothing reads the others.
    source : (str, DType) or None
        Source of an element-wise op without operands in memory: one of
        `codegen.ir.program.GENERATED`, and its dtype; `operands` then names it first.
    draws : bool
        Whether its nodes' numbers begin with the words of a stream of draws.
    reduction : str or None
        Decomposition, one of `codegen.ir.reductions.DECOMPOSITIONS`, of a primitive
        that reduces a tensor `x` over `dims`, which stay with size 1. Element-wise work
        is fused with it.
    policy : callable or None
        Autocast policy; see `autocast_policy`.
    keyword_form : callable or None
        See `form`.
    output_names : tuple of str
        "out", or the names of several outputs. Gradients flow through the first.
    """

    is_elementwise = False
    draws = False
    epilogue_dims = 0
    glsl: str | None = None
    complex_glsl: str | None = None
    operands: tuple[str, ...] = ()
    row_major = False
    elementwise_form: Op[..., Any] | None = None
    shorter_form: Op[..., Any] | None = None
    source: tuple[str, DType] | None = None
    reduction: str | None = None
    policy: Policy | None = None
    keyword_form: Callable[..., Any] | None = None

    tensors_only: frozenset[str] = frozenset()
    """Arguments that are no numbers; see `only_tensors`."""

    def __init__(
        self,
        function: Callable[P, R],
        dtypes: Sequence[DType] | Mapping[str, Sequence[DType]],
        outputs: Sequence[str] = ("out",),
    ) -> None:
        self.name = function.__name__.lstrip("_")
        self.function = function
        self.__name__ = self.name
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        kinds = parameter_kinds(function)
        self.names = tuple(kinds)
        self.renamed = renamed(self.name, self.names)
        self.tensors = tuple([name for name in kinds if "Tensor" in kinds[name]])
        self.dtypes = dtypes
        self.device_dtypes: Sequence[DType] | Mapping[str, Sequence[DType]] | None = (
            None
        )
        self.output_names = tuple(outputs)
        self.single = len(self.output_names) == 1
        self.rule: Callable[..., Any] = self._no_rule
        self.rule_names: tuple[str, ...] = ()
        self._tape_recorders: dict[tuple[str, ...], TapeRecorder] = {}
        if self.name in REGISTRY:
            raise TypeError(f"{self.name}: an op of this name is already declared")
        REGISTRY[self.name] = self

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function."""
        return inspect.signature(self.function).parameters

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @overload
    def __get__(
        self: Op[Concatenate[Any, Q], R], instance: TensorCore, owner: type
    ) -> Callable[Q, R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Op[P, R]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        """Bind as a method of tensor classes that have the op; itself elsewhere."""
        return MethodType(self, instance) if isinstance(instance, TensorCore) else self

    def forget(self) -> None:
        """Clear the call cache, which may refer to a device that is closed."""

    def vjp(self, rule: Rule) -> Rule:
        """Declare the gradient rule; see `dispatch.declare` for its parameters."""
        self.rule_names = self.checked_rule_names(rule)
        self.rule = rule
        self._tape_recorders.clear()
        return rule

    def checked_rule_names(self, rule: Callable[..., Any]) -> tuple[str, ...]:
        """Return the parameters of a gradient rule; raise TypeError for others."""
        names = tuple(parameter_kinds(rule))
        if "grad" in self.names or "needs" in self.names:
            raise TypeError(f"{self.name}.vjp: `grad` and `needs` are the rule's own")
        known = {"grad", "needs", *self.names, *self.output_names}
        known.update(f"{name}_spec" for name in self.tensors)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise TypeError(
                f"{self.name}.vjp: unknown parameters: {', '.join(unknown)};"
                f" a rule may take {', '.join(sorted(known))}"
            )
        return names

    def form(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the function behind calls with keywords or other arguments.

        It has PyTorch's parameters, where those are more than the op's, and calls the
        op with all arguments in order.
        """
        self.keyword_form = function
        return function

    def _no_rule(self, grad: Any) -> Any:
        raise GradError(
            f"backward: {self.name} has no gradient rule;"
            " use its result under no_grad() or .detach() it"
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Apply the op."""
        if "out" in kwargs:
            return cast(R, into(self, args, kwargs))
        bound = dict(zip(self.names, self._given(args, kwargs)))
        if batching.has_rules:
            answer = batching.batched_call(self, bound)
            if answer is not NotImplemented:
                return cast(R, answer)
        tensors = self._tensors(bound)
        outputs = self._apply(bound, tensors)
        self._record(bound, tensors, outputs)
        return cast(R, outputs[0] if len(self.output_names) == 1 else outputs)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return every argument in order, autocast by this thread's policy."""
        if modes.autocast_blocks and self.policy is not None:
            args, kwargs = autocast_arguments(self.policy, args, kwargs)
        if kwargs or len(args) != len(self.names):
            bound = self._bind(args, kwargs)
            args = tuple([bound[name] for name in self.names])
        return args

    def only_tensors(self, *names: str) -> None:
        """Declare arguments that are tensors in every call, where others take numbers.

        What is not cached is checked, and such calls never are.
        """
        self.tensors_only = frozenset(names)

    def _tensors(self, bound: dict[str, Any]) -> dict[str, Any]:
        """Return the tensor arguments of tensor parameters.

        Raises
        ------
        TypeError
            For what is neither a tensor nor a number, nor None where that is taken.
        """
        tensors = {}
        for name in self.tensors:
            if isinstance(bound[name], TensorCore):
                tensors[name] = bound[name]
            else:
                self._refuse_no_tensor(name, bound[name])
        return tensors

    def _refuse_no_tensor(self, name: str, value: object) -> None:
        """Raise `TypeError` where an argument can only have been meant as a tensor."""
        if name in self.tensors_only:
            raise TypeError(
                f"{self.name}: the argument `{name}` is a {type(value).__name__}; it"
                " must be a tensor"
            )
        accepted = str(self.parameters[name].annotation)
        optional = "None" in accepted or self.parameters[name].default is None
        if "[" in accepted or not (
            isinstance(value, _NO_NUMBERS) or (value is None and not optional)
        ):
            return
        if isinstance(value, np.ndarray) and not value.ndim:
            return
        takes_numbers = self.is_elementwise and len(self.tensors) > 1
        wanted = "a tensor or a number" if takes_numbers else "a tensor"
        raise TypeError(
            f"{self.name}: the argument `{name}` is a {type(value).__name__}; it must"
            f" be {wanted}"
        )

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return every argument by name, as Python itself would bind them."""
        if kwargs:
            kwargs = translated(self.renamed, kwargs, self.name)
        bound = dict(zip(self.names, args))
        for name, parameter in self.parameters.items():
            if name not in bound and name not in kwargs:
                if parameter.default is inspect.Parameter.empty:
                    raise TypeError(f"{self.name}: the argument `{name}` is missing")
                bound[name] = parameter.default
        for name, value in kwargs.items():
            if name not in self.parameters or name in self.names[: len(args)]:
                raise TypeError(
                    f"{self.name}: unexpected argument `{name}`;"
                    f" it takes ({', '.join(self.names)})"
                )
            bound[name] = value
        if len(args) > len(self.names):
            raise TypeError(
                f"{self.name}: {len(args)} arguments given;"
                f" it takes ({', '.join(self.names)})"
            )
        return bound

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        raise NotImplementedError

    def _record(
        self,
        bound: dict[str, Any],
        tensors: dict[str, Any],
        outputs: tuple[TensorCore, ...],
    ) -> None:
        """Record a tape entry if a tensor requires a gradient."""
        if not is_grad_enabled() or not outputs[0].dtype.is_differentiable:
            return
        if not any(tensor.needs_grad for tensor in tensors.values()):
            return
        arguments = [bound[name] for name in self.names]
        present = tuple(tensors)
        specs = tuple(tensor.spec for tensor in tensors.values())
        given = list(tensors.values())
        self.tape_recorder(present).record(arguments, given, outputs, specs)

    def tape_recorder(self, present: tuple[str, ...]) -> TapeRecorder:
        """Return the tape recorder of calls with tensors for `present`."""
        found = self._tape_recorders.get(present)
        if found is None:
            found = self.recorder_of((self.rule, self.rule_names), present)
            self._tape_recorders[present] = found
        return found

    def recorder_of(
        self,
        rule: tuple[Callable[..., Any], tuple[str, ...]],
        present: tuple[str, ...],
    ) -> TapeRecorder:
        """Return the tape recorder of a gradient rule and its parameters."""
        parameters = self.names, self.tensors, self.output_names
        return tape_recorder(self.name, rule, parameters, present)

    def _check(
        self,
        tensors: Mapping[str, Any],
        compute: DType | None = None,
        mixed: bool = False,
    ) -> Device:
        """Return the common device of the tensors after checking their dtypes.

        A bool tensor passes as the dtype that it is promoted to, if one is given; so
        does every tensor if they are `mixed`.
        """
        device: Device | None = None
        for name, tensor in tensors.items():
            allowed = (
                self.dtypes[name] if isinstance(self.dtypes, Mapping) else self.dtypes
            )
            promoted = tensor.dtype
            if compute is not None and (mixed or promoted is bool_):
                promoted = compute
            if not takes(allowed, promoted):
                plain = float32 in allowed and not tensor.dtype.is_complex
                hint = "; call x.float() first" if plain else ""
                error = Float8Error if promoted in FLOAT8 else DTypeError
                raise error(
                    f"{self.name}: `{name}` is {tensor.dtype.name}; accepted:"
                    f" {', '.join(dtype.name for dtype in allowed)}{hint}"
                )
            if device is not None and tensor.device is not device:
                places = ", ".join(f"`{n}` on {t.device}" for n, t in tensors.items())
                raise DeviceMismatchError(
                    f"{self.name}: tensors are on different devices: {places};"
                    " move them with .to()"
                )
            device = tensor.device
        if device is None:
            raise TypeError(
                f"{self.name}: no argument is a tensor;"
                f" one of {', '.join(self.tensors)} must be"
            )
        return device

    def _check_device(self, tensors: dict[str, Any], device: GpuDevice) -> None:
        """Raise `DTypeError` for dtypes that the kernels of a Vulkan device lack."""
        accepted = self.device_dtypes
        if accepted is None:
            return
        for name, tensor in tensors.items():
            allowed = accepted.get(name) if isinstance(accepted, Mapping) else accepted
            if allowed is not None and tensor.dtype not in allowed:
                raise DTypeError(
                    f"{self.name}: `{name}` is {tensor.dtype.name}, which the kernel"
                    f" for {device.name} does not take; accepted there:"
                    f" {', '.join(each.name for each in on_device(allowed, device))}"
                )

    def tensor_names(self, params: tuple[tuple[str, object], ...]) -> tuple[str, ...]:
        """Return the names of a node's inputs, in order."""
        names = dict(params)["tensors"]
        assert isinstance(names, tuple)
        return names

    def input_specs(self, node: Node) -> dict[str, StridedSpec]:
        """Return a node's inputs by name, as `dispatches` takes them."""
        return {
            name: StridedSpec(layout.shape, value.dtype, layout)
            for name, (value, layout) in zip(
                self.tensor_names(node.params), node.inputs
            )
        }

    def dispatches(
        self,
        gpu: DeviceInfo,
        input_specs: Mapping[str, StridedSpec],
        params: dict[str, object],
    ) -> Sequence[Dispatch]:
        """Return the dispatches of a node; for ops that are not element-wise."""
        raise NotImplementedError

    def tuning_key(self, node: Node) -> str | None:
        """Return the tuning key of a node; None without candidates. See `autotune`."""
        return None

    def candidate_names(self, gpu: DeviceInfo, node: Node) -> tuple[str, list[str]]:
        """Return the name of the default candidate of a node, and the others."""
        return "", []


_copies: list[Callable[..., Any]] = []


def register_copy(copy: Callable[..., Any]) -> None:
    """Set the op behind `contiguous_copy`, a tensor to the same in fresh storage.

    Ops are declared above this package, so none can be imported here.
    """
    _copies[:] = [copy]


def contiguous_copy(tensor: Any) -> Any:
    """Return a tensor's elements in fresh row-major storage, by the registered op."""
    return _copies[0](tensor)


def _forget_calls() -> None:
    for op in list(REGISTRY.values()):
        op.forget()


on_device_removed(_forget_calls)


def on_device(dtypes: Iterable[DType], device: GpuDevice) -> list[DType]:
    """Return those of some dtypes that a device computes in."""
    return [
        each
        for each in dtypes
        if each is not complex128
        and (each.feature is None or getattr(device.gpu.info, each.feature))
    ]


def need_feature(
    name: str, dtype: DType, device: GpuDevice, *, typed: bool = False
) -> None:
    """Raise `DTypeError` if shaders of a device cannot compute in a dtype.

    `typed` means that they declare buffers of it, instead of loading whole words.
    """
    feature = dtype.storage_feature if typed else dtype.feature
    if dtype is complex128:
        raise DTypeError(
            f"{name}: {device.name} has no complex128; use complex64 there, or the cpu"
            " device"
        )
    if feature is not None and not getattr(device.gpu.info, feature):
        raise DTypeError(
            f"{name}: {device.name} has no {feature}, which {dtype.name} needs;"
            " use a 32-bit dtype there, or the cpu device"
        )


def _output(like: TensorCore, value: Value, shape: tuple[int, ...]) -> TensorCore:
    return type(like).make(Array(value), Layout.contiguous(shape), like.device)


def submit_node(like: TensorCore, node: Node) -> tuple[TensorCore, ...]:
    """Append a node to the lazy graph of `like`'s device; return its output tensors.

    Empty outputs are never computed: they get their memory at once. Sizes over the
    device's limits are refused; see `size_limits`. The device's lock is to be held, as
    by `append`.
    """
    device = like.device
    assert isinstance(device, GpuDevice)
    for value, layout in zip(node.outputs, node.layouts):
        check_value(node.op.name, layout.shape, value.dtype, device)
    if not node.op.is_elementwise:
        check_views(node.op.name, (layout for _, layout in node.inputs))
    # Referenced before the graph is flushed, which appending may do.
    outputs = tuple(
        _output(like, value, layout.shape)
        for value, layout in zip(node.outputs, node.layouts)
    )
    if any(value.numel for value in node.outputs):
        append(device, node)
    else:
        for value in node.outputs:
            value.node, value.buffer = None, device.gpu.allocate(0)
    return outputs
