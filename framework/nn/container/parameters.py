"""Containers of parameters: `ParameterList` and `ParameterDict`."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ...tensor.tensor import Tensor
from ..module import Module
from ..parameter import Parameter

Self = TypeVar("Self", bound="ParameterList")


def _entry(value: object) -> object:
    """Return what is kept of a value: a tensor becomes a parameter."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


_TENSOR_TYPES = {
    "bfloat16": "BFloat16Tensor",
    "float16": "HalfTensor",
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
}
"""PyTorch's names of types, which a `ParameterDict` prints, by dtype."""


def _line(name: object, value: object, names: Mapping[str, str]) -> str:
    """Return the line of `repr` for an entry, as PyTorch prints it."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    dtype = names.get(value.dtype.name, value.dtype.name)
    size = "x".join(map(str, value.shape))
    place = f" ({value.device.name})" if value.is_gpu else ""
    return f"  ({name}): {kind} containing: [torch.{dtype} of size {size}{place}]"


class ParameterList(Module):
    """A list of parameters that belong to the module that holds it.

    Tensors become parameters; anything else is kept as it is.

    Parameters
    ----------
    values : iterable, optional

    Examples
    --------
    >>> weights = nn.ParameterList([fw.zeros(2), fw.ones(3)])
    >>> [name for name, _ in weights.named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _position(self, index: int) -> int:
        position = operator.index(index)
        if not -self._size <= position < self._size:
            raise IndexError(
                f"ParameterList: index {position} is out of range; there are"
                f" {self._size} entries"
            )
        return position % self._size

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            chosen = range(self._size)[idx]
            return type(self)(getattr(self, str(k)) for k in chosen)
        return getattr(self, str(self._position(idx)))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(self._position(idx)), _entry(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(self._size)])

    def __iadd__(self: Self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> Iterable[str]:
        """Return the attributes that can be written with a dot."""
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self: Self, value: Any) -> Self:
        """Add a value at the end; return self."""
        setattr(self, str(self._size), _entry(value))
        self._size += 1
        return self

    def extend(self: Self, values: Iterable[Any]) -> Self:
        """Add values at the end; return self.

        Raises
        ------
        TypeError
            If it is not iterable, or a tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList: a {type(values).__name__} was given; it must be a"
                " list or another iterable of parameters"
            )
        for value in [*values]:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return the lines that `repr` shows."""
        return "\n".join(_line(k, value, {}) for k, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a call: there is nothing to compute."""
        raise RuntimeError("ParameterList: it should not be called")


class ParameterDict(Module):
    """A dict of parameters that belong to the module that holds it.

    Tensors become parameters; anything else is kept as it is.

    Parameters
    ----------
    parameters : mapping of str to anything, or iterable of pairs, optional
        A `ParameterDict`, too.

    Examples
    --------
    >>> weights = nn.ParameterDict({"a": fw.zeros(2), "b": fw.ones(3)})
    >>> list(weights.state_dict())
    ['a', 'b']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: object) -> str:
        """Return the attribute of a key, which may not shadow the class's."""
        if not isinstance(key, str):
            raise TypeError(
                f"ParameterDict: a key is a {type(key).__name__}; it must be a str"
            )
        attribute = key
        while hasattr(type(self), attribute) or attribute in ("_keys", "training"):
            attribute += "_"
        return attribute

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._attribute(key), _entry(value))
        self._keys = {**self._keys, key: None}

    def __delitem__(self, key: str) -> None:
        if key not in self._keys:
            raise KeyError(key)
        delattr(self, self._attribute(key))
        self._keys = {each: None for each in self._keys if each != key}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed([*self._keys])

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """Return the keys."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [self[key] for key in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of keys and values."""
        return [(key, self[key]) for key in self._keys]

    def copy(self) -> ParameterDict:
        """Return another dict of the same values."""
        return ParameterDict(self.items())

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which is the default where it was missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in [*self._keys]:
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a key; return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the key that came last; return it and its value."""
        if not self._keys:
            raise KeyError("ParameterDict: it is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a dict with these keys and the default for each."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: Any) -> None:
        """Add values, or replace those of the same key.

        Those of a plain dict are added in the order of their keys, as in PyTorch, so
        that optimizers count parameters alike; pairs and an `OrderedDict` keep theirs.

        Raises
        ------
        TypeError
            If it is no mapping nor an iterable of pairs.
        """
        if not isinstance(parameters, Iterable):
            raise TypeError(
                f"ParameterDict: a {type(parameters).__name__} was given; it must be a"
                " mapping of keys to parameters, or an iterable of pairs"
            )
        mapped: Any = parameters
        if isinstance(parameters, OrderedDict | ParameterDict):
            mapped = [*parameters.items()]
        elif isinstance(parameters, Mapping):
            mapped = sorted(parameters.items())
        for key, value in mapped:
            self[key] = value

    def extra_repr(self) -> str:
        """Return the lines that `repr` shows."""
        return "\n".join(
            _line(key, value, _TENSOR_TYPES) for key, value in self.items()
        )

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a call: there is nothing to compute."""
        raise RuntimeError("ParameterDict: it should not be called")
