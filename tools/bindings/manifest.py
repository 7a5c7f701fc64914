"""Manifest of the Vulkan names to bind, read from a TOML file."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT = Path(__file__).with_name("manifest.toml")


class ManifestError(ValueError):
    """A manifest that asks for something unknown."""


@dataclass(frozen=True)
class Manifest:
    """The roots of what is generated; all they reach comes along.

    Parameters
    ----------
    header_version : int
        The registry version that the generated file is made from.
    extensions : tuple of str
        Extensions wanted whole: types, commands and constants, aliases included.
    commands, structs, constants : tuple of str
        Single names, from core or from any extension.
    opaque : tuple of str
        Types that are named but not described: a pointer to such a structure is a void
        pointer, such an enumeration comes without its values.
    """

    header_version: int
    extensions: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    structs: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()


def read(path: Path = DEFAULT) -> Manifest:
    """Return the manifest in `path`."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Manifest:
    """Return the manifest that a TOML document describes."""
    table = tomllib.loads(text)
    known = {field.name for field in fields(Manifest)}
    if unknown := sorted(set(table) - known):
        raise ManifestError(
            f"manifest: unknown keys: {', '.join(unknown)};"
            f" known are {', '.join(sorted(known))}"
        )
    if "header_version" not in table:
        raise ManifestError("manifest: header_version is missing")
    version = table.pop("header_version")
    return Manifest(version, **{key: tuple(names) for key, names in table.items()})
