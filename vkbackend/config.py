"""Every environment switch: name, default, meaning, in one table.

Switches are read when they are needed, not at import, so tests and users may set them
at any time before the first device is opened.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Switch:
    """One environment variable.

    Parameters
    ----------
    name : str
        The variable.
    default : str
        Its value when unset.
    meaning : str
        One sentence for the documentation.
    """

    name: str
    default: str
    meaning: str

    def read(self) -> str:
        """Return the value, or the default when the variable is unset."""
        return os.environ.get(self.name, self.default)

    def enabled(self) -> bool:
        """Return whether the value means *on*: not empty, 0, no, off or false."""
        return self.read().lower() not in ("", "0", "no", "off", "false")


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
VALIDATION = Switch(
    "VKBACKEND_VALIDATION",
    "0",
    "Load the Khronos validation layer and collect its messages; `sync` also checks"
    " synchronization.",
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
)

SWITCHES = (DEVICE, LOADER, GLSLANG, CACHE, VALIDATION, POISON, AUTOTUNE)


def cache_folder() -> Path:
    """Return the folder of everything that is kept on disk; it may not exist yet."""
    chosen = CACHE.read()
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vkbackend"
