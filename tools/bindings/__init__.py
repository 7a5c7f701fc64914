"""Binding generator: the Vulkan registry and a manifest in, ctypes text out."""

from pathlib import Path

from . import closure, emit, manifest, registry
from .manifest import Manifest, ManifestError
from .registry import Registry, RegistryError

__all__ = ["Manifest", "ManifestError", "Registry", "RegistryError", "generate"]


def generate(registry_path: Path, wanted: Manifest | None = None) -> str:
    """Return the text of `vkbackend/vk/generated.py`.

    Parameters
    ----------
    registry_path : Path
        `vk.xml`, plain or compressed with gzip.
    wanted : Manifest, optional
        What to generate; the manifest beside this module by default.

    Raises
    ------
    ManifestError
        If the manifest names something the registry lacks or pins another version.
    """
    wanted = wanted or manifest.read()
    known = registry.read(registry_path)
    if known.header_version != wanted.header_version:
        raise ManifestError(
            f"{registry_path}: header version is {known.header_version};"
            f" the manifest pins {wanted.header_version}"
        )
    return emit.emit(known, closure.select(known, wanted), wanted)
