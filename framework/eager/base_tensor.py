"""Base tensor, below the ops: storage, layout, host transfers."""

from __future__ import annotations

import math
import warnings
import weakref
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

import vkbackend

from ..base import inference, trace_hooks
from ..base.device import META, Device, GpuDevice, opened_devices
from ..base.device import find_device as get_device
from ..base.dtype import (
    DType,
    as_dtype,
    complex128,
    decode,
    encode,
)
from ..base.errors import DTypeError, GradError, NoDataError, ShapeError
from ..base.shape import Layout, Shape, Size, TensorSpec, size_of, spec_of
from ..base.size_limits import check_value
from ..ir.lazy_graph import Array, Released, Value
from ..scheduler.executor import buffer_of
from ..scheduler.scheduler import compute, flush, with_memory_retry

if TYPE_CHECKING:
    from ..autograd.engine import GradNode
    from ..autograd.gradient_hooks import LeafHooks

Self = TypeVar("Self", bound="TensorCore")


class TensorCore:
    """Base tensor: elements, their device, and the tape entry that made them.

    `Tensor` adds the ops. Attributes marked "internal" may change.

    Attributes
    ----------
    array : Array
        Internal: the storage, shared with views.
    layout : Layout
        Internal: shape, strides and offset in the storage.
    device : Device
        Device of the elements.
    needs_grad : bool
        Internal: the same as `requires_grad`; set without its checks.
    grad : Tensor or None
        The gradient that `backward` accumulated; for leaves only.
    own_grad : Tensor or None
        Internal: the same; access to it is not seen by a running trace.
    grad_node : GradNode or None
        Internal: the tape entry whose output `grad_index` this is.
    hooks : LeafHooks or None
        Internal: called with the gradient once it has been computed; another object
        after each registration and removal.
    views : list of weakref.ref or None
        Internal: this tensor and those that share its storage on the tape, a list that
        they have in common; None without another one.
    """

    # `__dict__` is for what a program notes on a tensor: `p.no_weight_decay = True`.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "array",
        "device",
        "grad_index",
        "grad_node",
        "hooks",
        "layout",
        "needs_grad",
        "own_grad",
        "views",
    )

    array: Array
    layout: Layout
    device: Device
    needs_grad: bool
    own_grad: Any
    grad_node: GradNode | None
    grad_index: int
    hooks: LeafHooks | None
    views: list[weakref.ref[Any]] | None

    results: ClassVar[type[Any]]
    """Class of the results of ops on tensors of this class: itself."""

    is_wrapper: ClassVar[bool] = False
    """Whether it is made of other tensors, as sparse ones are."""

    def __init_subclass__(cls) -> None:
        if "results" not in cls.__dict__:
            cls.results = cls

    @classmethod
    def make(cls: type[Self], array: Array, layout: Layout, device: Device) -> Self:
        """Return a tensor over existing storage, off the tape.

        Parameters
        ----------
        array : Array
            The storage.
        layout : Layout
            Shape, strides and offset within it.
        device : Device
            Where it is.
        """
        made: Self = assembled(cls.results, array, layout, device)
        return made

    @classmethod
    def from_host(
        cls: type[Self], data: np.ndarray, device: Device, dtype: DType | None = None
    ) -> Self:
        """Return a tensor with a copy of a NumPy array's elements on `device`.

        `dtype` None takes the array's own.

        Parameters
        ----------
        data : ndarray
            Any shape.
        device : Device
            Where the copy is made.
        dtype : DType or None
            That of the tensor; None means the array's.
        """
        dtype = dtype or as_dtype(data.dtype)
        layout = Layout.contiguous(data.shape)
        if isinstance(device, GpuDevice):
            if dtype is complex128:
                raise DTypeError(
                    f"tensor: {device.name} has no complex128; use complex64 there, or"
                    " the cpu device"
                )
            check_value("tensor", layout.shape, dtype, device)
        if device is META:
            return cls.without_data(layout.shape, dtype)
        flat = np.array(encode(data, dtype), order="C").reshape(-1)
        return cls.from_stored(flat, layout, device, dtype)

    @classmethod
    def from_stored(
        cls: type[Self], flat: np.ndarray, layout: Layout, device: Device, dtype: DType
    ) -> Self:
        """Return a tensor over elements as they are in memory, which it takes over.

        Parameters
        ----------
        flat : ndarray, shape (n,)
            Elements in the order of memory, in the dtype's form on the host.
        layout : Layout
            Shape, strides and offset among them.
        device : Device
            Where the tensor is.
        dtype : DType
            Theirs.
        """
        if isinstance(device, GpuDevice):
            value = upload(flat, dtype, device)
        else:
            value = Value(flat.size, dtype, buffer=None if device is META else flat)
        return cls.make(Array(value), layout, device)

    @classmethod
    def without_data(cls: type[Self], shape: Shape, dtype: DType) -> Self:
        """Return a row-major tensor on the meta device, which has no elements.

        Parameters
        ----------
        shape : sequence of int
            Its shape.
        dtype : DType
            What its elements would be.
        """
        layout = Layout.contiguous(shape)
        return cls.make(Array(Value(layout.numel, dtype)), layout, META)

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` computes a gradient for it.

        Raises
        ------
        GradError
            If something else than a bool is set, or True on a tensor that is not of
            floats, or False on a result of recorded operations.
        """
        return self.needs_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if type(flag) is not bool:
            raise GradError(f"requires_grad: {flag!r} was set; it must be a bool")
        if flag is self.needs_grad:
            return
        if self.grad_node is not None:
            raise GradError(
                f"requires_grad: the tensor is a result of {self.grad_node.op_name},"
                " and only leaves can be changed; use x.detach()"
            )
        if flag and not self.dtype.is_differentiable:
            raise GradError(
                f"requires_grad: the tensor is {self.dtype.name};"
                " only float and complex tensors have gradients"
            )
        if self.array.version < 0 and flag and not inference.mode.top.value:
            raise GradError(
                "requires_grad: the tensor was made in inference_mode; set it on a"
                " copy, x.clone()"
            )
        trace_hooks.structure_changed()
        self.needs_grad = flag

    @property
    def grad(self) -> Any:
        """The gradient that `backward` accumulated, or None.

        For leaves, and for other tensors after `retain_grad`. It may be set to None,
        or to a tensor of the same shape, dtype and device.

        Raises
        ------
        TypeError
            If something else than a tensor or None is set.
        GradError
            If a tensor is set that does not go with this one.
        """
        if trace_hooks.running:
            trace = trace_hooks.listener()
            if trace is not None:
                trace.on_grad_read(self)
        found = self.own_grad
        if found is None and self.grad_node is not None:
            self._warn_of_no_gradient()
        return found

    @grad.setter
    def grad(self, grad: Any) -> None:
        if grad is not None:
            self._check_gradient(grad)
        if trace_hooks.running:
            trace = trace_hooks.listener()
            if trace is not None:
                trace.on_grad_write(self, cleared=True)
        self.own_grad = grad

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _warn_of_no_gradient(self) -> None:
        node = self.grad_node
        assert node is not None
        if node.hooks is None or not node.hooks.retains(self):
            warnings.warn(
                f"grad: the tensor is a result of {node.op_name}, whose gradient is"
                " not kept; call x.retain_grad() before backward, or read a leaf's",
                stacklevel=3,
            )

    def _check_gradient(self, grad: object) -> None:
        """Raise where a gradient does not go with this tensor."""
        if not isinstance(grad, TensorCore):
            raise TypeError(
                f"grad: a {type(grad).__name__} was set; it must be a tensor or None"
            )
        if grad is self:
            raise GradError("grad: a tensor cannot be its own gradient; set a copy")
        own = self.shape, self.dtype.name, self.device.name
        given = grad.shape, grad.dtype.name, grad.device.name
        if own != given:
            raise GradError(
                "grad: a tensor of shape {}, {} on {} was set".format(*given)
                + "; it must be as the tensor: shape {}, {} on {}".format(*own)
            )

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return size_of(self.layout.shape)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.array.value.dtype

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype."""
        return spec_of(self.layout.shape, self.array.value.dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.layout.shape)

    @property
    def is_gpu(self) -> bool:
        """Whether the elements are on a Vulkan device."""
        return self.device.is_gpu

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.layout.shape)

    def nelement(self) -> int:
        """Return the number of elements."""
        return math.prod(self.layout.shape)

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.layout.shape)

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a float one."""
        return self.dtype.is_float

    def view_of(self: Self, layout: Layout) -> Self:
        """Return another view of the same storage, off the tape.

        Parameters
        ----------
        layout : Layout
            Shape, strides and offset within the storage.
        """
        return type(self).make(self.array, layout, self.device)

    def detach(self: Self) -> Self:
        """Return the same elements off the tape; in-place changes are shared."""
        return self.view_of(self.layout)

    @property
    def data(self: Self) -> Self:
        """The same elements off the tape; see `detach`.

        What is changed in place through it, or a view of it, is counted apart: a
        backward pass finds the new elements in the place of saved ones.
        Setting it gives this tensor the storage of another one, and its shape, dtype
        and device; saved tensors stay as they were.

        Raises
        ------
        TypeError
            If something else than a tensor is set.
        DTypeError
            If a gradient is required, and the other one is not of floats.
        TraceError
            If a function that `jit` traces sets another storage.
        """
        found = self.detach()
        found.grad_index = -1  # as `autograd.views` has it
        return found

    @data.setter
    def data(self, other: TensorCore) -> None:
        if not isinstance(other, TensorCore):
            raise TypeError(
                f"data: a {type(other).__name__} was set; it must be a tensor"
            )
        if other.array is self.array and other.layout == self.layout:
            return  # as x.data += 1 ends
        if self.needs_grad and not other.dtype.is_differentiable:
            raise DTypeError(
                f"data: a tensor of {other.dtype.name} was set on one that requires a"
                " gradient; only float and complex tensors have gradients"
            )
        trace_hooks.refuse(
            "a tensor's data is set, which a replay does not repeat; change it in"
            " place with copy_"
        )
        trace_hooks.structure_changed()
        self.views = None
        self.array, self.layout, self.device = other.array, other.layout, other.device

    def alias(self: Self) -> Self:
        """Return the same elements and tape entry; in-place changes are not shared."""
        array = Array.sharing(self.array)
        tensor = type(self).make(array, self.layout, self.device)
        tensor.needs_grad = self.needs_grad
        tensor.grad_node, tensor.grad_index = self.grad_node, self.grad_index
        return tensor

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        # Values are immutable, so the copy may share them.
        if self.grad_node is not None:
            raise GradError(
                f"deepcopy: the tensor is a result of {self.grad_node.op_name};"
                " only leaves can be copied with their gradient, so detach it first"
            )
        array = Array.sharing(self.array)
        copied = assembled(type(self), array, self.layout, self.device)
        copied.needs_grad = self.needs_grad
        copied.grad = deepcopy(self.grad, memo)
        if self.__dict__:
            copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        place = self.dtype, self.device.name
        data = type(self), self.host_copy(), *place, self.needs_grad
        return _unpickled, data, self.__dict__ or None

    def host_view(self) -> np.ndarray:
        """Return the elements of a host tensor as a NumPy view of its storage.

        Of a bfloat16 tensor, which NumPy cannot view, as a float32 copy.

        Raises
        ------
        NoDataError
            If the tensor is on the meta device.
        """
        return decode(strided(self._host_elements(), self.layout), self.dtype)

    def _host_elements(self) -> np.ndarray:
        """Return the elements of the storage of a host tensor."""
        self._need_data()
        flat = self.array.value.buffer
        if type(flat) is Released:
            raise RuntimeError(f"read: {flat.cause}")
        assert isinstance(flat, np.ndarray)
        return flat

    def _need_data(self) -> None:
        """Raise `NoDataError` if the tensor is on the meta device."""
        if self.device is META:
            raise NoDataError(
                f"the elements of a tensor of shape {tuple(self.shape)} on the meta"
                " device are read; it has none, so make one on another device, as by"
                " Module.to_empty, and fill that"
            )

    def host_copy(self) -> np.ndarray:
        """Return a copy of the elements on the host; waits for them.

        Other lazy nodes stay pending, unless many reads have left some. See `numpy`,
        which programs call; this one reads tensors on the tape, too.
        """
        if not isinstance(self.device, GpuDevice):
            return self.host_view().copy()
        if trace_hooks.running:
            trace_hooks.refuse(
                f"a tensor of shape {tuple(self.shape)} on {self.device} is read on the"
                " host,"
                " which a replay cannot do; return it and read it outside, or choose"
                " with where() instead of a Python branch"
            )
        found = self._download(self.device)
        return found if found.flags.c_contiguous else found.copy()

    def _download(self, device: GpuDevice, raw: bool = False) -> np.ndarray:
        """Read the range of storage that the layout touches; `raw` is not decoded."""
        shape, strides, offset = self.layout
        dtype = self.array.value.dtype
        if 0 in shape:
            return np.empty(shape, dtype.storage if raw else dtype.numpy)
        size, last, steps = dtype.itemsize, 0, []
        for length, stride in zip(shape, strides):
            last += (length - 1) * stride
            steps.append(stride * size)
        while True:
            with device.lock:
                # First, as it may roll the storage back to other content.
                if device.in_flight is not None:
                    device.settle()
                value = self.array.value
                # Referenced, or another thread's flush could drop or donate it.
                kept = Array(value) if type(value) is Value else None
                compute(device, value)
                buffer = buffer_of(value)
            place = buffer, offset * size, (last + 1) * size
            data = with_memory_retry(device, device.gpu.read, *place)
            del kept
            # If another thread's replay moved the memory, it may have overwritten it; a
            # replay is submitted before the move is known, but under the lock.
            with device.lock:
                if device.in_flight is not None:
                    device.settle()
                if value.buffer is buffer:
                    break
        if device.gpu.status is not None:
            device.check_indices()
        found: np.ndarray = np.ndarray(shape, dtype.storage, data, 0, steps)
        return decode(found, dtype) if dtype.is_encoded and not raw else found

    def stored(self) -> np.ndarray:
        """Return a copy of the elements as they are in memory; waits for them."""
        if isinstance(self.device, GpuDevice):
            return self._download(self.device, raw=True).copy()
        return strided(self._host_elements(), self.layout).copy()

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule of the elements, in host memory.

        A host tensor exports its own memory, which the receiver must not write to,
        because other tensors may share it. A tensor on a device is downloaded, which
        waits for it, and exports the copy.
        """
        if self.needs_grad:
            raise BufferError(
                f"dlpack: the tensor, of shape {tuple(self.shape)}, requires a"
                " gradient, which what is exported does not have; use x.detach()"
            )
        data = self.host_copy() if self.is_gpu else self.host_view()
        return data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name of the host, (1, 0)."""
        return 1, 0

    def item(self) -> Any:
        """Return the only element as a Python number; waits for it.

        Raises
        ------
        ShapeError
            If the tensor has not exactly one element.
        """
        if math.prod(self.layout.shape) != 1:
            raise ShapeError(
                f"item: the tensor has shape {tuple(self.shape)}; it must have one"
                " element"
            )
        number: Any = self.host_copy().item()
        return number

    def tolist(self) -> Any:
        """Return the elements as nested Python lists; waits for them."""
        return self.host_copy().tolist()


_new = object.__new__


def assembled(kind: type[Self], array: Array, layout: Layout, device: Device) -> Self:
    """Return a tensor of exactly this class, where `make` may choose a plainer one."""
    tensor = _new(kind)
    tensor.array = array
    tensor.layout = layout
    tensor.device = device
    tensor.needs_grad = False
    tensor.own_grad = None
    tensor.grad_node = None
    tensor.grad_index = 0
    tensor.hooks = None
    tensor.views = None
    return tensor


def _unpickled(
    kind: type[Self], data: np.ndarray, dtype: DType, place: str, requires_grad: bool
) -> Self:
    """Return a tensor on the device of that name."""
    plain = kind.from_host(data, get_device(place), dtype)
    made = assembled(kind, plain.array, plain.layout, plain.device)
    made.needs_grad = requires_grad
    return made


def operand(like: TensorCore, other: object, name: str | None = None) -> Any:
    """Return an operand of a binary op: tensors and numbers as is, arrays copied.

    Others are left to the op, which refuses them by name; a `name` says that there is
    none, but a method of this name.
    """
    if isinstance(other, TensorCore | int | float):
        return other
    if isinstance(other, np.generic | np.ndarray):
        array = np.asarray(other)
        if array.ndim == 0:
            return array.item()
        return type(like).from_host(array, like.device)
    if name is None or isinstance(other, complex):
        return other
    raise TypeError(
        f"{name}: {type(other).__name__} cannot be combined with a tensor;"
        " use a tensor, a number or a NumPy array"
    )


def need_tensors(name: str, **given: object) -> None:
    """Refuse arguments of a function that are no tensors.

    Raises
    ------
    TypeError
        If there is one.
    """
    for each, value in given.items():
        if not isinstance(value, TensorCore):
            raise TypeError(
                f"{name}: the argument `{each}` is a {type(value).__name__}; it must"
                " be a tensor"
            )


UPLOAD_PLACES = 4
"""Addresses that are remembered of uploads of each size."""


def upload(flat: np.ndarray, dtype: DType, device: GpuDevice) -> Value:
    """Return a value on `device` with the elements of a flat host array."""
    buffer = with_memory_retry(device, _uploaded, flat, device)
    return Value(flat.size, dtype, buffer=buffer)


def _uploaded(flat: np.ndarray, device: GpuDevice) -> vkbackend.Buffer:
    # Batches of one size lie in the same places by turns; see `executor.memory_of`.
    places = device.upload_places[flat.nbytes] or ()
    (buffer,) = device.gpu.allocate_each((flat.nbytes,), places, idle=True)
    others = [each for each in places if each[0] != buffer.address]
    latest = (buffer.address,), *others[: UPLOAD_PLACES - 1]
    device.upload_places.add(flat.nbytes, latest)
    if flat.nbytes:
        device.gpu.upload(flat, buffer)
    return buffer


def strided(flat: np.ndarray, layout: Layout) -> np.ndarray:
    """Return a NumPy view of flat storage through a layout."""
    shape, strides, offset = layout
    size = flat.itemsize
    steps = [step * size for step in strides]
    if 0 in shape:
        return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps)
    # A tenth of the time of `as_strided`.
    return np.ndarray(shape, flat.dtype, flat, offset * size, steps)


def evaluate(*tensors: TensorCore) -> None:
    """Submit the lazy graphs of the devices of `tensors`; waits for nothing.

    Without arguments, on every device. The next read of a value waits for it.

    Parameters
    ----------
    *tensors : Tensor
        Any shape and dtype.
    """
    if not tensors:
        for each in opened_devices():
            flush(each)
    before: Device | None = None
    for tensor in tensors:
        device = tensor.device
        if device is not before:
            before = device
            # Of a thread that is submitting, the pending nodes may be gone already.
            if isinstance(device, GpuDevice) and (
                device.pending
                or device.running is not None
                or device.in_flight is not None
            ):
                flush(device)
