"""The tensor: storage, autograd entry points, and what `methods` adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..autograd import differentiate
from ..autograd.backward_cache import cached_backward
from ..autograd.engine import backward
from ..autograd.gradient_hooks import (
    register_after_accumulation,
    register_hook,
    retain_grad,
    retains_grad,
)
from ..autograd.views import detach_in_place
from ..base.device import CPU, Device, GpuDevice
from ..base.device import device as get_device
from ..base.dtype import (
    DTYPES,
    DType,
    DTypeLike,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..base.errors import GradError
from ..base.hooks import RemovableHandle
from ..base.shape import normalize_dim
from ..base.validation import as_shape, sizes_of
from ..eager.base_tensor import TensorCore, host_array, operand
from ..scheduler.scheduler import submit_early
from .inplace import set_item
from .methods import (
    BinaryMethods,
    ChoiceMethods,
    FillMethods,
    InPlaceBinaryMethods,
    InPlaceUnaryMethods,
    MovementMethods,
    Operators,
    ProductMethods,
    ReductionMethods,
    UnaryMethods,
)

# Methods called `float`, `int` and `bool` hide the types inside the class.
Int = int
Bool = bool
Number = int | float


class Tensor(
    Operators,
    UnaryMethods,
    BinaryMethods,
    ReductionMethods,
    ChoiceMethods,
    MovementMethods,
    ProductMethods,
    InPlaceUnaryMethods,
    InPlaceBinaryMethods,
    FillMethods,
    TensorCore,
):
    """An array with a device, a dtype and a place on the autograd tape.

    Parameters
    ----------
    data : array_like or Tensor
        Numbers, nested sequences or a NumPy array; copied.
    dtype : DType, str or None
        None takes NumPy's dtype, but float32 for Python floats.
    device : Device, str or None, default the host
        Where the elements go.
    requires_grad : bool, default False
        Whether `backward` computes a gradient for it; needs a float dtype.

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
    >>> x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0, 6.0]
    """

    __slots__ = ()

    # NumPy hands `array + tensor` over to the methods below.
    __array_priority__ = 1000

    def __init__(
        self,
        data: Any,
        dtype: DTypeLike | None = None,
        device: Device | str | Int | None = None,
        requires_grad: Bool = False,
    ) -> None:
        array, kind = host_array(data, dtype)
        place = CPU if device is None else get_device(device)
        made = self.from_host(array, place, kind)
        for name in TensorCore.__slots__:
            if name != "__weakref__":
                setattr(self, name, getattr(made, name))
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        text = np.array2string(self.detach().numpy(), separator=", ", prefix="tensor(")
        notes = [] if self.dtype in (float32, int32, bool_) else [self.dtype.name]
        notes += [f"device={self.device.name!r}"] if self.is_gpu else []
        notes += ["requires_grad=True"] if self.requires_grad else []
        return f"tensor({', '.join([text, *notes])})"

    def __format__(self, form: str) -> str:
        """Return a single element as a number is formatted, anything else as text."""
        if form and self.numel() == 1:
            return format(self.item(), form)
        return super().__format__(form)

    def __len__(self) -> Int:
        if not self.shape:
            raise TypeError("len: a tensor without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[row] for row in range(len(self))])

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

    def __array__(self, dtype: Any = None, copy: Bool | None = None) -> np.ndarray:
        array = self.detach().numpy()
        return array if dtype is None else array.astype(dtype)

    def size(self, dim: Int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        return self.shape[normalize_dim("size", dim, self.ndim)]

    # Tensors of the same dtype and device

    def new_full(self, size: Sequence[Int], fill_value: Number) -> Tensor:
        """Return a tensor with every element `fill_value`."""
        sizes = sizes_of("new_full", size)
        made: Tensor = ops.fill_like(self.detach(), sizes, fill_value, self.dtype)
        return made

    def new_zeros(self, *size: Any) -> Tensor:
        """Return a tensor of zeros."""
        return self.new_full(as_shape(size), 0)

    def new_ones(self, *size: Any) -> Tensor:
        """Return a tensor of ones."""
        return self.new_full(as_shape(size), 1)

    def new_tensor(self, data: Any) -> Tensor:
        """Return a tensor with a copy of `data`."""
        return Tensor(data, self.dtype, self.device)

    # Devices and dtypes

    def to(
        self,
        target: Device | DTypeLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        device: Device | str | None = None,
    ) -> Tensor:
        """Return the tensor on a device, in a dtype, or both; itself if it is so.

        Parameters
        ----------
        target : Device, DType or str
            A device ("cpu", "gpu", a device's name) or a dtype ("float16").
        dtype, device
            The same by name.
        """
        if isinstance(target, DType) or (isinstance(target, str) and target in DTYPES):
            dtype = target
        elif isinstance(target, type | np.dtype):
            dtype = target
        elif target is not None:
            device = target
        out = self if device is None else _moved(self, get_device(device))
        wanted = out.dtype if dtype is None else as_dtype(dtype)
        return out if wanted is out.dtype else ops.cast(out, wanted)

    def to_gpu(self, device: Device | str | None = None) -> Tensor:
        """Return the tensor on the best Vulkan device, or on the one named."""
        return _moved(self, get_device("gpu" if device is None else device))

    def cpu(self) -> Tensor:
        """Return the tensor on the host."""
        return _moved(self, CPU)

    def float(self) -> Tensor:
        """Return the tensor as float32."""
        return self.to(float32)

    def double(self) -> Tensor:
        """Return the tensor as float64."""
        return self.to(float64)

    def half(self) -> Tensor:
        """Return the tensor as float16."""
        return self.to(float16)

    def bfloat16(self) -> Tensor:
        """Return the tensor as bfloat16."""
        return self.to(bfloat16)

    def byte(self) -> Tensor:
        """Return the tensor as uint8."""
        return self.to(uint8)

    def char(self) -> Tensor:
        """Return the tensor as int8."""
        return self.to(int8)

    def short(self) -> Tensor:
        """Return the tensor as int16."""
        return self.to(int16)

    def int(self) -> Tensor:
        """Return the tensor as int32."""
        return self.to(int32)

    def long(self) -> Tensor:
        """Return the tensor as int64."""
        return self.to(int64)

    def bool(self) -> Tensor:
        """Return whether each element is not zero."""
        return self.to(bool_)

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in the dtype of another."""
        return self.to(other.dtype)

    # Autograd

    def requires_grad_(self, requires_grad: Bool = True) -> Tensor:
        """Set whether `backward` computes a gradient for this leaf; return it.

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
        return self.grad_node

    @property
    def output_nr(self) -> Int:
        """Which output of `grad_fn` it is."""
        return self.grad_index

    @property
    def _version(self) -> Int:
        """How often its storage was changed in place."""
        return self.array.version

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
        makes two submissions. A replay of `jit` makes one.
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
        if not retain and not create_graph:
            cached_backward(self, seed)
            return
        backward([self], [seed], retain_graph=retain, create_graph=create_graph)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook` with this tensor's gradient when it is computed.

        What it returns, unless None, takes the gradient's place. The handle that is
        returned removes it.

        Raises
        ------
        GradError
            If the tensor does not require a gradient.
        """
        return register_hook(self, hook)

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None]
    ) -> RemovableHandle:
        """Call `hook` with this leaf once a gradient has been added to its `.grad`.

        Raises
        ------
        GradError
            If it is no leaf that requires a gradient.
        """
        return register_after_accumulation(self, hook)

    # Elements by index

    def __getitem__(self, index: Any) -> Tensor:
        """Return what an index chooses, as NumPy does; see `ops.slice_`.

        An int beside arrays counts as one of them: `x[0, :, [0, 1]]` has the dimension
        of the list first, as in NumPy, where PyTorch has it last.
        """
        return ops.slice_(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        set_item(self, index, operand(self, value))


def _moved(x: Tensor, target: Device) -> Tensor:
    """Return a tensor on another device; differentiable."""
    return x if x.device is target else ops.move(x, x.device, target)


def _seed(output: Tensor, grad: Tensor | None) -> Tensor:
    """Return the gradient that `backward` starts with."""
    if grad is not None:
        if not isinstance(grad, Tensor):
            raise TypeError(
                f"backward: the gradient is a {type(grad).__name__}; it must be a"
                " tensor or None"
            )
        return grad
    if output.numel() != 1:
        raise GradError(
            f"backward: the tensor has shape {output.shape};"
            " pass gradient= or reduce it to a scalar"
        )
    seed: Tensor = ops.fill_like(output, output.shape, 1, output.dtype)
    return seed
