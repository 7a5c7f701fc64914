"""What subclasses of `Tensor` are made by, and PyTorch's protocol for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...autograd.engine import is_grad_enabled
from ...base import torch_function
from ...eager.base_tensor import TensorCore, assembled

if TYPE_CHECKING:
    from ..tensor import Tensor


class SubclassMethods:
    """`as_subclass`, and `__torch_function__` of classes that have none."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a public function, and make this class's own of what it returns.

        A subclass overrides it to see the calls of functions, methods, operators and
        properties that take one of its tensors, and calls this one by `super()`.

        Parameters
        ----------
        func : callable
            The function; of a property, its `__get__` or `__set__`.
        types : sequence of type
            The classes of arguments that have the protocol.
        args : tuple
            The arguments by position.
        kwargs : mapping of str, optional
            Those by name.

        Returns
        -------
        object
            The result, its tensors as ones of this class, alone and in tuples and
            lists; `NotImplemented` if this class is no subclass of each of `types`.
        """
        if not all(issubclass(cls, each) for each in types):
            return NotImplemented
        with torch_function.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs or {})
            return result if func in unwrapped_functions() else _converted(result, cls)

    def as_subclass(self: Tensor, cls: type[Any]) -> Any:
        """Return the same elements, on the tape, as a tensor of a subclass.

        Parameters
        ----------
        cls : type
            A subclass of `Tensor`; its constructor is not called.

        Returns
        -------
        Tensor, shape and dtype of the tensor
            An instance of `cls`; in-place changes are shared.

        Raises
        ------
        TypeError
            If `cls` is no subclass of `Tensor`.
        """
        if not (isinstance(cls, type) and issubclass(cls, TensorCore)):
            raise TypeError(
                f"as_subclass: {cls!r} is given; it must be a subclass of Tensor"
            )
        recorded = self.needs_grad and is_grad_enabled()
        with torch_function.DisableTorchFunction():
            # A view in the same shape would be this tensor itself.
            source = self.unsqueeze(0).squeeze(0) if recorded else self.detach()
        return _of_class(source, cls)

    @staticmethod
    def _make_subclass(cls: type[Any], data: Tensor, require_grad: bool = False) -> Any:
        """Return the same elements off the tape, as a leaf of a subclass."""
        with torch_function.DisableTorchFunction():
            made = _of_class(data.detach(), cls)
            made.requires_grad = require_grad
        return made


def _of_class(source: Any, cls: type[Any]) -> Any:
    """Return a tensor of exactly a class with all that a fresh view has."""
    made = assembled(cls, source.array, source.layout, source.device)
    for name in ("needs_grad", "grad_node", "grad_index", "hooks", "views"):
        setattr(made, name, getattr(source, name))
    if source.views is not None:
        source.views.append(ref(made))
    return made


def _converted(result: Any, cls: type[Any]) -> Any:
    if cls in torch_function.plain:
        return result
    if isinstance(result, TensorCore):
        if isinstance(result, cls):
            return result
        return result.as_subclass(cls)  # type: ignore[attr-defined]  # each has it
    if isinstance(result, tuple | list):
        found = [_converted(each, cls) for each in result]
        make: Callable[..., Any] = getattr(type(result), "_make", type(result))
        return make(found)
    return result


_unwrapped: set[Any] = set()


def unwrapped_functions() -> set[Any]:
    """Return the functions whose results keep the class that they have."""
    if not _unwrapped:
        tensor: Any = next(iter(torch_function.plain))
        _unwrapped.update((tensor.grad.__get__, tensor._base.__get__))
    return _unwrapped
