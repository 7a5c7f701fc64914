"""Module, the base of every layer and model: parameters, buffers, children, state."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import Device
from ..base.dtype import DTYPES, DType, DTypeLike
from ..eager.base_tensor import evaluate
from ..tensor.tensor import Tensor
from .parameter import Parameter, zero_gradient
from .state_dict import IncompatibleKeys, load_state

Self = TypeVar("Self", bound="Module")


class _Buffer(NamedTuple):
    """Flags of a buffer; the tensor itself is an attribute."""

    persistent: bool
    on_host: bool


class Module:
    """A function with parameters; subclasses assign attributes and define `forward`.

    Parameters, modules and buffers are found among the attributes, in the order in
    which they were first assigned. Their names in `state_dict` are paths with dots.

    Attributes
    ----------
    training : bool
        Whether layers such as dropout behave as in training; see `train` and `eval`.

    Examples
    --------
    >>> class Scale(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.factor = nn.Parameter(fw.ones(3))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(fw.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """

    training = True
    _buffers: Mapping[str, _Buffer] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; each subclass defines it."""
        raise NotImplementedError(
            f"{type(self).__name__}.forward: it is not defined;"
            " a module is called through it"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `forward`."""
        if trace_hooks.running:
            self._notify_trace()
        return self.forward(*args, **kwargs)

    def _notify_trace(self) -> None:
        """Let the running trace guard the module's fingerprint."""
        trace = trace_hooks.listener()
        if trace is not None:
            trace.called(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if vars(self).get(name, trace_hooks) is not value:
            trace_hooks.structure_changed()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        trace_hooks.structure_changed()
        super().__delattr__(name)

    def _fingerprint(self) -> list[object]:
        """Return the guarded state: attributes, storages and `requires_grad`."""
        found: list[object] = []
        for name, value in vars(self).items():
            found += [name, value]
            if isinstance(value, Tensor):
                found += [value.array, value.requires_grad]
        return found

    # Parameters, buffers and children

    def register_buffer(
        self,
        name: str,
        tensor: Tensor | None,
        persistent: bool = True,
        on_host: bool = False,
    ) -> None:
        """Make a tensor an attribute that is no parameter but moves and is saved.

        Parameters
        ----------
        name : str
            The attribute.
        tensor : Tensor or None
            Its value.
        persistent : bool, default True
            Whether it is part of `state_dict`.
        on_host : bool, default False
            Whether it stays on the host when the module moves: for what Python reads.
        """
        self._buffers = {**self._buffers, name: _Buffer(persistent, on_host)}
        setattr(self, name, tensor)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules among the attributes, with the attributes' names."""
        if trace_hooks.running:
            self._notify_trace()
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """Yield the modules among the attributes."""
        for _, child in self.named_children():
            yield child

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module and everything below it, each once, with its path."""
        yield from self._descend(prefix, set())

    def _descend(self, path: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        yield path, self
        for name, child in self.named_children():
            yield from child._descend(_join(path, name), seen)

    def modules(self) -> Iterator[Module]:
        """Yield this module and everything below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters here and below, each once, with their paths."""
        seen: set[int] = set()
        for path, module in self.named_modules(prefix):
            for name, value in module._own_parameters():
                if id(value) not in seen:
                    seen.add(id(value))
                    yield _join(path, name), value

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters here and below, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers here and below, with their paths."""
        for path, module in self.named_modules(prefix):
            for name, value, _ in module._own_buffers():
                yield _join(path, name), value

    def buffers(self) -> Iterator[Tensor]:
        """Yield the buffers here and below."""
        for _, buffer in self.named_buffers():
            yield buffer

    def _own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        if trace_hooks.running:
            self._notify_trace()
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                yield name, value

    def _own_buffers(self) -> Iterator[tuple[str, Tensor, _Buffer]]:
        if trace_hooks.running:
            self._notify_trace()
        for name, buffer in self._buffers.items():
            value = getattr(self, name)
            if value is not None:
                yield name, value, buffer

    # State

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by path.

        The tensors share the module's storage: they follow its training.
        """
        return {name: tensor.detach() for name, tensor in self._state("")}

    def _state(self, path: str) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self._own_parameters():
            yield _join(path, name), parameter
        for name, tensor, buffer in self._own_buffers():
            if buffer.persistent:
                yield _join(path, name), tensor
        for name, child in self.named_children():
            yield from child._state(_join(path, name))

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True
    ) -> IncompatibleKeys:
        """Copy tensors into the parameters and buffers of the same path.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            On any device, in any dtype that `can_cast` to the module's.
        strict : bool, default True
            Whether the paths must be the same on both sides.

        Returns
        -------
        IncompatibleKeys
            `missing_keys` and `unexpected_keys`; both empty if `strict`.

        Raises
        ------
        StateError
            If `strict` and paths differ; nothing has been changed then.
        TypeError, ShapeError, DTypeError
            If a value is no tensor, or its shape or dtype does not fit, strict or not;
            nothing has been changed then.
        """
        own = dict(self._state(""))
        answer = load_state(type(self).__name__, own, state_dict, strict)
        # At once: a step that fails must not take the loaded values with it.
        if own:
            evaluate(*own.values())
        return answer

    # Changes to everything at once

    def train(self: Self, mode: bool = True) -> Self:
        """Set `training` here and below; return self."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set `training` to False here and below; return self."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set whether gradients are computed for the parameters; return self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the parameters, or set them to zero."""
        for parameter in self.parameters():
            zero_gradient(parameter, set_to_none)

    def apply(self: Self, function: Callable[[Module], object]) -> Self:
        """Call a function with everything below, then with this module; return self."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def to(
        self: Self,
        target: Device | DType | str | None = None,
        *,
        dtype: DTypeLike | None = None,
        device: Device | str | None = None,
    ) -> Self:
        """Move everything to a device, float tensors to a dtype, in place; return self.

        Parameters
        ----------
        target : Device, DType or str
            A device ("cpu", "gpu", a device's name) or a dtype ("float16").
        dtype, device
            The same by name.
        """
        if isinstance(target, DType) or (isinstance(target, str) and target in DTYPES):
            dtype = target
        elif target is not None:
            device = target

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.dtype.is_float else None
            return tensor.to(device=device, dtype=wanted)

        return self._convert(convert)

    def to_gpu(self: Self, device: Device | str | None = None) -> Self:
        """Move to the best Vulkan device, or the one named, in place; return self."""
        return self._convert(lambda tensor: tensor.to_gpu(device))

    def cpu(self: Self) -> Self:
        """Move to the host in place; return self."""
        return self._convert(Tensor.cpu)

    def _convert(self: Self, function: Callable[[Tensor], Tensor]) -> Self:
        with no_grad():
            for parameter in self.parameters():
                parameter.data = function(parameter)
                if parameter.grad is not None:
                    parameter.grad = function(parameter.grad)
            for module in self.modules():
                for _, tensor, buffer in module._own_buffers():
                    if not buffer.on_host:
                        tensor.data = function(tensor)
        return self

    # Text

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows; layers define it."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}" for name, child in self.named_children()]
        name, extra = type(self).__name__, self.extra_repr()
        if not lines:
            return f"{name}({extra})"
        body = "\n".join([extra, *lines] if extra else lines)
        return f"{name}(\n{textwrap.indent(body, '  ')}\n)"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
