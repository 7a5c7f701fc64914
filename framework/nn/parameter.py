"""Parameters and buffers: the tensors that modules register when assigned."""

from __future__ import annotations

from typing import Any, TypeVar

from ..autograd.grad_mode import no_grad
from ..base import trace_hooks
from ..base.device import find_device
from ..base.dtype import DTypeLike, as_dtype, float32
from ..base.public_names import defined_names as _defined_names
from ..base.torch_function import disabled_torch_function_impl
from ..eager.base_tensor import TensorCore
from ..tensor.factories import DeviceLike, empty, zeros
from ..tensor.tensor import Tensor

Self = TypeVar("Self", bound="Parameter")


class _Registering(Tensor):
    """Base of the tensors that modules register."""

    __slots__ = ()

    __torch_function__ = disabled_torch_function_impl  # type: ignore[assignment]  # not asked

    def _share(self, data: Tensor | None) -> None:
        """Become a leaf with the storage of a tensor; without one, be empty."""
        source = zeros(0) if data is None else data
        if not isinstance(source, Tensor):
            raise TypeError(
                f"{type(self).__name__}: data is a {type(data).__name__}; it must be a"
                " tensor"
            )
        self.array, self.layout, self.device = (
            source.array,
            source.layout,
            source.device,
        )
        self.own_grad = self.grad_node = self.hooks = self.views = None
        self.grad_index, self.needs_grad = 0, False


class Parameter(_Registering):
    """A tensor that a module lists as its own and that requires a gradient.

    Results of operations on it are plain tensors.

    Parameters
    ----------
    data : Tensor, optional
        The initial elements; the storage is shared, not copied. None means empty.
    requires_grad : bool, default True
        Whether `backward` computes a gradient for it.

    Examples
    --------
    >>> weight = nn.Parameter(fw.zeros((2, 3)))
    >>> weight.requires_grad, type(weight * 2).__name__
    (True, 'Tensor')
    """

    __slots__ = ()

    results = Tensor

    def __new__(cls: type[Self], *given: Any, **options: Any) -> Self:
        """Return a parameter of what the `__new__` of a subclass passes on."""
        made: Self = TensorCore.__new__(cls)
        if cls.__new__ is not Parameter.__new__:
            Parameter.__init__(made, *given, **options)
        return made

    def __init__(
        self, data: Tensor | None = None, requires_grad: bool = True, **options: Any
    ) -> None:
        if type(self).__new__ is not Parameter.__new__ and hasattr(self, "layout"):
            return  # made by `__new__`, which may take options of its own
        if options:
            raise TypeError(
                f"{type(self).__name__}: {', '.join(options)} is given; the keywords"
                " are data and requires_grad"
            )
        self._share(data)
        self.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Return a parameter with a copy of the elements alone.

        It has neither gradient nor noted attributes, as in PyTorch.
        """
        copied = super().__deepcopy__(memo)
        copied.__dict__.clear()
        copied.own_grad = None
        return copied

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(_Registering):
    """A tensor that a module registers as a buffer when it is assigned.

    Parameters
    ----------
    data : Tensor, optional
        The initial elements; the storage is shared, not copied. None means empty.
    persistent : bool, default True
        Whether it is part of `state_dict`.

    Examples
    --------
    >>> module = nn.Identity()
    >>> module.count = nn.Buffer(fw.zeros(1))
    >>> list(module.state_dict())
    ['count']
    """

    __slots__ = ("persistent",)

    results = Tensor

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        self._share(data)
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        """Return a buffer with a copy of the elements."""
        copied = super().__deepcopy__(memo)
        copied.persistent = self.persistent
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """Be unpickled as a plain tensor, as the module knows that it is a buffer."""
        return self.detach().__reduce__()


class _Uninitialized:
    """A tensor without a shape."""

    __slots__ = ()

    _becomes: type[Any]

    @property
    def shape(self) -> Any:
        """Raise: there is no shape before `materialize`."""
        raise RuntimeError(
            f"{type(self).__name__}: it has no shape before the layer's first call;"
            " call the module with an input first, or materialize(shape)"
        )

    def materialize(
        self: Any, shape: Any, device: DeviceLike = None, dtype: DTypeLike | None = None
    ) -> None:
        """Become a parameter or buffer of zeros in a shape, in place.

        Parameters
        ----------
        shape : tuple of int
        device, dtype
            None means as it was made.
        """
        wanted: dict[str, Any] = {
            "device": self.device if device is None else find_device(device),
            "dtype": self.dtype if dtype is None else as_dtype(dtype),
        }
        made = zeros(tuple(shape), **wanted)
        needs = self.requires_grad
        self.__class__ = self._becomes
        self._share(made)
        if needs:
            self.requires_grad_(True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """Parameter whose shape is not known yet.

    Parameters
    ----------
    requires_grad : bool, default True
    device : Device, str or None, default the host
    dtype : DType or None, default float32

    Examples
    --------
    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, tuple(weight.shape)
    ('Parameter', (2, 3))
    """

    __slots__ = ()

    _becomes = Parameter

    def __init__(
        self,
        requires_grad: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(empty(0, device=device, dtype=dtype or float32), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        """Return another one."""
        made = type(self)(self.requires_grad, self.device, self.dtype)
        memo[id(self)] = made
        return made


class UninitializedBuffer(_Uninitialized, Buffer):
    """Buffer whose shape is not known yet.

    Parameters
    ----------
    requires_grad : bool, default False
    device : Device, str or None, default the host
    dtype : DType or None, default float32
    persistent : bool, default True
    """

    __slots__ = ()

    _becomes = Buffer

    def __init__(
        self,
        requires_grad: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        persistent: bool = True,
    ) -> None:
        made = empty(0, device=device, dtype=dtype or float32)
        super().__init__(made, persistent=persistent)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        """Return another one."""
        made = type(self)(False, self.device, self.dtype, self.persistent)
        memo[id(self)] = made
        return made


def is_lazy(param: object) -> bool:
    """Return whether a parameter or buffer has no shape yet."""
    return isinstance(param, _Uninitialized)


def zero_gradient(tensor: Tensor, set_to_none: bool) -> None:
    """Drop a tensor's gradient, or set it to zero."""
    trace = trace_hooks.listener()
    if trace is not None:
        trace.on_grad_write(tensor, cleared=set_to_none)
    if set_to_none or tensor.grad is None:
        tensor.grad = None
        return
    with no_grad():
        tensor.grad.zero_()


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _defined_names(globals())
