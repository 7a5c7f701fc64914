"""The tensor: storage, autograd entry points, and what `methods` adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from .. import ops
from ..autograd import differentiate
from ..autograd.engine import backward
from ..autograd.grad_mode import is_grad_enabled, no_grad
from ..autograd.gradient_hooks import (
    register_after_accumulation,
    register_hook,
    retain_grad,
    retains_grad,
)
from ..autograd.output_metadata import OutputMetadata
from ..autograd.tape import named
from ..autograd.views import (
    DATA,
    base_of,
    changes_of_data,
    detach_in_place,
    is_view,
)
from ..base import torch_function
from ..base.device import CPU, Device, GpuDevice
from ..base.device import find_device as get_device
from ..base.dtype import (
    DTypeLike,
)
from ..base.errors import GradError
from ..base.hooks import RemovableHandle
from ..base.shape import normalize_dim
from ..dispatch.view_cache import caches_views
from ..eager.base_tensor import TensorCore, operand
from ..eager.host_data import host_array
from ..ops.view import another
from ..scheduler.scheduler import submit_early
from .inplace import set_item
from .legacy import legacy_data
from .methods import (
    AliasMethods,
    AttributeMethods,
    BinaryMethods,
    ChoiceMethods,
    ConversionMethods,
    DerivedMethods,
    FillMethods,
    InPlaceBinaryMethods,
    InPlaceUnaryMethods,
    MovementMethods,
    NewMethods,
    Operators,
    ProductMethods,
    ReductionMethods,
    ShapeInPlaceMethods,
    SparseMethods,
    SubclassMethods,
    UnaryMethods,
)
from .printing import html_of, text_of

# Methods called `float`, `int` and `bool` hide the types inside the class.
Int = int
Bool = bool
Number = int | float
Self = TypeVar("Self", bound="Tensor")


class Tensor(
    Operators,
    AttributeMethods,
    ConversionMethods,
    NewMethods,
    UnaryMethods,
    BinaryMethods,
    ReductionMethods,
    ChoiceMethods,
    MovementMethods,
    ProductMethods,
    InPlaceUnaryMethods,
    InPlaceBinaryMethods,
    FillMethods,
    DerivedMethods,
    ShapeInPlaceMethods,
    SparseMethods,
    SubclassMethods,
    AliasMethods,
    TensorCore,
):
    """An array with a device, a dtype and a place on the autograd tape.

    `tensor` makes one of data, in the dtype of the data. This class makes one as
    PyTorch's: of sizes without data, or of data in the default dtype.

    Parameters
    ----------
    *data : int, sequence or array_like
        Sizes, or one `Size`: the elements are arbitrary. Otherwise one nested sequence,
        array or tensor: its elements, copied. Nothing means no elements.
    dtype : DType, str or None
        None means the default dtype, float32 if it was not set.
    device : Device, str or None, default the host
        Where the elements go.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it; needs a float dtype.

    Raises
    ------
    TypeError
        If `data` is a single number that is no size.
    DTypeError
        If the elements are no real numbers.

    Notes
    -----
    Operations on a Vulkan device are pending until a value that depends on them is
    read, the device is flushed, or many have collected; see `eval`. The methods are
    PyTorch's.

    On a device a tensor has fewer than 2^31 elements in fewer than 2^31 4-byte words,
    and its storage is one allocation (usually 2 to 4 GiB at most); what is larger is
    refused with `ShapeError` or `OutOfDeviceMemory` before anything runs. The host has
    no such limit.

    Examples
    --------
    >>> x = Tensor([1.0, 2.0, 3.0]).requires_grad_()
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0, 6.0]
    >>> Tensor([1, 2]).dtype, Tensor(2, 3).shape
    (torch.float32, torch.Size([2, 3]))
    """

    __slots__ = ()

    # NumPy hands `array + tensor` over to the methods below.
    __array_priority__ = 1000

    def __new__(cls: type[Self], *data: Any, **options: Any) -> Self:
        """Return a tensor of what the `__new__` of a subclass passes on."""
        made: Self = TensorCore.__new__(cls)
        if cls.__torch_function__ is torch_function.disabled_torch_function_impl:
            return made
        if cls.__new__ is not Tensor.__new__:
            Tensor.__init__(made, *data, **options)
        elif cls.__init__ is not Tensor.__init__:
            # They may be the arguments of a constructor of its own.
            with suppress(TypeError, ValueError):
                Tensor.__init__(made, *data, **options)
        return made

    def __init__(
        self,
        *data: Any,
        dtype: DTypeLike | None = None,
        device: Device | str | Int | None = None,
        requires_grad: Bool = False,
        **options: Any,
    ) -> None:
        if hasattr(self, "layout") and not (
            data and type(self).__new__ is Tensor.__new__
        ):
            return  # made by `__new__`, which may take options of its own
        if options:
            raise TypeError(
                f"{type(self).__name__}: {', '.join(options)} is given; the keywords"
                " are dtype, device and requires_grad"
            )
        self._become(legacy_data(type(self), data, dtype, device))
        self.requires_grad_(requires_grad)

    def __init_subclass__(cls) -> None:
        own: Any = cls.__torch_function__
        if getattr(own, "__func__", own) is not _DEFAULT_PROTOCOL:
            # The class itself says which results are of it.
            if "results" not in cls.__dict__:
                cls.results = Tensor
            if own is not torch_function.disabled_torch_function_impl:
                torch_function.watch(cls)
        super().__init_subclass__()

    @classmethod
    def from_data(
        cls,
        data: Any,
        dtype: DTypeLike | None = None,
        device: Device | str | Int | None = None,
        requires_grad: Bool = False,
    ) -> Tensor:
        """Return a tensor with a copy of `data`, in its own dtype; see `tensor`.

        Parameters
        ----------
        data : number, nested sequence, ndarray or Tensor
            The elements.
        dtype : DType, str or None
            None means that of the data.
        device : Device, str, int or None
            None means the default.
        requires_grad : bool, default False
            Whether `backward` computes its gradient.
        """
        with no_grad():  # for tensors in a sequence, which NumPy reads
            array, kind = host_array(data, dtype)
        place = CPU if device is None else get_device(device)
        return cls.from_host(array, place, kind).requires_grad_(requires_grad)

    def _become(self, made: Tensor) -> None:
        """Take all that a new tensor has."""
        for name in TensorCore.__slots__:
            if name not in ("__dict__", "__weakref__"):
                setattr(self, name, getattr(made, name))

    def __repr__(self) -> str:
        return text_of(self)

    def __format__(self, form: str) -> str:
        """Return a 0-dim tensor as a number is formatted, anything else as text."""
        if not self.layout.shape and (form or type(self) is Tensor):
            return format(self.item(), form)
        return super().__format__(form)

    def __len__(self) -> Int:
        if not self.shape:
            raise TypeError("len: a tensor without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[row] for row in range(len(self))])

    def __delitem__(self, index: Any) -> None:
        raise TypeError(
            f"del: elements of a tensor, here of shape {tuple(self.shape)}, cannot be"
            " deleted; choose the others by an index, or cat() the parts"
        )

    def _repr_html_(self) -> str:
        """Return the tensor as a table, which notebooks show."""
        return html_of(self)

    def __bool__(self) -> Bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> Int:
        return int(self.item())

    def __index__(self) -> Int:
        """Return the only element of a tensor of integers; waits for it."""
        if self.dtype.is_float:
            raise TypeError(
                f"index: the tensor is {self.dtype.name}; it must be of integers"
            )
        return int(self.item())

    def __hash__(self) -> Int:
        return id(self)

    def __complex__(self) -> complex:
        return complex(self.item())

    def __contains__(self, element: object) -> Bool:
        """Return whether some element equals a number or a broadcast tensor."""
        if isinstance(element, TensorCore | Int | float | np.generic):
            return bool((self == element).any().item())
        raise TypeError(
            f"in: a {type(element).__name__} is looked for in a tensor; use a number or"
            " a tensor"
        )

    def __round__(self, ndigits: Int = 0) -> Tensor:
        scale = 10**ndigits
        return ops.round(self * scale) / scale if ndigits else ops.round(self)

    def __reversed__(self) -> Iterator[Tensor]:
        return iter(self.flip(0)) if self.ndim else iter([self])

    def __array__(self, dtype: Any = None, copy: Bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "array: copy is False, but arrays and tensors share no memory; leave"
                " copy out"
            )
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def numpy(self, *, force: Bool = False) -> np.ndarray:
        """Return a copy of the elements; submits their dependencies and waits for them.

        Other lazy nodes stay pending, unless many reads have left some. Tensors on a
        device are read without `force`, too.

        Parameters
        ----------
        force : bool, default False
            Read a tensor that requires a gradient, as `detach().numpy()` does.

        Returns
        -------
        numpy.ndarray
            Same shape and dtype; shares no memory with the tensor. bfloat16, which
            NumPy does not have, as float32.

        Raises
        ------
        GradError
            If the tensor requires a gradient, and ops are recorded: neither `force` nor
            a block of `no_grad` says that the gradient may end here.
        IndexRangeError
            If an index of any work that the device has done since the last read was
            out of range; see `set_index_checks`.
        """
        if self.needs_grad and not force and is_grad_enabled():
            raise GradError(
                f"numpy: the tensor, of shape {tuple(self.shape)}, requires a gradient,"
                " which an array does not have; use x.detach().numpy()"
            )
        return self.host_copy()

    def size(self, dim: Int | None = None) -> Any:
        """Return the shape, or the size of one dimension.

        Parameters
        ----------
        dim : int or None
            The dimension; None means all.
        """
        if dim is None:
            return self.shape
        return self.shape[normalize_dim("size", dim, self.ndim)]

    # Autograd

    def requires_grad_(self, requires_grad: Bool = True) -> Tensor:
        """Set whether `backward` computes a gradient for this leaf; return it.

        Parameters
        ----------
        requires_grad : bool, default True
            Whether it does.

        Raises
        ------
        GradError
            If the dtype is not a float one, or it is False and this is no leaf.
        """
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> Bool:
        """Whether no recorded operation made it."""
        return self.grad_node is None

    @property
    def grad_fn(self) -> Any:
        """The node of the tape that made it, or None for a leaf.

        It has `name()`, `next_functions`, `register_hook` and `register_prehook`.
        """
        node = self.grad_node
        if node is not None:
            like = OutputMetadata(self.shape, self.dtype, self.device)
            node.note_output(self.grad_index, like)
        return named(node)

    @property
    def output_nr(self) -> Int:
        """Which output of `grad_fn` it is."""
        return 0 if self.grad_node is None else self.grad_index

    @property
    def _version(self) -> Int:
        """How often its storage was changed in place.

        Raises
        ------
        GradError
            For an inference tensor: nothing watches its changes.
        """
        if self.array.version < 0:
            raise GradError(
                "_version: the tensor was made in inference_mode, and such tensors have"
                " no version; use x.clone()"
            )
        if self.grad_index == DATA:
            return changes_of_data(self)[0]
        return self.array.version

    @property
    def _base(self) -> Tensor | None:
        """The tensor that it is a view of, while that is there; None for others."""
        base: Any = base_of(self)
        found: Tensor | None = base
        return found

    def _is_view(self) -> Bool:
        """Return whether it is a view of another tensor.

        Of views that were made under `no_grad`, those are known that leave something
        out of their storage.
        """
        return is_view(self)

    def detach_(self) -> Tensor:
        """Take this tensor off the tape, as a leaf without gradient; return it.

        Raises
        ------
        GradError
            If it is a view of another tensor on the tape; use `detach`.
        """
        detach_in_place(self)
        return self

    def retain_grad(self) -> None:
        """Let `.grad` keep the gradient of a tensor that is no leaf.

        Raises
        ------
        GradError
            If it does not require a gradient.
        """
        retain_grad(self)

    @property
    def retains_grad(self) -> Bool:
        """Whether `retain_grad` was called on it, and it is no leaf."""
        return retains_grad(self)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: Bool | None = None,
        create_graph: Bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Add the gradient of this tensor with respect to each leaf to its `.grad`.

        Parameters
        ----------
        gradient : Tensor or None
            Gradient of this tensor; None means 1, for a tensor of one element.
        retain_graph : bool or None, default None
            Keep what was saved, so that `backward` can run again; None means
            `create_graph`.
        create_graph : bool, default False
            Record the pass itself, for gradients of gradients.
        inputs : Tensor or sequence of Tensor, optional
            The only tensors whose `.grad` changes.

        Raises
        ------
        GradError
            If it is not on the tape, has several elements and no gradient is given, or
            something saved was freed or changed in place.
        TypeError
            If the gradient is no tensor.

        Notes
        -----
        On a GPU 32 pending operations or more are submitted first, so that the device
        computes them while the host asks for the rest: such a step that is not replayed
        makes two submissions, a long one more. A replay of `jit` makes one.
        """
        if isinstance(self.device, GpuDevice):
            submit_early(self.device)
        if inputs is not None:
            differentiate.backward(
                self, gradient, retain_graph, create_graph, inputs=inputs
            )
            return
        seed = _seed(self, gradient)
        retain = create_graph if retain_graph is None else retain_graph
        backward([self], [seed], retain_graph=retain, create_graph=create_graph)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call a function with this tensor's gradient when it is computed.

        Parameters
        ----------
        hook : callable
            Takes the gradient; what it returns, unless None, takes that one's place.

        Returns
        -------
        RemovableHandle
            Its `remove` ends that.

        Raises
        ------
        GradError
            If the tensor does not require a gradient.
        """
        return register_hook(self, hook)

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None]
    ) -> RemovableHandle:
        """Call a function once a gradient has been added to this leaf's `.grad`.

        Parameters
        ----------
        hook : callable
            Takes this tensor.

        Returns
        -------
        RemovableHandle
            Its `remove` ends that.

        Raises
        ------
        GradError
            If it is no leaf that requires a gradient.
        """
        return register_after_accumulation(self, hook)

    # Elements by index

    @caches_views
    def __getitem__(self, index: Any) -> Tensor:
        """Return what an index chooses, as NumPy does; see `ops.slice_`.

        An int beside arrays is applied first: `x[0, :, [0, 1]]` has the dimension of
        the list last, as in PyTorch, where NumPy has it first.
        """
        out = ops.slice_(self, index)
        if out is not self:
            return out
        name = "SliceBackward0" if type(index) is slice else "AliasBackward0"
        return another(self, out, name)

    def __setitem__(self, index: Any, value: Any) -> None:
        set_item(self, index, operand(self, value, "setitem"))


def _seed(output: Tensor, grad: Tensor | None) -> Tensor:
    """Return the gradient that `backward` starts with."""
    if grad is not None:
        if not isinstance(grad, Tensor):
            raise TypeError(
                f"backward: the gradient is a {type(grad).__name__}; it must be a"
                " tensor or None"
            )
        return grad
    layout = output.layout
    if layout.numel != 1:
        raise GradError(
            f"backward: the tensor has shape {layout.shape};"
            " pass gradient= or reduce it to a scalar"
        )
    if output.dtype.is_complex:
        raise GradError(
            f"backward: the tensor is {output.dtype.name}; pass gradient= or reduce it"
            " to a real number"
        )
    seed: Tensor = ops.fill_like(output, layout.shape, 1, output.dtype)
    return seed


_DEFAULT_PROTOCOL = SubclassMethods.__torch_function__.__func__  # type: ignore[attr-defined]  # a class method
torch_function.plain.add(Tensor)


def _name_methods() -> None:
    """Let errors and `help` name the methods as those of `Tensor`."""
    for cls in Tensor.__mro__[1:-1]:
        for name, method in vars(cls).items():
            if not isinstance(method, FunctionType):
                continue
            if method.__qualname__ == f"{cls.__name__}.{name}":
                method.__module__, method.__qualname__ = __name__, f"Tensor.{name}"


_name_methods()
