"""Containers: modules of modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from .module import Module


class _Numbered(Module):
    """Modules in order; their names are their positions unless given."""

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        setattr(self, str(len(self)), _checked(type(self).__name__, module))

    def _at(self, index: int) -> Module:
        return list(self.children())[index]


class Sequential(_Numbered):
    """Modules applied one after another.

    Parameters
    ----------
    *modules : Module, or one mapping of str to Module
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

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        named: Iterable[tuple[str, object]]
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = modules[0].items()
        else:
            named = ((str(k), module) for k, module in enumerate(modules))
        for name, module in named:
            setattr(self, name, _checked("Sequential", module))

    def forward(self, x: Any) -> Any:
        """Return `x` after every module in order."""
        for module in self.children():
            x = module(x)
        return x

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> Sequential: ...

    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return Sequential(dict(list(self.named_children())[index]))
        return self._at(index)


class ModuleList(_Numbered):
    """A list of modules whose parameters belong to the module that holds it.

    Parameters
    ----------
    modules : iterable of Module
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    def extend(self, modules: Iterable[Module]) -> None:
        """Add modules at the end."""
        for module in modules:
            self.append(module)

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...

    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return ModuleList(list(self.children())[index])
        return self._at(index)


def _checked(name: str, module: object) -> Module:
    if not isinstance(module, Module):
        raise TypeError(
            f"{name}: {type(module).__name__} is no module;"
            " wrap functions in a Module subclass"
        )
    return module
