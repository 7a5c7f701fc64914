"""Registry reader: the Vulkan registry (vk.xml) as plain records.

Only the `vulkan` API is read: entries marked for Vulkan SC alone, disabled extensions
and everything they add are left out. Nothing is chosen here; see `closure`.
"""

import gzip
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

API = "vulkan"
EXTENSION_BASE = 1_000_000_000  # first value given out to extensions
EXTENSION_RANGE = 1_000  # values reserved for each extension


class RegistryError(ValueError):
    """A registry that says something this generator does not understand."""


@dataclass(frozen=True)
class Declaration:
    """C declaration: a member, a parameter or a result.

    Parameters
    ----------
    name : str
        What is declared; empty for a result.
    base : str
        The C type with pointers and array sizes taken off.
    pointers : int, default 0
        How many `*` stand before the name.
    sizes : tuple of str, default ()
        Array sizes, numbers or constant names, outermost first.
    bits : int, default 0
        Width of a bit field; 0 for ordinary members.
    """

    name: str
    base: str
    pointers: int = 0
    sizes: tuple[str, ...] = ()
    bits: int = 0


@dataclass(frozen=True)
class Struct:
    """A structure or union, and the VkStructureType value that marks it."""

    name: str
    members: tuple[Declaration, ...]
    is_union: bool = False
    structure_type: str = ""


@dataclass
class Enumeration:
    """An enumerated type, or the bits of a flag type, with everything added to it."""

    name: str
    is_flags: bool = False
    width: int = 32
    values: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Prototype:
    """A command or a function-pointer type."""

    name: str
    result: Declaration
    parameters: tuple[Declaration, ...]


@dataclass(frozen=True)
class DependentNames:
    """Names that an extension brings, once `depends` holds."""

    depends: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Extension:
    """An enabled extension: `kind` is "instance" or "device"."""

    name: str
    kind: str
    requirements: tuple[DependentNames, ...]


@dataclass
class Registry:
    """Registry content that the generator uses, in the registry's order.

    `types` maps base types and flag types to the type behind them, `aliases` maps old
    names of types and commands to current ones, `flag_bits` maps a flag type to the
    enumeration of its bits, and `constants` holds API constants and header strings.
    """

    header_version: int = 0
    types: dict[str, Declaration] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    handles: dict[str, bool] = field(default_factory=dict)
    flag_bits: dict[str, str] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    callbacks: dict[str, Prototype] = field(default_factory=dict)
    enumerations: dict[str, Enumeration] = field(default_factory=dict)
    constants: dict[str, int | str] = field(default_factory=dict)
    commands: dict[str, Prototype] = field(default_factory=dict)
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    extensions: dict[str, Extension] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """Return the current name of a type or command that may be an alias."""
        while name in self.aliases:
            name = self.aliases[name]
        return name


def read(path: Path) -> Registry:
    """Return the registry in `path`, which may be compressed with gzip."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return parse(data)


def parse(text: str | bytes) -> Registry:
    """Return the registry that an XML document describes."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise RegistryError(f"registry: not well-formed XML: {error}") from error
    registry = Registry()
    for element in _entries(root, "types/type"):
        _read_type(registry, element)
    for element in _entries(root, "enums"):
        _read_enums(registry, element)
    for element in _entries(root, "commands/command"):
        _read_command(registry, element)
    for element in _entries(root, "feature"):
        major, minor = element.attrib["number"].split(".")
        registry.versions[element.attrib["name"]] = (int(major), int(minor))
        _read_requirements(registry, element, number=0)
    for element in root.iterfind("extensions/extension"):
        if API in element.get("supported", "").split(","):
            _read_extension(registry, element)
    return registry


def _entries(parent: ET.Element, path: str) -> Iterator[ET.Element]:
    """Yield the children that belong to this API."""
    for element in parent.iterfind(path):
        if API in element.get("api", API).split(","):
            yield element


def _name(element: ET.Element) -> str:
    return element.get("name") or element.findtext("name") or ""


def _read_type(registry: Registry, element: ET.Element) -> None:
    name, category = _name(element), element.get("category")
    if "alias" in element.attrib:
        registry.aliases[name] = element.attrib["alias"]
    elif category == "define" and name == "VK_HEADER_VERSION":
        registry.header_version = int("".join(element.itertext()).split()[-1])
    elif category == "handle":
        macro = element.findtext("type") or ""
        registry.handles[name] = macro == "VK_DEFINE_HANDLE"
    elif category in ("basetype", "bitmask"):
        if element.find("type") is not None:
            registry.types[name] = _declaration(element)
        bits = element.get("requires") or element.get("bitvalues")
        if category == "bitmask" and bits:
            registry.flag_bits[name] = bits
    elif category == "funcpointer" and element.find("proto") is not None:
        prototype = _prototype(element)
        registry.callbacks[prototype.name] = prototype
    elif category in ("struct", "union"):
        registry.structs[name] = _struct(element, name, category == "union")


