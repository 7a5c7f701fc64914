"""The tensor: storage, autograd entry points, and one-line methods for every op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import ops
from .autograd import backward
from .core import TensorCore, host_array, operand
from .device import CPU, Device
from .device import device as get_device
from .dtype import (
    DTYPES,
    DType,
    DTypeLike,
    as_dtype,
    bool_,
    float16,
    float32,
    float64,
    int32,
)
from .errors import GradError, ShapeError
from .inplace import assign, off_tape, set_item
from .shape import as_shape, normalize_dim

# Methods called `float`, `int` and `bool` hide the types inside the class.
Int = int
Bool = bool
Number = int | float
Dims = int | Sequence[int] | None


class Tensor(TensorCore):
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
    Operations on a Vulkan device are pending until a value is read, the device is
    flushed, or many have collected; see `eval`. The methods are PyTorch's.

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

    def __hash__(self) -> Int:
        return id(self)

    def __array__(self, dtype: Any = None, copy: Bool | None = None) -> np.ndarray:
        array = self.detach().numpy()
        return array if dtype is None else array.astype(dtype)

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

    def int(self) -> Tensor:
        """Return the tensor as int32."""
        return self.to(int32)

    def bool(self) -> Tensor:
        """Return whether each element is not zero."""
        return self.to(bool_)

    # Autograd

    def requires_grad_(self, requires_grad: Bool = True) -> Tensor:
        """Set whether `backward` computes a gradient for this leaf; return it.

        Raises
        ------
        GradError
            If the dtype is not a float one.
        """
        if requires_grad and not self.dtype.is_float:
            raise GradError(
                f"requires_grad: the tensor is {self.dtype.name};"
                " only float tensors have gradients"
            )
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> Bool:
        """Whether no recorded operation made it."""
        return self.grad_node is None

    def backward(
        self,
        grad: Tensor | None = None,
        retain_graph: Bool = False,
        create_graph: Bool = False,
    ) -> None:
        """Add the gradient of this tensor with respect to each leaf to its `.grad`.

        Parameters
        ----------
        grad : Tensor or None
            Gradient of this tensor; None means 1, for a tensor of one element.
        retain_graph : bool, default False
            Keep what was saved, so that `backward` can run again.
        create_graph : bool, default False
            Record the pass itself, for gradients of gradients.

        Raises
        ------
        GradError
            If it is not on the tape, has several elements and no `grad` is given, or
            something saved was freed or changed in place.
        """
        backward(
            [self],
            [_seed(self, grad)],
            retain_graph=retain_graph,
            create_graph=create_graph,
        )

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> None:
        """Call `hook` with this tensor's gradient when it is computed.

        What it returns, unless None, takes the gradient's place.
        """
        if self.grad_node is not None:
            self.grad_node.hooks.append(hook)
        else:
            self.hooks = [*(self.hooks or []), hook]

    # Changes in place

    def copy_(self, source: Tensor | Number) -> Tensor:
        """Replace the elements by those of `source`, broadcast and cast; return self.

        Raises
        ------
        GradError
            If gradients are being recorded and this tensor requires one.
        ShapeError
            If `source` does not broadcast to this shape.
        """
        return assign(self, operand(self, source))

    def add_(self, other: Tensor | Number) -> Tensor:
        """Add in place."""
        return assign(self, ops.add(off_tape(self), operand(self, other)))

    def sub_(self, other: Tensor | Number) -> Tensor:
        """Subtract in place."""
        return assign(self, ops.sub(off_tape(self), operand(self, other)))

    def mul_(self, other: Tensor | Number) -> Tensor:
        """Multiply in place."""
        return assign(self, ops.mul(off_tape(self), operand(self, other)))

    def div_(self, other: Tensor | Number) -> Tensor:
        """Divide in place."""
        return assign(self, ops.div(off_tape(self), operand(self, other)))

    def fill_(self, value: Number) -> Tensor:
        """Set every element to `value`."""
        return assign(self, value)

    def zero_(self) -> Tensor:
        """Set every element to 0."""
        return assign(self, 0)

    def __setitem__(self, index: Any, value: Any) -> None:
        set_item(self, index, operand(self, value))

    # Indexing and movement

    def __getitem__(self, index: Any) -> Tensor:
        return ops.slice_(self, index)

    def reshape(self, *shape: Any) -> Tensor:
        """See `ops.reshape`."""
        return ops.reshape(self, as_shape(shape))

    def view(self, *shape: Any) -> Tensor:
        """Return the same storage in another shape.

        Raises
        ------
        ShapeError
            If that needs a copy; `reshape` makes one.
        """
        out = ops.reshape(self, as_shape(shape))
        if out.array is not self.array:
            raise ShapeError(
                f"view: strides {self.layout.strides} of shape {self.shape} do not"
                f" allow a view as {out.shape}; use reshape"
            )
        return out

    def flatten(self, start_dim: Int = 0, end_dim: Int = -1) -> Tensor:
        """See `ops.flatten`."""
        return ops.flatten(self, start_dim, end_dim)

    def permute(self, *dims: Any) -> Tensor:
        """See `ops.permute`."""
        return ops.permute(self, as_shape(dims))

    def transpose(self, dim0: Int, dim1: Int) -> Tensor:
        """See `ops.transpose`."""
        return ops.transpose(self, dim0, dim1)

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        return ops.transpose(self, -2, -1)

    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order."""
        return ops.permute(self, tuple(reversed(range(self.ndim))))

    def expand(self, *shape: Any) -> Tensor:
        """See `ops.expand`."""
        return ops.expand(self, as_shape(shape))

    def squeeze(self, dim: Int) -> Tensor:
        """Return the tensor without a dimension of size 1."""
        at = normalize_dim("squeeze", dim, self.ndim)
        if self.shape[at] != 1:
            return self
        return ops.reshape(self, self.shape[:at] + self.shape[at + 1 :])

    def unsqueeze(self, dim: Int) -> Tensor:
        """Return the tensor with a dimension of size 1 inserted before `dim`."""
        at = normalize_dim("unsqueeze", dim, self.ndim + 1)
        return ops.reshape(self, (*self.shape[:at], 1, *self.shape[at:]))

    def contiguous(self) -> Tensor:
        """Return the tensor in row-major storage of its own; itself if it is so."""
        whole = self.layout.offset == 0 and self.layout.is_contiguous
        return self if whole else ops.copy(self)

    def clone(self) -> Tensor:
        """Return a copy."""
        return ops.copy(self)

    # Arithmetic

    def __neg__(self) -> Tensor:
        return ops.neg(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    def __add__(self, other: Any) -> Tensor:
        return ops.add(self, operand(self, other))

    def __radd__(self, other: Any) -> Tensor:
        return ops.add(self, operand(self, other))

    def __sub__(self, other: Any) -> Tensor:
        return ops.sub(self, operand(self, other))

    def __rsub__(self, other: Any) -> Tensor:
        return ops.sub(operand(self, other), self)

    def __mul__(self, other: Any) -> Tensor:
        return ops.mul(self, operand(self, other))

    def __rmul__(self, other: Any) -> Tensor:
        return ops.mul(self, operand(self, other))

    def __truediv__(self, other: Any) -> Tensor:
        return ops.div(self, operand(self, other))

    def __rtruediv__(self, other: Any) -> Tensor:
        return ops.div(operand(self, other), self)

    def __pow__(self, other: Any) -> Tensor:
        return ops.pow(self, operand(self, other))

    def __rpow__(self, other: Any) -> Tensor:
        return ops.pow(operand(self, other), self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return ops.matmul(self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return ops.eq(self, operand(self, other))

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return ops.ne(self, operand(self, other))

    def __lt__(self, other: Any) -> Tensor:
        return ops.lt(self, operand(self, other))

    def __le__(self, other: Any) -> Tensor:
        return ops.le(self, operand(self, other))

    def __gt__(self, other: Any) -> Tensor:
        return ops.gt(self, operand(self, other))

    def __ge__(self, other: Any) -> Tensor:
        return ops.ge(self, operand(self, other))

    def matmul(self, other: Tensor) -> Tensor:
        """See `ops.matmul`."""
        return ops.matmul(self, other)

    def abs(self) -> Tensor:
        """See `ops.abs`."""
        return ops.abs(self)

    def exp(self) -> Tensor:
        """See `ops.exp`."""
        return ops.exp(self)

    def log(self) -> Tensor:
        """See `ops.log`."""
        return ops.log(self)

    def sqrt(self) -> Tensor:
        """See `ops.sqrt`."""
        return ops.sqrt(self)

    def rsqrt(self) -> Tensor:
        """See `ops.rsqrt`."""
        return ops.rsqrt(self)

    def sin(self) -> Tensor:
        """See `ops.sin`."""
        return ops.sin(self)

    def cos(self) -> Tensor:
        """See `ops.cos`."""
        return ops.cos(self)

    def tanh(self) -> Tensor:
        """See `ops.tanh`."""
        return ops.tanh(self)

    def sigmoid(self) -> Tensor:
        """See `ops.sigmoid`."""
        return ops.sigmoid(self)

    def relu(self) -> Tensor:
        """See `ops.relu`."""
        return ops.relu(self)

    # Reductions

    def sum(self, dim: Dims = None, keepdim: Bool = False) -> Tensor:
        """See `ops.sum`."""
        return ops.sum(self, dim, keepdim)

    def mean(self, dim: Dims = None, keepdim: Bool = False) -> Tensor:
        """See `ops.mean`."""
        return ops.mean(self, dim, keepdim)

    def amax(self, dim: Dims = None, keepdim: Bool = False) -> Tensor:
        """See `ops.amax`."""
        return ops.amax(self, dim, keepdim)

    def amin(self, dim: Dims = None, keepdim: Bool = False) -> Tensor:
        """See `ops.amin`."""
        return ops.amin(self, dim, keepdim)

    def argmax(self, dim: Int | None = None, keepdim: Bool = False) -> Tensor:
        """See `ops.argmax`."""
        return ops.argmax(self, dim, keepdim)

    def argmin(self, dim: Int | None = None, keepdim: Bool = False) -> Tensor:
        """See `ops.argmin`."""
        return ops.argmin(self, dim, keepdim)


def _moved(x: Tensor, target: Device) -> Tensor:
    """Return a tensor on another device; differentiable."""
    return x if x.device is target else ops.move(x, x.device, target)


def _seed(output: Tensor, grad: Tensor | None) -> Tensor:
    """Return the gradient that `backward` starts with."""
    if grad is not None:
        return grad
    if output.numel() != 1:
        raise GradError(
            f"backward: the tensor has shape {output.shape};"
            " pass grad= or reduce it to a scalar"
        )
    seed: Tensor = ops.fill_like(output, output.shape, 1, output.dtype)
    return seed
