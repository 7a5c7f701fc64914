"""Nested structures as JSON beside named tensors: nothing in them can run."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.device import CPU, Device, find_device
from ..base.dtype import DType, as_dtype
from ..base.errors import FileFormatError
from ..base.shape import Size
from ..nn.parameter import Buffer, Parameter
from ..tensor.tensor import Tensor
from .safetensors import is_name
from .sparse_parts import KINDS, made_of, parts_of

MAX_DEPTH = 100
"""Containers within each other, at most: JSON readers call themselves for each."""

METADATA = "_metadata"
"""The attribute of ordered dicts that is kept: versions of a state's modules."""

TENSORS: dict[type[Tensor], str] = {
    Tensor: "tensor",
    Parameter: "parameter",
    Buffer: "buffer",
}
"""Classes of tensors by their names in a structure."""


Path = tuple[object, ...]
"""Keys that lead to a part of what is saved."""


def described(path: Path) -> str:
    """Return the expression that leads to a part of what is saved."""
    return "obj" + "".join(f"[{key!r}]" for key in path)


def refusal(path: Path, value: object, why: str = "") -> TypeError:
    """Return the error for what cannot be saved."""
    kind = type(value)
    remedy = why or (
        "files hold tensors, numbers, strings, None, dicts, lists, tuples and sets;"
        " save the state_dict() of an object"
    )
    return TypeError(
        f"save: {described(path)} is a {kind.__module__}.{kind.__qualname__}; {remedy}"
    )


def is_ordered(value: object) -> bool:
    """Return whether something is an ordered dict, or the state of a module."""
    return type(value) is OrderedDict or (
        isinstance(value, OrderedDict) and hasattr(value, METADATA)
    )


def enter(path: Path, value: object, within: set[int]) -> None:
    """Note that a container's elements follow; `within` are those around it.

    Raises
    ------
    ValueError
        If it contains itself, or is too deep.
    """
    if id(value) in within:
        raise ValueError(f"save: {described(path)} contains itself; files hold trees")
    if len(path) >= MAX_DEPTH:
        raise ValueError(
            f"save: {described(path[:3])}... goes {len(path) + 1} levels deep; files"
            f" hold {MAX_DEPTH}"
        )
    within.add(id(value))


def check_key(path: Path, key: object) -> None:
    """Raise `TypeError` if files hold no such key of a dict or element of a set."""
    parts = key if type(key) is tuple else (key,)
    for part in parts:
        if type(part) not in (str, int, float, bool, type(None), bytes):
            raise refusal(path, part, "keys must be strings, numbers, None or tuples")


