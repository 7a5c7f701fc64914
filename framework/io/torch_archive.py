"""Files of `torch.save`: an archive of a pickle, and of storages beside it."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base.device import CPU, Device, find_device
from ..base.dtype import DTYPES, DType
from ..base.errors import DTypeError, FileFormatError, UnsafeFileError
from ..base.shape import Layout, Size
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor
from .object_pickle import ObjectUnpickler
from .pickle_reader import Global, Named, PickleReader, is_key
from .safetensors import host_tensor
from .sparse_parts import made_of

MAGIC = b"PK\x03\x04"
"""What archives begin with."""

LEGACY = bytes.fromhex("80028a0a6cfc9c46f9206aa85019")
"""What files of PyTorch before 1.6 begin with."""

STORAGES = {
    "Double": "float64",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
"""Dtypes by the names of PyTorch's storages."""

_MOST_DIMENSIONS = 64
_MOST_ELEMENTS = (1 << 63) - 1

Place = Callable[[Tensor, str], Device]
"""Where a storage goes that is on the host now, and was in a location."""


class _Storage(NamedTuple):
    """A storage of the archive; its elements have the dtype, or are bytes."""

    key: str
    dtype: DType | None
    location: str
    numel: int


def read(
    where: str, content: bytes, place: Place, allowed: Collection[Any] | None = ()
) -> Any:
    """Return the content of an archive.

    `allowed` are the classes and functions that it may name beside data, None any:
    nothing of it is run without these.

    Raises
    ------
    UnsafeFileError
        If it asks for anything but data.
    FileFormatError
        If it is damaged.
    DTypeError
        If it holds a dtype that the library has not.
    """
    if content.startswith(LEGACY):
        raise FileFormatError(
            f"{where}: it is in the format of PyTorch before 1.6; load it there and"
            " save it again"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _Archive(archive, len(content), place).read(allowed)
    except UnsafeFileError as error:
        raise UnsafeFileError(
            f"{where}: {error}; only tensors, numbers, strings and containers are"
            " loaded, unless weights_only=False, which runs what the file names"
        ) from error
    except DTypeError as error:
        raise DTypeError(f"{where}: {error}") from error
    except _DAMAGE as error:
        raise FileFormatError(
            f"{where}: it is no complete file of torch.save: {type(error).__name__}:"
            f" {error}; it may be cut off, or of another format"
        ) from error


def refused_globals(where: str, content: bytes) -> list[str]:
    """Return the globals of an archive's pickle that `read` refuses; runs nothing.

    Raises
    ------
    FileFormatError
        If it is no archive, or damaged.
    """
    refused: set[str] = set()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            reader = _Archive(archive, len(content), lambda tensor, told: CPU)
            for module, name in _named(reader._entry("data.pkl")):
                try:
                    reader._find(module, name)
                except DTypeError:
                    continue
                except UnsafeFileError:
                    refused.add(f"{module}.{name}")
    except _DAMAGE as error:
        raise FileFormatError(
            f"{where}: it is no complete file of torch.save: {type(error).__name__}:"
            f" {error}; it may be cut off, or of another format"
        ) from error
    return sorted(refused)


def _named(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield module and name of each global of a pickle."""
    texts: list[str] = []
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif opcode.name == "STACK_GLOBAL":
            yield texts[-2], texts[-1]
        elif isinstance(argument, str):
            texts.append(argument)


_DAMAGE = (
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _Archive:
    """Reader of one archive."""

    def __init__(self, archive: zipfile.ZipFile, size: int, place: Place) -> None:
        self._archive, self._size, self._place = archive, size, place
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise FileFormatError(f"it has {len(pickles)} entries data.pkl, not one")
        self._folder = pickles[0].removesuffix("data.pkl")
        self._loaded: dict[object, Tensor] = {}
        self._big_endian = False
        if self._folder + "byteorder" in archive.namelist():
            order = {b"little": False, b"big": True}
            self._big_endian = order[self._entry("byteorder")]

    def read(self, allowed: Collection[Any] | None) -> Any:
        content = self._entry("data.pkl")
        if allowed is None or allowed:
            return self._objects(content, allowed)
        return PickleReader(self._find, self._storage).read(content)

    def _objects(self, content: bytes, allowed: Collection[Any] | None) -> Any:
        """Return what Python's pickle makes of the content."""

        def named(module: str, name: str, find: Callable[[str, str], Any]) -> Any:
            if allowed is None:
                return find(module, name)
            for each in allowed:
                known, alias = each if isinstance(each, tuple) else (each, None)
                if alias is None:
                    alias = f"{known.__module__}.{known.__qualname__}"
                if alias == f"{module}.{name}":
                    return known
            return self._find(module, name)

        return ObjectUnpickler(content, self._find, self._storage, named).load()

    def _entry(self, name: str) -> bytes:
        info = self._archive.getinfo(self._folder + name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > self._size:
            raise FileFormatError(f"its entry {name} is compressed, or too large")
        return self._archive.read(info)

    def _find(self, module: str, name: str) -> Any:
        module = "builtins" if module == "__builtin__" else module
        whole = f"{module}.{name}"
        if whole in _REBUILDS:
            return Named(whole, self._tensor)
        if whole in _GLOBALS:
            return Named(whole, _GLOBALS[whole])
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if module == "torch" and name.endswith("Storage"):
            return Named(whole, _refused)
        if whole == "torch.storage.UntypedStorage":
            return Named("torch.UntypedStorage", _refused)
        if module == "torch" and name in _FOREIGN_DTYPES:
            raise DTypeError(f"it holds {name}; accepted: {', '.join(DTYPES)}")
        raise UnsafeFileError(f"it asks for {whole!r}, which could run code")

    def _storage(self, told: Any) -> _Storage:
        kind, storage, key, location, numel = told
        if kind != "storage" or not isinstance(storage, Named):
            raise ValueError(f"a persistent id is of {kind!r}")
        name = storage.name.rpartition(".")[2].removesuffix("Storage")
        if name != "Untyped" and name not in STORAGES:
            raise DTypeError(
                f"it holds a storage {storage.name}; accepted: {', '.join(DTYPES)}"
            )
        dtype = DTYPES[STORAGES[name]] if name in STORAGES else None
        return _Storage(str(key), dtype, str(location), _count(numel))

    def _tensor(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any = False,
        hooks: Any = None,
        dtype: Any = None,
        metadata: Any = None,
    ) -> Tensor:
        if not isinstance(storage, _Storage):
            raise ValueError(f"a tensor has a {type(storage).__name__} as its storage")
        dtype = storage.dtype if not isinstance(dtype, DType) else dtype
        if dtype is None:
            raise ValueError("a tensor has no dtype")
        flat = self._flat(storage, dtype)
        sizes, strides = tuple(map(_count, size)), tuple(map(_count, stride))
        layout = Layout(sizes, strides, _count(offset))
        _check_layout(layout, flat.numel())
        if layout.is_contiguous:
            layout = Layout.contiguous(sizes)._replace(offset=layout.offset)
        tensor: Tensor = flat.view_of(layout)
        return tensor.requires_grad_(requires_grad is True)

    def _flat(self, storage: _Storage, dtype: DType) -> Tensor:
        """Return all elements of a storage, the same tensor for the same storage."""
        key = storage.key, dtype
        if key not in self._loaded:
            data = self._entry(f"data/{storage.key}")
            itemsize = 1 if storage.dtype is None else storage.dtype.itemsize
            if len(data) != storage.numel * itemsize:
                raise ValueError(
                    f"storage {storage.key} has {len(data)} bytes, not {storage.numel}"
                    f" of {itemsize}"
                )
            flat = np.frombuffer(data, dtype.storage)
            flat = flat.byteswap() if self._big_endian else flat
            tensor = host_tensor(flat, dtype, flat.shape)
            self._loaded[key] = tensor.to(self._place(tensor, storage.location))
        return self._loaded[key]


_FOREIGN_DTYPES = frozenset(
    "complex32 chalf float8_e8m0fnu float4_e2m1fn_x2 quint8 qint8 qint32".split()
)

_FACTORIES: Mapping[str, Callable[[], Any]] = {
    "list": list,
    "dict": dict,
    "tuple": tuple,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
}


def _refused(*args: object) -> Any:
    raise UnsafeFileError("it calls a type that it may only name")


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_ELEMENTS:
        raise ValueError(f"a size, stride or offset is {str(value)[:40]}")
    return value


def _check_layout(layout: Layout, numel: int) -> None:
    """Raise `ValueError` if a view leaves its storage of some elements."""
    sizes, strides, offset = layout
    if len(sizes) != len(strides) or len(sizes) > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor has {len(sizes)} sizes and {len(strides)} strides")
    if math.prod(max(size, 1) for size in sizes) > _MOST_ELEMENTS:
        raise ValueError(f"a tensor has sizes {sizes}")
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides))
    inside = offset <= numel if 0 in sizes else last < numel
    if not inside:
        raise ValueError(
            f"a tensor has sizes {sizes}, strides {strides} and offset {offset}, which"
            f" leave its storage of {numel} elements"
        )


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None) -> Parameter:
    if not isinstance(data, Tensor):
        raise ValueError(f"a parameter has a {type(data).__name__} as its data")
    return Parameter(data.detach(), requires_grad is True)


