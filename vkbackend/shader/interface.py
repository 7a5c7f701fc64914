"""Shader interface validation: pipeline layout, device features and limits.

Drivers do not validate: a module that exceeds the device's features or limits may crash
the process. Every module is validated here before a driver sees it.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vkbackend.driver import features
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.errors import ArgumentError, ShaderError

from .reflection import MAX_DEPTH, ShaderModule, module_of, read_tables
from .spirv_reader import (
    EXECUTION_MODEL_GL_COMPUTE,
    FLOAT_KINDS,
    Decoration,
    ModuleTables,
    Opcode,
    SpirvInstruction,
    Storage,
)
from .variable_sizes import TypeSizes

Constant = bool | int | float

PUSH_SIZE = 128
"""Bytes of push constants: the guaranteed minimum, which lavapipe has exactly."""

MAX_PRIVATE_BYTES = 1 << 16
"""Bytes of variables of one invocation: far above what any kernel needs. Software
devices keep those of a whole vector of invocations on the stack of a thread."""

_NEWEST_SPIRV = (1, 6)
"""What Vulkan 1.3 takes."""

_ALLOWED = (
    *(Storage.WORKGROUP, Storage.PRIVATE, Storage.FUNCTION),
    Storage.PUSH_CONSTANT,
)
_BUFFERS = {
    Storage.UNIFORM: "uniform buffer",
    Storage.STORAGE_BUFFER: "storage buffer",
}
_PLAIN = {Storage.INPUT: "input", Storage.OUTPUT: "output"}
_OPAQUE = {
    Opcode.TYPE_SAMPLER: "sampler",
    Opcode.TYPE_ACCELERATION_STRUCTURE: "acceleration structure",
}
_WRAPPERS = (Opcode.TYPE_ARRAY, Opcode.TYPE_RUNTIME_ARRAY, Opcode.TYPE_SAMPLED_IMAGE)
_IMAGES = {5: "texel buffer", 6: "subpass input"}
"""Images that have a name of their own, by SPIR-V's number of the dimensionality."""

# NumWorkgroups to LocalInvocationIndex, sizes, ids and masks of subgroups, DeviceIndex.
_BUILT_INS = {*range(24, 30), 36, 38, 40, 41, *range(4416, 4421), 4438}


class ValidatedModule(NamedTuple):
    """A module validated for a device.

    Attributes
    ----------
    module : ShaderModule
    values : mapping of int to bool, int or float
        Specialization constants by their `constant_id`.
    workgroup : tuple of int
        Invocations in x, y and z.
    """

    module: ShaderModule
    values: dict[int, Constant]
    workgroup: tuple[int, int, int]


def validate_module(
    name: str, words: bytes, constants: Mapping[str, Constant], info: DeviceInfo
) -> ValidatedModule:
    """Return a module validated for a device, or fail before the driver sees it.

    Parameters
    ----------
    name : str
        What errors call the shader.
    words : bytes
        SPIR-V.
    constants : mapping of str to bool, int or float
        Specialization constants by name.
    info : DeviceInfo
        Of the device that is to take it.

    Raises
    ------
    ArgumentError
        If a constant is unknown, or the workgroup exceeds the device's limits.
    ShaderError
        If the module is broken, or asks for what the one pipeline layout does not have
        or the device lacks: descriptors, features, memory.
    """
    with _named(name):
        tables = read_tables(words)
    check_interface(name, tables)
    with _named(name):
        module = module_of(words, tables)
    values = constant_values(name, module, constants)
    _check_features(name, module, info)
    workgroup = _workgroup(name, module, values, info)
    _check_kinds(name, module, values)
    with _named(name):
        sizes = TypeSizes(tables, values)
        _check_memory(module, tables, sizes, info)
    return ValidatedModule(module, values, workgroup)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Let errors of the block, which tell a place in a module, begin with its name."""
    try:
        yield
    except ShaderError as error:
        raise ShaderError(f"{name}: {error}") from None


def check_interface(name: str, tables: ModuleTables) -> None:
    """Refuse resources outside the one pipeline layout, by the variable's name."""
    models = [entry.operands[0] for entry in tables.entries]
    if models != [EXECUTION_MODEL_GL_COMPUTE]:
        found = ", ".join(map(str, models)) or "none"
        raise ShaderError(
            f"{name}: the module's entry points are of the execution models {found};"
            f" there must be one, of model {EXECUTION_MODEL_GL_COMPUTE} (GLCompute)"
        )
    if "\ufffd" in tables.entries[0].text(2):
        raise ShaderError(f"{name}: the entry point's name is no UTF-8; call it main")
    pushes = 0
    for variable in tables.variables:
        storage = variable.operands[2]
        pushes += storage == Storage.PUSH_CONSTANT
        if storage not in _ALLOWED and not _is_built_in(variable, tables):
            raise ShaderError(f"{name}: {_unsupported_reason(variable, tables)}")
    if pushes > 1:
        raise ShaderError(f"{name}: there are {pushes} push_constant blocks, not one")


