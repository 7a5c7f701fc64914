"""Writing of files that `torch.load(weights_only=True)` reads.

The pickle is written opcode by opcode: Python's own pickler would have to import what
it names.
"""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

from ..base.device import Device
from ..base.dtype import DType, encode
from ..base.shape import Layout, Size
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor
from .object_pickle import pickled
from .sparse_parts import KINDS, parts_of
from .structure import METADATA, TENSORS, Path, check_key, enter, is_ordered, refusal
from .torch_archive import STORAGES

_ALIGNMENT = 64
"""Bytes: PyTorch maps storages into memory where they lie so."""

_STORAGE_NAMES = {name: f"torch {kind}Storage" for kind, name in STORAGES.items()}


def archive(value: object) -> bytes:
    """Return the content of a file for PyTorch.

    Raises
    ------
    TypeError
        If a part is none that files hold.
    ValueError
        If a part contains itself, or is nested too deeply.
    """
    writer = _Writer()
    writer.write(value, ())
    return _zipped(b"\x80\x02" + bytes(writer.out) + b".", writer)


def object_archive(value: object) -> bytes:
    """Return the content of a file that `load(weights_only=False)` reads.

    Raises
    ------
    PicklingError, AttributeError, TypeError
        If a part has no pickle, as a function within another.
    """
    writer = _Writer()
    return _zipped(pickled(value, writer.opcodes), writer)


def _zipped(pickle: bytes, writer: _Writer) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as written:
        _add(written, "data.pkl", pickle)
        _add(written, "byteorder", b"little")
        for tensor, key in writer.storages.values():
            _add(written, f"data/{key}", _elements(tensor))
        _add(written, "version", b"3\n")
    return content.getvalue()


