"""Transitive closure of the manifest's names over the registry."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .manifest import Manifest, ManifestError
from .registry import Declaration, Enumeration, Prototype, Registry, RegistryError

C_TYPES = {
    "char": "c_char",
    "double": "c_double",
    "float": "c_float",
    "int": "c_int",
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "size_t": "c_size_t",
    "uint16_t": "c_uint16",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
    "uint8_t": "c_uint8",
    "void": "None",
}


@dataclass
class Selection:
    """The names to emit, each group in the order it is emitted in.

    `described` orders structures, unions and function-pointer types so that each comes
    after what it needs.
    """

    extensions: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    enumerations: list[str] = field(default_factory=list)
    handles: list[str] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    type_aliases: list[str] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    commands: list[str] = field(default_factory=list)


def select(registry: Registry, manifest: Manifest) -> Selection:
    """Return what the manifest's names reach in the registry."""
    walk = _Closure(registry, manifest)
    for name in (
        *manifest.extensions,
        *manifest.commands,
        *manifest.structs,
        *manifest.constants,
    ):
        walk.want(name)
    return walk.result()


class _Closure:
    """Depth-first transitive closure over declarations."""

    def __init__(self, registry: Registry, manifest: Manifest) -> None:
        self.registry = registry
        self.opaque = set(manifest.opaque)
        self.wanted = {*manifest.extensions, *registry.versions}
        self.values = _values_by_name(registry.enumerations.values())
        self.types = {
            *registry.types,
            *registry.handles,
            *registry.structs,
            *registry.callbacks,
            *registry.enumerations,
        }
        self.seen: set[str] = set()
        self.active: list[str] = []
        self.described: list[str] = []
        self.extensions: list[str] = []

    def want(self, name: str) -> None:
        """Take a name that the manifest or a wanted extension lists."""
        registry = self.registry
        current = registry.resolve(name)
        if name in registry.extensions:
            self._want_extension(name)
        elif current in registry.commands:
            self.seen.add(name)
            self._reach_prototype(registry.commands[current])
        elif name in registry.constants or name in self.values:
            self.seen.add(name)
        elif current in self.types:
            self.reach(current)
            self.seen.add(name)
        else:
            raise ManifestError(
                f"manifest: {name} is not in the registry (header"
                f" {registry.header_version}), is disabled, or is not for this API"
            )

    def reach(self, name: str) -> None:
        """Take a type, and the types that its description needs, before it."""
        registry = self.registry
        name = registry.resolve(name)
        if name in self.active:
            path = " -> ".join([*self.active, name])
            raise RegistryError(f"{name}: refers to itself: {path}; make it opaque")
        if name in self.seen or name in C_TYPES:
            return
        if name not in self.types:
            raise RegistryError(f"{name}: a platform's type or an unknown one")
        self.seen.add(name)
        if name in registry.types:
            self.reach(registry.types[name].base)
            if name in registry.flag_bits:
                self.reach(registry.flag_bits[name])
        elif name not in self.opaque and name not in registry.handles:
            self._describe(name)

    def _describe(self, name: str) -> None:
        self.active.append(name)
        if name in self.registry.structs:
            struct = self.registry.structs[name]
            self.seen.add(struct.structure_type)
            self._reach_declarations(struct.members)
            self.described.append(name)
        elif name in self.registry.callbacks:
            self._reach_prototype(self.registry.callbacks[name])
            self.described.append(name)
        self.active.pop()

    def _reach_prototype(self, prototype: Prototype) -> None:
        self._reach_declarations((prototype.result, *prototype.parameters))

    def _reach_declarations(self, declarations: Iterable[Declaration]) -> None:
        for declaration in declarations:
            self.seen.update(size for size in declaration.sizes if not size.isdecimal())
            self.reach(declaration.base)

    def _want_extension(self, name: str) -> None:
        self.extensions.append(name)
        for requirement in self.registry.extensions[name].requirements:
            if not _dependency_met(requirement.depends, self.wanted):
                continue
            for required in requirement.names:
                if not required.endswith("_SPEC_VERSION"):
                    self.want(required)

    def result(self) -> Selection:
        """Return what was seen, in the registry's order."""
        registry, seen, types = self.registry, self.seen, self.types
        if unused := sorted(self.opaque - seen):
            raise ManifestError(
                f"manifest: opaque names that nothing reaches: {', '.join(unused)}"
            )
        aliases = [name for name in registry.aliases if name in seen]
        return Selection(
            extensions=sorted(self.extensions),
            constants=[name for name in registry.constants if name in seen],
            scalars=[name for name in registry.types if name in seen],
            enumerations=[name for name in registry.enumerations if name in seen],
            handles=[name for name in registry.handles if name in seen],
            described=self.described,
            type_aliases=[name for name in aliases if registry.resolve(name) in types],
            values=seen & self.values,
            commands=sorted(
                name for name in seen if registry.resolve(name) in registry.commands
            ),
        )


def _values_by_name(enumerations: Iterable[Enumeration]) -> set[str]:
    names: set[str] = set()
    for enumeration in enumerations:
        names.update(enumeration.values, enumeration.aliases)
    return names


def _dependency_met(depends: str, wanted: set[str]) -> bool:
    """Return whether a dependency holds: `+` is and, `,` is or, from left to right."""
    tokens = iter(re.findall(r"[\w:]+|[+,()]", depends))

    def expression() -> bool:
        value = term()
        for operator in tokens:
            if operator == ")":
                break
            right = term()
            value = (value and right) if operator == "+" else (value or right)
        return value

    def term() -> bool:
        token = next(tokens)
        return expression() if token == "(" else token in wanted

    return expression() if depends else True
