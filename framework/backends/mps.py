"""Apple's Metal: there is none."""

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def is_available() -> bool:
    """Return False: there is no such device."""
    return False


def is_built() -> bool:
    """Return False: the library does not use Metal."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return False: no system is asked for."""
    return False
