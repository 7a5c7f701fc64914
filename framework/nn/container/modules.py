"""Containers of modules: `Sequential`, `ModuleList`, `ModuleDict`."""

from __future__ import annotations

import operator
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast, overload

from ...base import trace_hooks
from ..module import Module
from ..module_tree import MODULE

Self = TypeVar("Self", bound="_Numbered")


class _Numbered(Module):
    """Modules in order; their names are their positions unless given."""

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        if trace_hooks.running:
            self._notify_trace()
        return [name for name, role in self._registry.items() if role is MODULE]

    def _members(self) -> list[Any]:
        """Return the modules in order, one that comes twice twice."""
        space = self.__dict__
        return [space[name] for name in self._names()]

    def __iter__(self) -> Iterator[Module]:
        return iter(self._members())

    def __delitem__(self, index: int | slice) -> None:
        names = self._names()
        chosen = names[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in chosen:
            delattr(self, name)
        # Named ones, too, as in PyTorch.
        self._renumber(self._members())

    def _renumber(self, members: list[Any]) -> None:
        """Name modules by their positions."""
        self._modules = {str(k): module for k, module in enumerate(members)}

    def _name_at(self, index: int) -> str:
        names = self._names()
        position = operator.index(index)
        if not -len(names) <= position < len(names):
            raise IndexError(
                f"{type(self).__name__}: index {position} is out of range; there are"
                f" {len(names)} modules"
            )
        return names[position]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[self._name_at(index)] = _checked(type(self).__name__, module)

    def append(self: Self, module: Module) -> Self:
        """Add a module at the end; return self."""
        self.add_module(str(len(self)), _checked(type(self).__name__, module))
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before the one at a position."""
        self._insert(index, module)

    def _insert(self, index: int, module: Module) -> None:
        members = self._members()
        count = len(members)
        if not -count <= index <= count:
            raise IndexError(
                f"{type(self).__name__}: index {index} is out of range; there are"
                f" {count} modules"
            )
        members.insert(index, _checked(type(self).__name__, module))
        self._renumber(members)

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; return self.

        Raises
        ------
        TypeError
            If it is not iterable, or holds something else; nothing is added then.
        """
        name = type(self).__name__
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{name}: a {type(modules).__name__} was given; it must be an iterable"
                " of modules"
            )
        for module in [_checked(name, each) for each in modules]:
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove a module by its position; return it."""
        found: Module = self[key]  # type: ignore[index]  # subclasses have it
        del self[key]
        return found

    def _at(self, index: int) -> Module:
        found: Module = self.__dict__[self._name_at(index)]
        return found


class Sequential(_Numbered):
    """Modules applied one after another.

    Parameters
    ----------
    *args : Module, or one mapping of str to Module
        In the order of application; a mapping names them.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    >>> model(fw.zeros((2, 4))).shape
    torch.Size([2, 3])
    >>> model
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        named: Iterable[tuple[str, object]]
        if len(args) == 1 and isinstance(args[0], Mapping):
            named = args[0].items()
        else:
            named = ((str(k), module) for k, module in enumerate(args))
        for name, module in named:
            self.add_module(name, _checked("Sequential", module))

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before the one at a position; return self."""
        self._insert(index, module)
        return self

    def forward(self, input: Any) -> Any:
        """Return `input` after every module in order."""
        for module in self._members():
            input = module(input)
        return input

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> Sequential: ...

    def __getitem__(self, idx: int | slice) -> Module:
        if isinstance(idx, slice):
            space = self.__dict__
            return type(self)({name: space[name] for name in self._names()[idx]})
        return self._at(idx)

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: Sequential) -> Sequential:
        return self.extend([*_sequential(other)])

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*[*self] * _times(other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Sequential:
        return self.extend([*self] * (_times(other) - 1))


class ModuleList(_Numbered):
    """A list of modules whose parameters belong to the module that holds it.

    Parameters
    ----------
    modules : iterable of Module, optional

    Examples
    --------
    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> ModuleList: ...

    def __getitem__(self, idx: int | slice) -> Module:
        if isinstance(idx, slice):
            return type(self)(self._members()[idx])
        return self._at(idx)

    def __iadd__(self: Self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        texts = [repr(each) for each in self._members()]
        name = self._get_name()
        if not texts:
            return f"{name}()"
        starts = [k for k, text in enumerate(texts) if k == 0 or texts[k - 1] != text]
        lines = []
        for start, end in zip(starts, [*starts[1:], len(texts)]):
            text = texts[start]
            if end - start == 1:
                lines.append(f"({start}): {text}")
            else:
                lines.append(f"({start}-{end - 1}): {end - start} x {text}")
        body = "\n".join(textwrap.indent(line, "  ") for line in lines)
        return f"{name}(\n{body}\n)"


class ModuleDict(Module):
    """A dict of modules whose parameters belong to the module that holds it.

    Parameters
    ----------
    modules : mapping of str to Module, or iterable of pairs, optional
        They keep the order in which they come.

    Examples
    --------
    >>> heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Linear(2, 3)})
    >>> heads["b"](fw.zeros((1, 2))).shape
    torch.Size([1, 3])
    """

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        module: Module = self._modules[key]
        return module

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, _checked("ModuleDict", module))

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a module; return it."""
        module: Module = self._modules.pop(key)
        return module

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return pairs of names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]
    ) -> None:
        """Add modules, or replace those of the same name.

        Raises
        ------
        TypeError
            If it is no mapping nor an iterable of pairs, or holds something else.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleDict: a {type(modules).__name__} was given; it must be a"
                " mapping of names to modules, or an iterable of pairs"
            )
        mapped: Any = modules
        pairs = mapped.items() if hasattr(modules, "items") else mapped
        for pair in pairs:
            name, module = pair
            self[name] = module


def _sequential(other: object) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"Sequential: a {type(other).__name__} cannot be added; it must be a"
            " Sequential"
        )
    return other


def _times(count: object) -> int:
    if not isinstance(count, int):
        raise TypeError(
            f"Sequential: it cannot be repeated by a {type(count).__name__}; it must"
            " be an int"
        )
    if count <= 0:
        raise ValueError(f"Sequential: it is repeated {count} times; at least once")
    return count


def _checked(name: str, module: object) -> Module:
    """Return a module, or None, which keeps a place without one."""
    if module is not None and not isinstance(module, Module):
        raise TypeError(
            f"{name}: {type(module).__name__} is no module;"
            " wrap functions in a Module subclass"
        )
    # As for attributes, a module that may be missing has the type of one.
    return cast(Module, module)