def _is_built_in(variable: SpirvInstruction, tables: ModuleTables) -> bool:
    key = variable.operands[1], Decoration.BUILT_IN
    is_input = variable.operands[2] == Storage.INPUT
    return is_input and tables.decorations.get(key) in _BUILT_INS


def _unsupported_reason(variable: SpirvInstruction, tables: ModuleTables) -> str:
    """Return what is wrong with a variable that no layout serves."""
    pointer, number, storage = variable.operands[:3]
    target = _pointee_of(pointer, tables)
    name = tables.names.get(number) or ""
    if not name and target is not None:
        name = tables.names.get(target.operands[0], "")
    shown = f"`{name or f'%{number}'}`"
    if storage in _PLAIN:
        built_in = tables.decorations.get((number, Decoration.BUILT_IN))
        which = "" if built_in is None else f", built-in {built_in}"
        return (
            f"{shown} is an {_PLAIN[Storage(storage)]} variable{which}, which compute"
            " shaders do not have; pass values as push constants"
        )
    if storage not in (*_BUFFERS, Storage.UNIFORM_CONSTANT):
        return (
            f"{shown} is a variable of storage class {storage}, which is not accepted"
        )
    places = (("set", Decoration.DESCRIPTOR_SET), ("binding", Decoration.BINDING))
    where = [(word, tables.decorations.get((number, key))) for word, key in places]
    place = ", ".join(f"{word} {at}" for word, at in where if at is not None)
    kind = _kind(storage, target)
    return (
        f"{shown} is {'an' if kind[0] in 'aeio' else 'a'} {kind} in a descriptor"
        f" ({place or 'without binding'}); there are no descriptor sets: declare a"
        " buffer_reference and pass its address in the push_constant block"
    )


def _pointee_of(pointer_id: int, tables: ModuleTables) -> SpirvInstruction | None:
    """Return the pointee type of a pointer, or the element of an array behind it."""
    target = tables.types.get(pointer_id)
    for _ in range(MAX_DEPTH):
        if target is None:
            break
        if target.opcode == Opcode.TYPE_POINTER:
            target = tables.types.get(target.require(3)[2])
        elif target.opcode in _WRAPPERS:
            target = tables.types.get(target.require(2)[1])
    return target


def _kind(storage: int, target: SpirvInstruction | None) -> str:
    """Return the kind of a descriptor."""
    if storage in _BUFFERS:
        return _BUFFERS[Storage(storage)]
    if target is None:
        return "resource"
    if target.opcode == Opcode.TYPE_IMAGE:
        _, _, dimensions, _, _, _, sampled = target.require(7)[:7]
        plain = "storage image" if sampled == 2 else "sampled image"
        return _IMAGES.get(dimensions, plain)
    return _OPAQUE.get(Opcode(target.opcode), "resource")


