"""Environment switches: name, default and meaning, in one table.

Switches are read when they are needed, not at import, so tests and users may set them
at any time before the first device is opened.
"""

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from vkbackend.errors import ArgumentError

_ON = ("1", "yes", "on", "true")
_OFF = ("", "0", "no", "off", "false")


@dataclass(frozen=True)
class Switch:
    """Environment variable of the library.

    Parameters
    ----------
    name : str
        The variable.
    default : str
        Its value when unset.
    meaning : str
        One sentence for the documentation.
    words : tuple of str, default ()
        What it may be besides a word for on or off, if it is a choice.
    """

    name: str
    default: str
    meaning: str
    words: tuple[str, ...] = ()

    def read(self) -> str:
        """Return the value, or the default when the variable is unset."""
        return os.environ.get(self.name, self.default)

    def choice(self) -> str:
        """Return the word that was chosen: `1`, `0` or one of `words`.

        Raises
        ------
        ArgumentError
            If the value is none of them.
        """
        word = self.read().strip().lower()
        if word in self.words:
            return word
        if word in (*_ON, *_OFF):
            return str(int(word in _ON))
        raise ArgumentError(
            f"{self.name}: {self.read()!r} is not accepted; give"
            f" {', '.join(('1', '0', *self.words))}"
        )

    def enabled(self) -> bool:
        """Return whether the value means *on*; raises as `choice` does."""
        return self.choice() != "0"


DEVICE = Switch(
    "VKBACKEND_DEVICE", "", "Device to use: an index, part of a name, or `cpu`."
)
LOADER = Switch("VKBACKEND_LOADER", "", "Path of the Vulkan loader library.")
GLSLANG = Switch(
    "VKBACKEND_GLSLANG", "", "GLSL compiler: a shared glslang library or an executable."
)
CACHE = Switch(
    "VKBACKEND_CACHE", "", "Cache folder; empty means the user's cache folder."
)
CACHE_SIZE = Switch(
    "VKBACKEND_CACHE_SIZE",
    "1G",
    "Most bytes that the cache may grow to, as `512M`; what was used the longest ago"
    " goes first. `0` sets no limit.",
)
VALIDATION = Switch(
    "VKBACKEND_VALIDATION",
    "0",
    "Load the Khronos validation layer and collect its messages; `sync` also checks"
    " synchronization.",
    ("sync",),
)
POISON = Switch(
    "VKBACKEND_POISON",
    "0",
    "Fill fresh device memory with NaN, to find missing writes.",
)
AUTOTUNE = Switch(
    "VKBACKEND_AUTOTUNE",
    "kept",
    "`1` measures the candidates for a kernel on first use and keeps the verdicts;"
    " `kept` uses verdicts from earlier; `0` uses none.",
    ("kept",),
)

SWITCHES = (
    *(DEVICE, LOADER, GLSLANG, CACHE, CACHE_SIZE),
    *(VALIDATION, POISON, AUTOTUNE),
)

_SIZE = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:I?B)?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def cache_folder() -> Path:
    """Return the folder of everything that is kept on disk; it may not exist yet.

    Raises
    ------
    ArgumentError
        If it is to lie in the home of a user who is not known.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return _folder(CACHE.read(), base, tuple(map(os.environ.get, _HOMES)))


_HOMES = ("HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH")
"""Variables that `os.path.expanduser` reads."""


@functools.lru_cache(maxsize=8)
def _folder(chosen: str, base: str, homes: tuple[str | None, ...]) -> Path:
    """Return the folder for values of the environment."""
    # An empty or relative XDG_CACHE_HOME counts as unset (XDG base directories).
    default = Path(base if os.path.isabs(base) else "~/.cache") / "vkbackend"
    folder = os.path.expanduser(chosen or default)
    if folder.startswith("~"):
        raise ArgumentError(
            f"{CACHE.name}: {folder!r} lies in a home that is not known; give the path"
            " of a folder"
        )
    return Path(folder)


def cache_size(text: str | None = None) -> int:
    """Return the most bytes that the cache may grow to; 0 is no limit.

    Parameters
    ----------
    text : str, optional
        The size in words; None reads the switch.

    Raises
    ------
    ArgumentError
        If the value is no size.
    """
    text = CACHE_SIZE.read() if text is None else text
    found = _SIZE.fullmatch(text.strip().upper())
    if found is None:
        raise ArgumentError(
            f"{CACHE_SIZE.name}: {text!r} is no size; give bytes, with K,"
            " M, G or T, as 512M, or 0 for no limit"
        )
    return int(found[1]) * _UNITS[found[2]]
