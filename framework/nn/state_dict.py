"""State dict loading: what is given is checked, then copied, or nothing is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..autograd.grad_mode import no_grad
from ..base import trace_hooks
from ..base.errors import StateError
from ..eager.base_tensor import evaluate
from ..tensor.from_data import tensor
from ..tensor.inplace import restorer, transaction
from ..tensor.tensor import Tensor
from .parameter import Parameter


class _IncompatibleKeys(NamedTuple):
    """Keys of `load_state_dict` without a counterpart."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys},"
            f" unexpected_keys={self.unexpected_keys})"
        )


IncompatibleKeys = _IncompatibleKeys


class Loading(list[str]):
    """Errors of a state that is being loaded, and what is to be done without any.

    Attributes
    ----------
    copies : list of (Tensor, Tensor)
        Tensors of modules, and what is copied into them.
    replaced : list of (Module, str, Tensor)
        Modules, attributes, and the tensors that take their places.
    actions : list of callable
        Called after that: what hooks and modules do with the loaded state.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[Tensor, Tensor]] = []
        self.replaced: list[tuple[Any, str, Tensor]] = []
        self.actions: list[Callable[[], object]] = []

    def take(
        self, module: Any, name: str, key: str, given: object, assign: bool
    ) -> None:
        """Plan that an attribute of a module gets a value, or note why it cannot."""
        own = module.__dict__[name]
        value = tensor_of(given)
        if value is None:
            self.append(f"`{key}` is of type {type(given).__name__}, not a tensor")
        elif value.shape != own.shape:
            self.append(
                f"`{key}` is {tuple(value.shape)}, the module's is {tuple(own.shape)}"
            )
        elif assign:
            self.replaced.append((module, name, value))
        else:
            self.copies.append((own, value))

    def finish(self, where: str, check: Callable[[], None]) -> None:
        """Do what is planned, all of it or nothing.

        Parameters
        ----------
        where : str
            Begin of error messages.
        check : callable
            Called at the end; raises if the state does not fit after all.
        """
        if self:
            raise StateError(f"{where}: {'; '.join(self)}; shapes must be equal")
        targets = [own for own, _ in self.copies]
        with no_grad():
            # Conversions may fail, so they come first: no part is loaded alone.
            ready = [each.to(own.device).to(own.dtype) for own, each in self.copies]
            if ready and not trace_hooks.running:
                evaluate(*ready)
            before = [
                (each, name, each.__dict__[name]) for each, name, _ in self.replaced
            ]

            def change() -> None:
                for own, new in zip(targets, ready):
                    own.copy_(new)
                for module, name, given in self.replaced:
                    setattr(module, name, _like(module.__dict__[name], given))
                for action in self.actions:
                    action()
                check()

            restore = restorer(targets)

            def undo() -> None:
                restore()
                for module, name, old in before:
                    setattr(module, name, old)

            transaction(change, undo)
        # At once: a step that fails must not take the loaded values with it.
        if targets:
            evaluate(*targets)


def _like(own: Tensor, given: Tensor) -> Tensor:
    """Return what takes the place of an attribute: a parameter for a parameter."""
    if not isinstance(own, Parameter):
        return given
    if isinstance(given, Parameter):
        return given.requires_grad_(own.requires_grad)
    return Parameter(given, own.requires_grad)


def tensor_of(value: object) -> Tensor | None:
    """Return a value of a state as a tensor: arrays, and PyTorch's tensors, are taken.

    None stands for what is neither.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return tensor(np.array(value))
    if type(value).__module__.partition(".")[0] == "torch":
        foreign: Any = value
        if not hasattr(foreign, "detach"):
            return None
        host = foreign.detach().cpu()
        # NumPy has no bfloat16; its numbers are exact in float32.
        wide = host.float() if str(host.dtype) == "torch.bfloat16" else host
        found = tensor(np.array(wide.numpy()))
        return found.bfloat16() if wide is not host else found
    return None


def check_mapping(where: str, state: object) -> None:
    """Raise `TypeError` if a state is no mapping."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"{where}: it is of type {type(state).__name__};"
            " it must be a dict of tensors, as state_dict() gives"
        )
