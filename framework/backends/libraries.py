"""Libraries of the host that PyTorch may use, and this library does not."""

from __future__ import annotations

__all__ = ["Library", "mha", "mkl", "mkldnn", "openmp", "opt_einsum", "quantized"]


class Library:
    """A library that is not used; what programs set is kept without effect."""

    enabled = False
    verbose = False
    strategy: str | None = None
    engine = "none"
    supported_engines: tuple[str, ...] = ("none",)

    def is_available(self) -> bool:
        """Return False: it is not used."""
        return False

    def get_fastpath_enabled(self) -> bool:
        """Return False: attention has one path."""
        return False

    def set_fastpath_enabled(self, value: bool) -> None:
        """Do nothing: attention has one path."""


mkl = Library()
mkldnn = Library()
openmp = Library()
opt_einsum = Library()
quantized = Library()
mha = Library()
