"""Operation queue of a `CommandBatch`: arrays by handle, and checked operations."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vkbackend.device import Device
from vkbackend.errors import ArgumentError
from vkbackend.memory.buffer import Buffer

from .kernels import MAX_COLUMNS, Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray

MAX_ELEMENTS = (1 << 31) - 1
"""Elements of one array: kernels count in 32 bits."""

_FLOAT32, _FLOAT16 = "float32", "float16"


class Handle:
    """Handle of one array of a batch; made by the batch's methods.

    Attributes
    ----------
    shape : tuple of int
        As it is read.
    dtype : numpy.dtype
        float32 or float16.
    """

    __slots__ = ("buffer", "data", "dtype", "number", "shape", "uploaded")

    def __init__(
        self, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.number = number
        self.shape = shape
        self.dtype = dtype
        self.buffer: Buffer | None = None
        self.data: NDArray[Any] | None = None
        self.uploaded = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * self.dtype.itemsize

    def place(self, device: Device) -> None:
        """Allocate its memory, and upload its elements if there are new ones."""
        if self.buffer is None:
            self.buffer = device.allocate(self.nbytes)
        if self.data is not None:
            device.upload(self.data, self.buffer)
            self.data = None

    def __repr__(self) -> str:
        return f"<Handle {self.number}: {self.dtype} {self.shape}>"


class Operation(NamedTuple):
    """Queued operation: inputs, output, launches, scratch buffers."""

    inputs: tuple[Handle, ...]
    out: Handle
    runs: Sequence[Run]
    scratch: dict[str, Buffer]

    def memory(self, device: Device) -> dict[str, Buffer]:
        """Return its buffers by the names that its runs use; allocates scratch once."""
        for run in self.runs:
            for name, size in run.scratch.items():
                if name not in self.scratch:
                    self.scratch[name] = device.allocate(size)
        handles = (*self.inputs, self.out)
        buffers = [handle.buffer for handle in handles if handle.buffer is not None]
        return {**dict(zip(("x", "y"), buffers)), "out": buffers[-1], **self.scratch}


class ArrayQueue:
    """Queue of arrays and operations, in order; `CommandBatch` adds the operations."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._handles: list[Handle] = []
        self._operations: list[Operation] = []

    @property
    def num_operations(self) -> int:
        """Number of operations queued."""
        return len(self._operations)

    @property
    def num_buffers(self) -> int:
        """Number of arrays: uploaded, imported and computed."""
        return len(self._handles)

    def upload(self, array: ArrayLike) -> Handle:
        """Queue an upload; the elements are copied now and sent by `execute`.

        Parameters
        ----------
        array : array_like
            float16 stays so; Python numbers and integers become float32.

        Raises
        ------
        ArgumentError
            If it is of another dtype, has no elements or too many, or is float16 and
            the device cannot store that.
        """
        import numpy as np  # the device layer starts without it

        given = np.asarray(array)
        if isinstance(array, np.ndarray | np.generic) or given.dtype.kind not in "fiub":
            dtype = given.dtype
        else:
            dtype = np.dtype(_FLOAT32)
        if dtype.kind in "iub":
            dtype = np.dtype(_FLOAT32)
        handle = self.new_handle("upload", given.shape, dtype)
        handle.data = given.astype(dtype, order="C")
        handle.uploaded = True
        return handle

    def replace(self, handle: Handle, array: ArrayLike) -> None:
        """Put new elements in the place of uploaded ones, for the next `execute`.

        Raises
        ------
        ArgumentError
            If the handle was not made by `upload`, or the shape is another.
        """
        import numpy as np

        self.check("replace", handle)
        given = np.asarray(array)
        if not handle.uploaded or given.shape != handle.shape:
            raise ArgumentError(
                f"replace: the elements do not fit: {handle} gets shape {given.shape};"
                f" a handle made by `upload` takes elements of its own shape"
            )
        handle.data = given.astype(handle.dtype, order="C")

    def import_buffer(
        self, buffer: Buffer, size: int, dtype: DTypeLike = _FLOAT32
    ) -> Handle:
        """Add a buffer that exists already, as weights that stay on the device.

        Parameters
        ----------
        buffer : Buffer
            Shared with the caller: it is neither written nor freed by the batch.
        size : int
            Elements.
        dtype : dtype_like, default float32
            Of the elements.

        Raises
        ------
        ArgumentError
            If the buffer is on another device or holds fewer elements.
        """
        import numpy as np

        if not isinstance(buffer, Buffer):
            raise ArgumentError(f"import_buffer: {buffer!r} is no Buffer; allocate one")
        self.check_whole("import_buffer", size=size)
        if buffer.device is not self.device:
            raise ArgumentError(
                f"import_buffer: {buffer!r} is on another device:"
                f" {buffer.device.name}; the batch is on {self.device.name}"
            )
        wanted = np.dtype(dtype)
        if size * wanted.itemsize > buffer.size:
            raise ArgumentError(
                f"import_buffer: the buffer is too small: {size} elements of {wanted}"
                f" are {size * wanted.itemsize} bytes; {buffer!r} holds {buffer.size}"
            )
        handle = self.new_handle("import_buffer", (size,), wanted)
        handle.buffer = buffer
        return handle

    def new_handle(
        self, where: str, shape: tuple[int, ...], dtype: DTypeLike
    ) -> Handle:
        """Add an array, checked."""
        import numpy as np

        kind = np.dtype(dtype)
        if kind not in (_FLOAT32, _FLOAT16):
            raise ArgumentError(
                f"{where}: the dtype is {kind}; it must be float32 or float16"
            )
        info = self.device.info
        if kind == _FLOAT16 and not info.storage_16bit:
            raise ArgumentError(
                f"{where}: {info.name} cannot store float16 in buffers; use float32"
            )
        handle = Handle(len(self._handles), shape, kind)
        if not 0 < handle.size <= MAX_ELEMENTS:
            raise ArgumentError(
                f"{where}: the shape is {shape}, {handle.size} elements; there must be"
                f" from 1 to {MAX_ELEMENTS}"
            )
        self._handles.append(handle)
        return handle

    def check(self, where: str, *handles: Handle) -> None:
        """Raise `ArgumentError` unless they are of this batch and of one dtype."""
        for handle in handles:
            known = isinstance(handle, Handle) and handle.number < len(self._handles)
            if not known or self._handles[handle.number] is not handle:
                raise ArgumentError(
                    f"{where}: {handle!r} is no array of this batch; use what its"
                    f" methods return"
                )
        if len({handle.dtype for handle in handles}) > 1:
            said = " and ".join(str(handle.dtype) for handle in handles)
            raise ArgumentError(f"{where}: dtypes differ: {said}; use one for both")

    def check_pair(self, where: str, x: Handle, y: Handle) -> None:
        """Raise `ArgumentError` unless sizes and dtypes are the same."""
        self.check(where, x, y)
        if x.size != y.size:
            raise ArgumentError(
                f"{where}: sizes differ: {x.size} and {y.size} elements; they must be"
                f" the same"
            )

    def check_whole(self, where: str, **sizes: object) -> None:
        """Raise `ArgumentError` unless numbers of elements are ints."""
        for name, size in sizes.items():
            if not hasattr(type(size), "__index__"):
                raise ArgumentError(f"{where}: {name} is {size!r}; it must be an int")

    def check_number(self, where: str, name: str, number: object) -> None:
        """Raise `ArgumentError` unless a kernel can take a number as a float."""
        try:
            struct.pack("<f", number)
        except (struct.error, TypeError, ValueError, OverflowError):
            problem = f"{where}: {name} is {_shown(number)}; it must be a number"
            raise ArgumentError(f"{problem} that a float32 can hold") from None

    def check_rounds(self, where: str, name: str, size: int, most: int) -> None:
        """Raise `ArgumentError` where a software device would loop too often."""
        if self.device.info.target.loop_limit is not None and size > most:
            raise ArgumentError(
                f"{where}: {name} is too large for a software device: {size}; at most"
                f" {most}"
            )

    def check_rows(self, where: str, x: Handle, columns: int | None) -> tuple[int, int]:
        """Return how many rows of how many columns an array has."""
        self.check(where, x)
        wanted = x.size if columns is None else columns
        self.check_whole(where, columns=wanted)
        if wanted < 1 or x.size % wanted:
            raise ArgumentError(
                f"{where}: rows do not fit: {x.size} elements in rows of {wanted};"
                f" `columns` must divide the number of elements"
            )
        self.check_rounds(where, "columns", wanted, MAX_COLUMNS)
        return x.size // wanted, wanted

    def queue(
        self,
        name: str,
        inputs: tuple[Handle, ...],
        shape: tuple[int, ...],
        runs: Sequence[Run],
    ) -> Handle:
        """Add an operation, checked; return its result."""
        out = self.new_handle(name, shape, inputs[0].dtype)
        self._operations.append(Operation(inputs, out, runs, {}))
        return out


def is_half(handle: Handle) -> bool:
    """Return whether an array is float16."""
    return handle.dtype == _FLOAT16


def _shown(given: object) -> str:
    """Return how a message shows what was given; Python prints no int of any length."""
    try:
        return repr(given)
    except ValueError:
        return "an int too long to print"
