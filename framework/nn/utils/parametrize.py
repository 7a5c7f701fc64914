"""Parametrizations: parameters that are computed from others whenever they are read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ...autograd.grad_mode import no_grad
from ...tensor.tensor import Tensor
from ..container import ModuleDict, ModuleList
from ..module import Module
from ..module_tree import BUFFER, PARAMETER
from ..parameter import Parameter

_CLASS_MARK = "Parametrized"


class _Cache:
    """Computed values within blocks of `cached`."""

    depth = 0
    values: ClassVar[dict[tuple[int, str], Any]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once within the block, not at each reading."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


class ParametrizationList(ModuleList):
    """Parametrizations of one tensor, and what it is computed from.

    Parameters
    ----------
    modules : sequence of Module
        The first one's `right_inverse`, if it has one, makes the originals.
    original : Tensor
        The tensor before.
    unsafe : bool, default False
        Whether dtype and shape may change, unchecked.

    Attributes
    ----------
    original, or original0, original1, ... : Parameter or Tensor
        What the tensor is computed from.
    """

    def __init__(
        self, modules: Sequence[Module], original: Tensor, unsafe: bool = False
    ) -> None:
        if not modules:
            raise ValueError(
                "ParametrizationList: there is no parametrization; give one or more"
            )
        super().__init__(modules)
        self.unsafe = unsafe
        learned = isinstance(original, Parameter)
        value = _inverse(reversed([*self]), original.detach())
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        for name, each in zip(self._originals(), [value] if self.is_tensor else value):
            if not isinstance(each, Tensor):
                raise ValueError(
                    f"register_parametrization: right_inverse returned a"
                    f" {type(each).__name__}; it must return tensors"
                )
            part = original if each is original else each
            if learned:
                made = part if isinstance(part, Parameter) else Parameter(part.detach())
                made.requires_grad_(original.requires_grad)
                self.register_parameter(name, made)
            else:
                self.register_buffer(name, part)

    def _originals(self) -> list[str]:
        if self.is_tensor:
            return ["original"]
        return [f"original{k}" for k in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes a value."""
        with no_grad():
            found = _inverse(reversed([*self]), value)
            parts = [found] if self.is_tensor else found
            for name, part in zip(self._originals(), parts):
                own = getattr(self, name)
                if own.shape != part.shape:
                    raise ValueError(
                        f"parametrize: the value gives an original of shape"
                        f" {tuple(part.shape)}; it must be {tuple(own.shape)}"
                    )
                own.copy_(part)

    def forward(self) -> Tensor:
        """Return the tensor that the parametrizations compute."""
        first: Any = self[0]
        value: Tensor = first(*[getattr(self, name) for name in self._originals()])
        for each in [*self][1:]:
            value = each(value)
        return value


def _inverse(modules: Any, value: Any) -> Any:
    """Return what modules, each after the other, compute a value from."""
    with no_grad():
        for each in modules:
            if hasattr(each, "right_inverse"):
                try:
                    value = each.right_inverse(value)
                except NotImplementedError:
                    continue
    return value


def _inject_class(module: Module) -> None:
    """Give a module a class of its own, which can have properties."""
    kind = type(module)

    def reduce(self: Any, protocol: Any) -> Any:
        raise RuntimeError(
            "parametrize: modules with parametrizations cannot be pickled; save their"
            " state_dict()"
        )

    def twin(self: Any, memo: dict[int, Any]) -> Any:
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(self.__dict__, memo))
        _inject_class_again(made)
        return made

    made = type(
        f"{_CLASS_MARK}{kind.__name__}",
        (kind,),
        {
            "__module__": kind.__module__,
            "__reduce_ex__": reduce,
            "__deepcopy__": twin,
        },
    )
    module.__class__ = made


def _inject_class_again(module: Module) -> None:
    """Give a copy a class apart from that of the original."""
    kind = type(module)
    module.__class__ = type(kind.__name__, kind.__bases__, dict(vars(kind)))