def _add(written: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(f"archive/{name}")
    # A local header has 30 bytes, the name and the extra field, whose own has 4.
    start = written.start_dir + 30 + len(info.filename) + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + bytes(padding)
    written.writestr(info, data)


def _elements(tensor: Tensor) -> bytes:
    """Return the whole storage of a tensor."""
    layout = Layout.contiguous((tensor.array.value.numel,))
    return encode(tensor.view_of(layout).host_copy(), tensor.dtype).tobytes()


class _Writer:
    """Pickle in the making, with the storages that it names."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.storages: dict[object, tuple[Tensor, int]] = {}
        self._memo: dict[object, int] = {}
        self._kept: list[object] = []
        self._within: set[int] = set()

    def write(self, value: Any, path: Path) -> None:
        """Append what makes a value."""
        kind = type(value)
        if value is None or kind is bool:
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif kind is int:
            self._int(value, path)
        elif kind is float:
            self.out += b"G" + struct.pack(">d", value)
        elif kind is str:
            data = value.encode("utf-8", "surrogatepass")
            self.out += b"X" + struct.pack("<I", len(data)) + data
        elif kind in TENSORS:
            self._tensor(value, path)
        elif kind is DType:
            self._name(f"torch {value.name}")
        elif isinstance(value, Device):
            self._call("torch device", ("cpu",), path)
        elif kind is Size:
            self._call("torch Size", (tuple(value),), path)
        elif kind in KINDS:
            self._sparse(value, path)
        elif kind is complex:
            self._call("__builtin__ complex", (value.real, value.imag), path)
        elif kind is bytes:
            self._call("_codecs encode", (value.decode("latin1"), "latin1"), path)
        else:
            self._container(value, path)

    def opcodes(self, value: Any) -> bytes:
        """Return what makes a tensor, dtype, device or size, and nothing before it."""
        self.out = bytearray()
        if type(value) in TENSORS:
            self._unshared(value, ())
        else:
            self.write(value, ())
        return bytes(self.out)

    def _int(self, value: int, path: Path) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if len(data) > 255:
            raise refusal(path, value, f"torch.load takes 255 bytes, not {len(data)}")
        self.out += b"\x8a" + bytes([len(data)]) + data

    def _name(self, name: str) -> None:
        module, _, attribute = name.partition(" ")
        self.out += f"c{module}\n{attribute}\n".encode()

    def _call(self, name: str, args: tuple[Any, ...], path: Path) -> None:
        self._name(name)
        self._tuple(args, path)
        self.out += b"R"

    def _tuple(self, parts: tuple[Any, ...], path: Path) -> None:
        self.out += b"("
        for at, each in enumerate(parts):
            self.write(each, (*path, at))
        self.out += b"t"

    def _container(self, value: Any, path: Path) -> None:
        kind = type(value)
        ordered = is_ordered(value)
        if not ordered and kind not in (dict, list, tuple, set):
            raise refusal(path, value)
        enter(path, value, self._within)
        if kind is tuple:
            self._tuple(value, path)
        elif kind is list:
            self.out += b"]("
            for at, each in enumerate(value):
                self.write(each, (*path, at))
            self.out += b"e"
        elif kind is set:
            for each in value:
                check_key(path, each)
            self._call("__builtin__ set", ([*value],), path)
        else:
            self._dict(value, path, ordered)
        self._within.discard(id(value))

    def _dict(self, value: Any, path: Path, ordered: bool) -> None:
        if ordered:
            self._call("collections OrderedDict", (), path)
        else:
            self.out += b"}"
        self.out += b"("
        for key, each in value.items():
            check_key((*path, key), key)
            self.write(key, path)
            self.write(each, (*path, key))
        self.out += b"u"
        if ordered and hasattr(value, METADATA):
            self.write({METADATA: getattr(value, METADATA)}, path)
            self.out += b"b"

    def _tensor(self, tensor: Tensor, path: Path) -> None:
        """Append a tensor; the same object the second time, as in PyTorch."""
        known = self._memo.get(id(tensor))
        if known is not None:
            self.out += b"j" + struct.pack("<I", known)
            return
        self._unshared(tensor, path)
        self._memo[id(tensor)] = len(self._memo)
        self.out += b"r" + struct.pack("<I", self._memo[id(tensor)])

    def _unshared(self, tensor: Tensor, path: Path) -> None:
        parameter = isinstance(tensor, Parameter)
        if parameter:
            self._name("torch._utils _rebuild_parameter")
            self.out += b"("
        self._view(tensor, tensor.requires_grad and not parameter, path)
        if parameter:
            self.write(tensor.requires_grad, path)
            self._call("collections OrderedDict", (), path)
            self.out += b"tR"

    def _sparse(self, tensor: Any, path: Path) -> None:
        self._name("torch._utils _rebuild_sparse_tensor")
        self.out += b"("
        self._call("torch.serialization _get_layout", (repr(tensor.kind),), path)
        parts = parts_of(tensor)
        # The numbers in the memo are those of objects that stay.
        self._kept.append(parts)
        self._tuple(parts, path)
        self.out += b"tR"

    def _view(self, tensor: Tensor, requires_grad: bool, path: Path) -> None:
        typed = tensor.dtype.name in _STORAGE_NAMES
        self._name(f"torch._utils _rebuild_tensor_v{2 if typed else 3}")
        self.out += b"("
        self._storage(tensor, typed, path)
        layout = tensor.layout
        self.write(layout.offset, path)
        self._tuple(tuple(layout.shape), path)
        self._tuple(tuple(layout.strides), path)
        self.write(requires_grad, path)
        self._call("collections OrderedDict", (), path)
        if not typed:
            self.write(tensor.dtype, path)
        self.out += b"tR"

    def _storage(self, tensor: Tensor, typed: bool, path: Path) -> None:
        # Which keeps the storage, so that its number stays its own.
        _, key = self.storages.setdefault(
            (id(tensor.array), tensor.dtype), (tensor.detach(), len(self.storages))
        )
        numel = tensor.array.value.numel
        self.out += b"("
        self.write("storage", path)
        self._name(
            _STORAGE_NAMES[tensor.dtype.name]
            if typed
            else "torch.storage UntypedStorage"
        )
        for part in (
            str(key),
            "cpu",
            numel if typed else numel * tensor.dtype.itemsize,
        ):
            self.write(part, path)
        self.out += b"tQ"