def _struct(element: ET.Element, name: str, is_union: bool) -> Struct:
    members = tuple(_entries(element, "member"))
    structure_type = next(
        (m.get("values", "") for m in members if m.findtext("name") == "sType"), ""
    )
    declarations = tuple(_declaration(member) for member in members)
    return Struct(name, declarations, is_union, structure_type)


def _declaration(element: ET.Element) -> Declaration:
    """Read `const <type>T</type>* <name>n</name>[<enum>SIZE</enum>]` and its kin."""
    base = element.find("type")
    if base is None or not base.text:
        raise RegistryError(f"{_name(element)}: a declaration without a type")
    parts = []
    for child in element:
        if child.tag not in ("type", "name", "comment"):
            parts.append(child.text or "")
        parts.append(child.tail or "")
    text = "".join(parts)
    bits = re.search(r":(\d+)", text)
    return Declaration(
        name=element.findtext("name") or "",
        base=base.text,
        pointers=text.count("*"),
        sizes=tuple(re.findall(r"\[(\w+)\]", text)),
        bits=int(bits.group(1)) if bits else 0,
    )


def _prototype(element: ET.Element) -> Prototype:
    proto = element.find("proto")
    if proto is None:
        raise RegistryError(f"{_name(element)}: a command without a prototype")
    declared = _declaration(proto)
    result = Declaration("", declared.base, declared.pointers)
    parameters = tuple(_declaration(p) for p in _entries(element, "param"))
    return Prototype(declared.name, result, parameters)


def _read_command(registry: Registry, element: ET.Element) -> None:
    if "alias" in element.attrib:
        registry.aliases[_name(element)] = element.attrib["alias"]
    else:
        prototype = _prototype(element)
        registry.commands[prototype.name] = prototype


def _read_enums(registry: Registry, element: ET.Element) -> None:
    name, kind = element.attrib["name"], element.get("type")
    if kind == "constants":
        for entry in _entries(element, "enum"):
            _add_constant(registry, entry)
        return
    width = int(element.get("bitwidth", "32"))
    registry.enumerations[name] = Enumeration(name, kind == "bitmask", width)
    for entry in _entries(element, "enum"):
        _add_value(registry.enumerations[name], entry, number=0)


def _read_extension(registry: Registry, element: ET.Element) -> None:
    name = element.attrib["name"]
    requirements = _read_requirements(registry, element, int(element.attrib["number"]))
    registry.extensions[name] = Extension(name, element.get("type", ""), requirements)


def _read_requirements(
    registry: Registry, element: ET.Element, number: int
) -> tuple[DependentNames, ...]:
    """Add the values of a feature or extension; return the names it brings."""
    requirements = []
    for require in _entries(element, "require"):
        names = []
        for entry in _entries(require, "*"):
            if entry.tag not in ("type", "command", "enum"):
                continue
            names.append(_name(entry))
            if entry.tag != "enum":
                continue
            if "extends" in entry.attrib:
                enumeration = registry.enumerations[entry.attrib["extends"]]
                _add_value(enumeration, entry, number)
            elif {"value", "alias"} & set(entry.attrib):
                _add_constant(registry, entry)
        requirements.append(DependentNames(require.get("depends", ""), tuple(names)))
    return tuple(requirements)


def _add_constant(registry: Registry, entry: ET.Element) -> None:
    name, text = entry.attrib["name"], entry.get("value", "")
    inverted = re.fullmatch(r"\(~(\d+)U(LL)?\)", text)
    if text.startswith('"'):
        registry.constants[name] = text.strip('"')
    elif inverted:
        mask = 0xFFFF_FFFF_FFFF_FFFF if inverted.group(2) else 0xFFFF_FFFF
        registry.constants[name] = mask & ~int(inverted.group(1))
    elif text.isdecimal():
        registry.constants[name] = int(text)


def _add_value(enumeration: Enumeration, entry: ET.Element, number: int) -> None:
    """Add one value; `number` is the extension that adds it, 0 for core."""
    name = entry.attrib["name"]
    if "alias" in entry.attrib:
        enumeration.aliases[name] = entry.attrib["alias"]
        return
    value = _value(entry, number)
    if enumeration.values.setdefault(name, value) != value:
        known = enumeration.values[name]
        raise RegistryError(f"{name}: two values: {known} and {value}")


def _value(entry: ET.Element, number: int) -> int:
    if "bitpos" in entry.attrib:
        return 1 << int(entry.attrib["bitpos"])
    if "value" in entry.attrib:
        return int(entry.attrib["value"], 0)
    block = int(entry.get("extnumber", number)) - 1
    offset = int(entry.attrib["offset"])
    value = EXTENSION_BASE + block * EXTENSION_RANGE + offset
    return -value if entry.get("dir") == "-" else value