def _sparse(layout: Any, parts: Any) -> Tensor:
    return made_of(str(layout).removeprefix("torch."), parts)


def _device(kind: Any = "cpu", index: Any = None) -> Device:
    if kind == "cpu":
        return CPU
    return find_device(str(kind) if index is None else f"{kind}:{_count(index)}")


def _key(value: Any) -> Any:
    if not is_key(value):
        raise ValueError(f"a {type(value).__name__} is a key")
    return value


def _checked(pairs: Any) -> list[tuple[Any, Any]]:
    listed = pairs.items() if isinstance(pairs, dict) else pairs
    return [(_key(key), value) for key, value in listed]


def _default_dict(factory: Any = None, pairs: Any = ()) -> defaultdict[Any, Any]:
    if factory is None:
        return defaultdict(None, _checked(pairs))
    name = getattr(factory, "name", "").removeprefix("builtins.")
    if not isinstance(factory, Named) or name not in _FACTORIES:
        raise UnsafeFileError(f"it makes defaults by {name or type(factory).__name__}")
    return defaultdict(_FACTORIES[name], _checked(pairs))


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8"):
        raise ValueError(f"bytes are made of a {type(text).__name__}")
    return text.encode(encoding)


_REBUILDS = frozenset(
    f"torch._utils._rebuild_{name}" for name in ("tensor", "tensor_v2", "tensor_v3")
)
"""What makes a tensor of a storage of the archive."""

_GLOBALS: Mapping[str, Global] = {
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch.serialization._get_layout": str,
    "torch.Size": lambda sizes=(): Size(tuple(map(_count, sizes))),
    "torch.device": _device,
    "collections.OrderedDict": lambda pairs=(): OrderedDict(_checked(pairs)),
    "collections.defaultdict": _default_dict,
    "collections.Counter": lambda pairs=(): Counter(dict(_checked(pairs))),
    "builtins.set": lambda items=(): {_key(each) for each in items},
    "builtins.frozenset": lambda items=(): frozenset(map(_key, items)),
    "builtins.complex": lambda *parts: complex(*map(float, parts)),
    "builtins.bytearray": lambda *parts: bytearray(_bytes(*parts)),
    "_codecs.encode": _bytes,
    **{f"builtins.{name}": _refused for name in _FACTORIES},
}
"""What makes the other objects of data that a file may name."""
