"""Libraries of the host that PyTorch may use, and this library does not."""


class Library:
    """A library that is not used."""

    enabled = False
    verbose = False

    def is_available(self) -> bool:
        """Return False: it is not used."""
        return False


mkl = Library()
mkldnn = Library()
openmp = Library()