class _Packer:
    """Structure in the making, with the tensors that it names."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[object, str] = {}
        self._within: set[int] = set()

    def pack(self, value: Any, path: Path) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            # JSON readers differ on what they hold.
            return value if abs(value) < 1 << 63 else {"int": hex(value)}
        if kind is float:
            return value if abs(value) < float("inf") else {"float": repr(value)}
        if kind in TENSORS:
            made = {TENSORS[kind]: self._name(value, path)}
            return {**made, "requires_grad": True} if value.requires_grad else made
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, path)
        if kind in KINDS:
            parts = [self.pack(each, path) for each in parts_of(value)]
            return {"sparse": [value.kind.name, *parts]}
        packer = _SCALARS.get(kind)
        if packer is not None:
            return {packer[0]: packer[1](value)}
        if isinstance(value, Device):
            return {"device": str(value)}
        return self._container(value, path)

    def _container(self, value: Any, path: Path) -> Any:
        kind = type(value)
        ordered = is_ordered(value)
        if not ordered and kind not in (dict, list, tuple, set, frozenset):
            raise refusal(path, value)
        enter(path, value, self._within)
        made: Any
        if ordered or kind is dict:
            made = {"OrderedDict" if ordered else "dict": self._pairs(value, path)}
            if ordered and hasattr(value, METADATA):
                metadata = getattr(value, METADATA)
                made[METADATA] = self.pack(metadata, (*path, METADATA))
        else:
            if kind in (set, frozenset):
                for each in value:
                    check_key(path, each)
            parts = [self.pack(each, (*path, at)) for at, each in enumerate(value)]
            made = parts if kind is list else {kind.__name__: parts}
        self._within.discard(id(value))
        return made

    def _pairs(self, value: Mapping[Any, Any], path: Path) -> list[Any]:
        pairs = []
        for key, each in value.items():
            check_key((*path, key), key)
            pairs.append([self.pack(key, path), self.pack(each, (*path, key))])
        return pairs

    def _name(self, tensor: Tensor, path: Path) -> str:
        """Return the name of a tensor; one that is there twice has one."""
        shown = id(tensor.array), tensor.layout, tensor.dtype
        if shown not in self._names:
            wanted = ".".join(map(str, path)) or "tensor"
            wanted = wanted if is_name(wanted) else "tensor"
            name, count = wanted, 1
            while name in self.tensors:
                name, count = f"{wanted}#{count}", count + 1
            self._names[shown], self.tensors[name] = name, tensor
        return self._names[shown]

    def _array(self, value: Any, path: Path) -> dict[str, str]:
        try:
            dtype = as_dtype(value.dtype)
        except TypeError:
            raise refusal(path, value, f"{value.dtype} is no dtype of files") from None
        tensor = Tensor.from_host(np.asarray(value), CPU, dtype)
        kind = "ndarray" if isinstance(value, np.ndarray) else "scalar"
        return {kind: self._name(tensor, path)}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_SCALARS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    complex: ("complex", lambda value: [repr(value.real), repr(value.imag)]),
    bytes: ("bytes", _base64),
    DType: ("dtype", lambda value: value.name),
    Size: ("Size", list),
}


def pack(value: object) -> tuple[dict[str, Tensor], str]:
    """Return the tensors of a structure by name, and the structure as JSON.

    Raises
    ------
    TypeError
        If a part is none that files hold.
    ValueError
        If a part contains itself, or is nested too deeply.
    """
    packer = _Packer()
    made = packer.pack(value, ())
    return packer.tensors, json.dumps(made, separators=(",", ":"), allow_nan=False)


def unpack(where: str, text: str, tensors: Mapping[str, Tensor]) -> Any:
    """Return the structure that `pack` took apart.

    Raises
    ------
    FileFormatError
        If the text is none that `pack` returns.
    """
    try:
        return _Unpacker(tensors).unpack(json.loads(text), 0)
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as why:
        raise FileFormatError(
            f"{where}: its structure is damaged: {type(why).__name__}: {why}; it must"
            " be as save() writes it"
        ) from why


class _Unpacker:
    """Reader of a structure."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._made: dict[tuple[str, str, bool], Tensor] = {}

    def unpack(self, made: Any, depth: int) -> Any:
        if depth > 2 * MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH}")
        if isinstance(made, list):
            return [self.unpack(each, depth + 1) for each in made]
        if not isinstance(made, dict):
            return made
        if not made:
            raise ValueError("an object has no kind")
        kind, content = next(iter(made.items()))
        for owner, name in TENSORS.items():
            if kind == name:
                return self._tensor(owner, content, bool(made.get("requires_grad")))
        if kind in ("ndarray", "scalar"):
            array = self._tensors[content].host_copy()
            return array if kind == "ndarray" else array[()]
        if kind in ("dict", "OrderedDict"):
            return self._dict(made, kind, depth)
        if kind == "sparse":
            name, *parts = content
            return made_of(name, [self.unpack(each, depth + 1) for each in parts])
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self.unpack(each, depth + 1) for each in content)
        return _READERS[kind](content)

    def _dict(self, made: Mapping[str, Any], kind: str, depth: int) -> Any:
        pairs = [
            (self.unpack(key, depth + 1), self.unpack(value, depth + 1))
            for key, value in made[kind]
        ]
        if kind == "dict":
            return dict(pairs)
        ordered: OrderedDict[Any, Any] = OrderedDict(pairs)
        if METADATA in made:
            setattr(ordered, METADATA, self.unpack(made[METADATA], depth + 1))
        return ordered

    def _tensor(self, owner: type[Tensor], name: str, needs_grad: bool) -> Tensor:
        key = owner.__name__, name, needs_grad
        if key not in self._made:
            tensor = self._tensors[name].detach()
            if owner is Parameter:
                tensor = Parameter(tensor, needs_grad)
            else:
                tensor = Buffer(tensor) if owner is Buffer else tensor
                tensor.requires_grad_(needs_grad)
            self._made[key] = tensor
        return self._made[key]


_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": lambda parts: complex(*map(float, parts)),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dtype": as_dtype,
    "device": find_device,
    "Size": Size,
}
