"""Parameters and modules of a model by name."""

from __future__ import annotations

from .. import nn


def tied_parameters(model: nn.Module) -> dict[str, str]:
    """Return the names of parameters that are others, with the names of those."""
    first: dict[int, str] = {}
    tied: dict[str, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        if known != name:
            tied[name] = known
    return tied


def set_parameter(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Make a parameter the one under a name."""
    owner, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(owner), attribute, parameter)


def set_module(model: nn.Module, name: str, module: nn.Module) -> None:
    """Make a module the one under a name."""
    owner, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(owner), attribute, module)
