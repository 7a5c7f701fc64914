"""Programs that run on PyTorch and on the library, and must log the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, Device


class Log:
    """Library under test, and what a program has logged with it.

    Attributes
    ----------
    library : module
        `torch` or the framework.
    entries : list
        Values in order; tensors as nested lists.
    """

    def __init__(self, library: Any, place: Any) -> None:
        self.library = library
        self.place = place
        self.entries: list[Any] = []

    def tensor(self, data: Any, grad: bool = True) -> Any:
        """Return a tensor, by default one that requires a gradient."""
        return self.library.tensor(data, device=self.place, requires_grad=grad)

    def add(self, *values: Any) -> None:
        """Log values."""
        self.entries.append(_plain(values))

    def refused(self, call: Callable[[], object]) -> None:
        """Log of which kind the error of a call is."""
        kinds = RuntimeError, TypeError, ValueError, NotImplementedError
        try:
            call()
        except Exception as error:
            self.entries.append([isinstance(error, kind) for kind in kinds])
        else:
            self.entries.append("no error")


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | fw.Tensor):
        return value.detach().tolist()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


def assert_logs_agree(program: Callable[[Log], None], place: Device = CPU) -> None:
    """Run a program with PyTorch and with the library; compare what they log."""
    wanted, found = Log(torch, "cpu"), Log(fw, place)
    program(wanted)
    program(found)
    assert found.entries == wanted.entries
