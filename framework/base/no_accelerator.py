"""Accelerators of other kinds, as namespaces ask for them: there is none.

The functions of one namespace, as `cuda`, are made by `namespace`: asking, waiting and
freeing are true to a machine without such a device; what needs one raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from vkbackend.errors import NoVulkanError

from .philox import initial_seed


class Accelerator:
    """A kind of device that this library does not use.

    Parameters
    ----------
    kind : str
        Its name, as "cuda".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def is_available(self) -> bool:
        """Return False: there is no device of this kind."""
        return False

    def device_count(self) -> int:
        """Return 0, the number of devices of this kind."""
        return 0

    def is_initialized(self) -> bool:
        """Return False: there is nothing to initialise."""
        return False

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Return False: there is no device of this kind."""
        return False

    def manual_seed(self, seed: int) -> None:
        """Do nothing: one generator draws for every device; see `fw.manual_seed`."""

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing: one generator draws for every device; see `fw.manual_seed`."""

    def seed(self) -> None:
        """Do nothing; see `manual_seed`."""

    def seed_all(self) -> None:
        """Do nothing; see `manual_seed`."""

    def initial_seed(self) -> int:
        """Return the seed of the generator, which draws for every device."""
        return initial_seed()

    def get_arch_list(self) -> list[str]:
        """Return no architectures: the library has no code for this kind."""
        return []

    def get_gencode_flags(self) -> str:
        """Return no flags: the library has no code for this kind."""
        return ""

    def is_tf32_supported(self) -> bool:
        """Return False: there is no device of this kind."""
        return False

    def synchronize(self, device: Any = None) -> None:
        """Do nothing: there is no device to wait for."""

    def empty_cache(self) -> None:
        """Do nothing: there is no memory to free."""

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Do nothing: there is no memory to measure."""

    def memory_allocated(self, device: Any = None) -> int:
        """Return 0 bytes."""
        return 0

    def max_memory_allocated(self, device: Any = None) -> int:
        """Return 0 bytes."""
        return 0

    def memory_reserved(self, device: Any = None) -> int:
        """Return 0 bytes."""
        return 0

    def max_memory_reserved(self, device: Any = None) -> int:
        """Return 0 bytes."""
        return 0

    def device(self, device: Any = None) -> AbstractContextManager[None]:
        """Return a block in which nothing changes, as there is no device to select."""
        return nullcontext()

    def stream(self, stream: Any) -> AbstractContextManager[None]:
        """Return a block in which nothing changes, for None in the place of a stream.

        Raises
        ------
        NoVulkanError
            For anything else: there is no device of this kind that has streams.
        """
        if stream is not None:
            self.absent("stream")()
        return nullcontext()

    def absent(self, name: str) -> Callable[..., NoReturn]:
        """Return a function that needs such a device: it raises `NoVulkanError`."""

        def missing(*args: Any, **kwargs: Any) -> NoReturn:
            raise NoVulkanError(
                f"{self.kind}.{name}: there is no {self.kind} device; this library runs"
                ' on Vulkan devices, device("gpu"), and on the host'
            )

        missing.__name__ = missing.__qualname__ = name
        missing.__doc__ = f"Raise `NoVulkanError`: there is no {self.kind} device."
        return missing