def _check_features(name: str, module: ShaderModule, info: DeviceInfo) -> None:
    if module.version > _NEWEST_SPIRV:
        raise ShaderError(
            f"{name}: the module is SPIR-V {module.version[0]}.{module.version[1]}; at"
            f" most {_NEWEST_SPIRV[0]}.{_NEWEST_SPIRV[1]} is accepted"
        )
    missing_features = features.missing_features(
        module.capabilities, info.supported, info.subgroup_operations
    )
    if missing_features:
        raise ShaderError(
            f"{name}: the shader needs what {info.name} lacks:"
            f" {', '.join(missing_features)}; use a variant without, or another device"
        )


def constant_values(
    name: str, module: ShaderModule, constants: Mapping[str, Constant]
) -> dict[int, Constant]:
    """Return constant values by id, or fail with the names that exist."""
    known = {row.name: row for row in module.spec_constants}
    unknown = [key for key in constants if key not in known]
    if unknown:
        raise ArgumentError(
            f"{name}: unknown constants: {', '.join(unknown)}; the shader has"
            f" {', '.join(known) or 'none'}"
        )
    return {known[key].id: _as_python(value) for key, value in constants.items()}


def _as_python(value: Constant) -> Constant:
    """Return a number or truth value of NumPy as one of Python."""
    given: Any = value
    if getattr(given, "shape", None) == ():
        given = given.item()
    is_plain = isinstance(given, bool | int | float) or not hasattr(given, "__index__")
    plain: Constant = given if is_plain else operator.index(given)
    return plain


def _check_kinds(
    name: str, module: ShaderModule, values: Mapping[int, Constant]
) -> None:
    for row in module.spec_constants:
        value = values.get(row.id, row.default)
        is_float = row.type in FLOAT_KINDS.values()
        if not isinstance(value, int | float if is_float else int):
            raise ArgumentError(
                f"{name}: constant {row.name}: {value!r} does not fit; it is of type"
                f" {row.type}"
            )


def _workgroup(
    name: str, module: ShaderModule, values: Mapping[int, Constant], info: DeviceInfo
) -> tuple[int, int, int]:
    """Return the workgroup's size, checked against the device's limits."""
    x, y, z = (
        size if number is None else values.get(number, size)
        for size, number in zip(module.workgroup_size, module.workgroup_ids)
    )
    limits = info.max_workgroup_size
    whole = all(isinstance(size, int) for size in (x, y, z))
    too_wide = any(n > limit for n, limit in zip((x, y, z), limits, strict=True))
    if (
        not whole
        or min(x, y, z) < 1
        or too_wide
        or x * y * z > info.max_workgroup_invocations
    ):
        raise ArgumentError(
            f"{name}: the workgroup does not fit: ({x}, {y}, {z}); {info.name}"
            f" allows {limits}, {info.max_workgroup_invocations} invocations in all"
        )
    return int(x), int(y), int(z)


def _check_memory(
    module: ShaderModule, tables: ModuleTables, sizes: TypeSizes, info: DeviceInfo
) -> None:
    """Refuse variables that are larger than what the device has for them."""
    shared = Storage.WORKGROUP
    size = 0 if module.push is None else module.push.size
    size = max(size, sizes.total(Storage.PUSH_CONSTANT))
    if size > PUSH_SIZE:
        raise ShaderError(
            f"the push block is too large: {size} bytes; at"
            f" most {PUSH_SIZE} bytes; move the arguments to a buffer_reference"
            f" block and push one field named `args` that points to it"
        )
    size = sizes.total(shared)
    if size > info.max_shared_memory:
        rows = [row for row in tables.variables if row.operands[2] == shared]
        largest = max(rows, key=sizes.of)
        raise ShaderError(
            f"shared memory is too large: {size} bytes, of which"
            f" `{tables.names.get(largest.operands[1], '')}` has {sizes.of(largest)};"
            f" {info.name} has {info.max_shared_memory} bytes for a workgroup"
        )
    size = sizes.total(Storage.PRIVATE) + sizes.total(Storage.FUNCTION)
    if size > MAX_PRIVATE_BYTES:
        raise ShaderError(
            f"an invocation has too many variables: {size} bytes; at most"
            f" {MAX_PRIVATE_BYTES} bytes are accepted: keep large arrays in a buffer"
        )