def _inject_property(module: Module, name: str) -> None:
    def read(self: Any) -> Tensor:
        compute: Any = self.parametrizations[name]
        if not _Cache.depth:
            value: Tensor = compute()
            return value
        key = id(self), name
        if key not in _Cache.values:
            _Cache.values[key] = compute()
        found: Tensor = _Cache.values[key]
        return found

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(
    module: Module,
    tensor_name: str,
    parametrization: Module,
    *,
    unsafe: bool = False,
) -> Module:
    """Let a parameter or buffer be computed by a module whenever it is read.

    Parameters
    ----------
    module : Module
        Its class becomes a subclass with a property of that name.
    tensor_name : str
    parametrization : Module
        Its `right_inverse`, if it has one, is what assignments call.
    unsafe : bool, default False
        Whether dtype and shape may change, unchecked.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If there is no such tensor, or its shape or dtype would change.

    Examples
    --------
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = nn.Linear(3, 3)
    >>> layer = nn.utils.parametrize.register_parametrization(
    ...     layer, "weight", Symmetric())
    >>> fw.equal(layer.weight, layer.weight.mT)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    if tensor_name in module._parameters:
        original = module._parameters[tensor_name]
    elif tensor_name in module._buffers:
        original = module._buffers[tensor_name]
    else:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or"
            f" buffer '{tensor_name}'"
        )
    made = ParametrizationList([parametrization], original, unsafe=unsafe)
    made.train(module.training)
    if not unsafe:
        _check(made(), original)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
        module.add_module("parametrizations", ModuleDict())
    # Names of parameters may be those of methods of a dict.
    holder: Any = _holder(module)
    holder._modules[tensor_name] = made
    _inject_property(module, tensor_name)
    return module


def _holder(module: Any) -> Any:
    """Return the dict of a module's parametrizations."""
    return module.parametrizations


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    """Register one more parametrization behind those that there are."""
    holder: Any = _holder(module)
    before = getattr(module, name)
    if not unsafe:
        _check(parametrization(before), before)
    holder[name].append(parametrization)
    holder[name].unsafe = holder[name].unsafe or unsafe


def _check(value: object, original: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(
            f"register_parametrization: forward returned a {type(value).__name__}; it"
            " must return a tensor"
        )
    if value.dtype is not original.dtype or value.shape != original.shape:
        raise ValueError(
            f"register_parametrization: forward returned {value.dtype.name}"
            f" {tuple(value.shape)}, the tensor is {original.dtype.name}"
            f" {tuple(original.shape)}; they must be alike, or pass unsafe=True"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one of its tensors, has a parametrization.

    Parameters
    ----------
    module : Module
        Any.
    tensor_name : str or None
        Name of a parameter or buffer; None means any of the module's.
    """
    found = module.__dict__.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor a plain one.

    Parameters
    ----------
    module : Module
    tensor_name : str
    leave_parametrized : bool, default True
        Whether it keeps the value that was computed; otherwise the original one.

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If it is not parametrized, or not left so though it has several originals.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: '{tensor_name}' of {type(module).__name__} is"
            " not parametrized"
        )
    holder: Any = _holder(module)
    chain = holder[tensor_name]
    if not leave_parametrized and not chain.is_tensor:
        raise ValueError(
            "remove_parametrizations: the parametrization has several originals;"
            " leave_parametrized must be True"
        )
    own = getattr(chain, chain._originals()[0])
    role = PARAMETER if isinstance(own, Parameter) else BUFFER
    original = own
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if chain.is_tensor and own.shape == value.shape:
            with no_grad():
                own.copy_(value)
        else:
            original = value.clone()
            if role is PARAMETER:
                original = Parameter(original, own.requires_grad)
    delattr(type(module), tensor_name)
    del holder[tensor_name]
    module._register(tensor_name, role, original)
    if not len(holder):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before it was parametrized.

    Parameters
    ----------
    module : Module
        Any; one without parametrizations has its own class.
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another one, and its parameters.

    Parameters
    ----------
    from_module : Module
        One with parametrizations.
    to_module : Module
        Gets them.
    tensor_name : str or None
        The parameter whose parametrizations they are; None means every one.

    Returns
    -------
    Module
        `to_module`.
    """
    holder: Any = _holder(from_module)
    for name in [*holder] if tensor_name is None else [tensor_name]:
        chain = holder[name]
        for each in chain:
            register_parametrization(to_module, name, each, unsafe=chain.unsafe)
        other: Any = _holder(to_module)
        for part in chain._originals():
            getattr(other[name], part).data = getattr(chain, part).data.clone()
    return to_module
