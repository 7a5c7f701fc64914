"""SPIR-V reflection: names, block layouts, specialization constants.

The push-constant layout comes from here and nowhere else, so host and shader cannot
disagree. Nothing in a module is trusted: every id and count is checked, and work is
bounded by the module's size and by the limits below.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from vkbackend.errors import ShaderError

from .spirv_reader import (
    BUILT_IN_WORKGROUP_SIZE,
    FORMATS,
    Decoration,
    Mode,
    ModuleTables,
    Opcode,
    SpirvInstruction,
)

MAX_BLOCK_SIZE = 16384
"""Most bytes, and most scalars, of a block: far above what any kernel needs."""

MAX_DEPTH = 8
"""Most levels of structs and arrays in a block."""

_WORKGROUP_NAMES = ("LOCAL_X", "LOCAL_Y", "LOCAL_Z")
"""Names of the constants behind `local_size_x_id` and so on, which have none."""

_Ids = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class Field:
    """Field: one scalar of a block.

    Parameters
    ----------
    name : str
        The member's name; `name[i]` for elements, `outer.inner` in nested structs.
    offset : int
        Bytes from the start of the block.
    kind : str
        `address`, or a scalar: `uint`, `int`, `float`, `uint64`, `int64`, `double`,
        `uint16`, `int16`, `float16`, `uint8`, `int8`.
    size : int
        Bytes.
    """

    name: str
    offset: int
    kind: str
    size: int


@dataclass(frozen=True)
class BlockLayout:
    """Layout of a push-constant or argument block: scalars in declaration order.

    Parameters
    ----------
    size : int
        Bytes up to the end of the last scalar.
    fields : tuple of Field
        Arrays, vectors and structs are flattened.
    rows : StructArray or None
        The array of structs that ends the block, if its length is left open.
    """

    size: int
    fields: tuple[Field, ...]
    rows: StructArray | None = None


@dataclass(frozen=True)
class StructArray:
    """Runtime-sized array of structs at the end of an argument block.

    Parameters
    ----------
    offset : int
        Bytes from the start of the block to the first one.
    stride : int
        Bytes from one to the next.
    fields : tuple of Field
        The scalars of one.
    """

    offset: int
    stride: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class SpecConstant:
    """Specialization constant of a shader.

    Parameters
    ----------
    name : str
        Its name in the shader; `constant_<id>` if it has none.
    id : int
        Its `constant_id`.
    type : str
        `bool` or a scalar kind, as in `Field.kind`.
    default : bool, int or float
        The value when it is not specialized.
    """

    name: str
    id: int
    type: str
    default: bool | int | float


@dataclass(frozen=True)
class ShaderModule:
    """Reflection of a compute shader.

    Parameters
    ----------
    entry_point : str
        The function that `VkPipelineShaderStageCreateInfo.pName` names.
    version : tuple of int
        SPIR-V version (major, minor).
    capabilities : tuple of int
        Numbers of the declared capabilities.
    extensions : tuple of str
        Declared SPIR-V extensions.
    workgroup_size : tuple of int
        Invocations in x, y, z, with the defaults of constants.
    workgroup_ids : tuple of int or None
        `constant_id` of each dimension, None where the size is fixed.
    spec_constants : tuple of SpecConstant
        In order of their ids.
    push : BlockLayout or None
        The push-constant block.
    arguments : BlockLayout or None
        Arguments of the kernel: `push`, or the block behind its one address.
    indirect : bool
        Whether `arguments` lies in memory and `push` only holds its address.
    """

    entry_point: str
    version: tuple[int, int]
    capabilities: tuple[int, ...]
    extensions: tuple[str, ...]
    workgroup_size: tuple[int, int, int]
    workgroup_ids: tuple[int | None, int | None, int | None]
    spec_constants: tuple[SpecConstant, ...]
    push: BlockLayout | None
    arguments: BlockLayout | None
    indirect: bool


def read_module(words: bytes) -> ShaderModule:
    """Return names, layouts and constants of a compute shader.

    Parameters
    ----------
    words : bytes
        The module, little-endian.

    Returns
    -------
    ShaderModule
        Names, layouts and constants.

    Raises
    ------
    ShaderError
        If the module is broken or has no compute entry, naming an offset in words.
    """
    return module_of(words, read_tables(words))


def read_tables(words: bytes) -> ModuleTables:
    """Return the tables of a module."""
    tables = ModuleTables()
    tables.read(words)
    return tables


def module_of(words: bytes, tables: ModuleTables) -> ShaderModule:
    """Return what `read_module` does of a module whose tables are filled already."""
    if tables.entry is None:
        raise ShaderError(
            f"SPIR-V word {len(words) // 4}: there is no compute entry point in the"
            " whole module; it must declare one"
        )
    push, behind = _push_blocks(tables)
    sizes, ids = _workgroup(tables)
    return ShaderModule(
        entry_point=tables.entry.text(2),
        version=(words[6], words[5]),
        capabilities=tuple(tables.capabilities),
        extensions=tuple(tables.extensions),
        workgroup_size=sizes,
        workgroup_ids=ids,
        spec_constants=_spec_constants(tables, ids),
        push=push,
        arguments=push if behind is None else behind,
        indirect=behind is not None,
    )


def _push_blocks(tables: ModuleTables) -> tuple[BlockLayout | None, BlockLayout | None]:
    """Return the push block, and the block behind its one member `args`."""
    variable = tables.push_variable
    if variable is None:
        return None, None
    struct_type = tables.pointee(variable.operands[0], variable)
    push = _Flattener(tables).layout(struct_type)
    if push.rows is not None:
        raise struct_type.error("a push block cannot end with an array without length")
    if len(push.fields) != 1 or push.fields[0].name != "args":
        return push, None
    if push.fields[0].kind != "address":
        return push, None
    return push, _Flattener(tables).layout(
        tables.pointee(struct_type.operands[1], struct_type)
    )


def _workgroup(tables: ModuleTables) -> tuple[tuple[int, int, int], _Ids]:
    """Return the workgroup size by default, and the constant ids behind it."""
    assert tables.entry is not None
    entry = tables.entry.operands[1]
    # The built-in takes precedence (SPIR-V, "BuiltIn": WorkgroupSize).
    for constant_id, constant in tables.constants.items():
        built_in = tables.decorations.get((constant_id, Decoration.BUILT_IN))
        if built_in == BUILT_IN_WORKGROUP_SIZE:
            return _workgroup_of(tables, constant.require(5)[2:5], constant)
    by_id = tables.modes.get((entry, Mode.LOCAL_SIZE_ID))
    if by_id is not None:
        return _workgroup_of(tables, by_id.require(5)[2:5], by_id)
    fixed = tables.modes.get((entry, Mode.LOCAL_SIZE))
    x, y, z = (1, 1, 1) if fixed is None else fixed.require(5)[2:5]
    return (x, y, z), (None, None, None)


def _workgroup_of(
    tables: ModuleTables, ids: tuple[int, ...], user: SpirvInstruction
) -> tuple[tuple[int, int, int], _Ids]:
    """Return sizes and constant ids of three constants."""
    x, y, z = (tables.integer(i, user) for i in ids)
    i, j, k = (tables.decorations.get((i, Decoration.SPEC_ID)) for i in ids)
    return (x, y, z), (i, j, k)


def _spec_constants(
    tables: ModuleTables, workgroup_ids: tuple[int | None, ...]
) -> tuple[SpecConstant, ...]:
    """Return the specialization constants by id; a named one wins its id."""
    found: dict[int, SpecConstant] = {}
    for constant_id, constant in tables.constants.items():
        spec_id = tables.decorations.get((constant_id, Decoration.SPEC_ID))
        if spec_id is None:
            continue
        kind, value = tables.constant_value(constant)
        name = tables.names.get(constant_id, "")
        if name or spec_id not in found:
            name = name or _unnamed(spec_id, workgroup_ids)
            found[spec_id] = SpecConstant(name, spec_id, kind, value)
    return tuple(found[spec_id] for spec_id in sorted(found))


def _unnamed(spec_id: int, workgroup_ids: tuple[int | None, ...]) -> str:
    """Return the name of a specialization constant that the shader gives none."""
    if spec_id in workgroup_ids:
        return _WORKGROUP_NAMES[workgroup_ids.index(spec_id)]
    return f"constant_{spec_id}"


class _Flattener:
    """Walk a block's types once, within bounds of size, count and depth."""

    def __init__(self, tables: ModuleTables) -> None:
        self.tables = tables
        self.fields: list[Field] = []
        self.visits = 0

    def layout(self, struct_type: SpirvInstruction) -> BlockLayout:
        """Return the layout of a block."""
        rows = self.rows(struct_type)
        self.visit_struct(struct_type, "", 0, 0, open_ended=rows is not None)
        ends = [field.offset + field.size for field in self.fields]
        return BlockLayout(max(ends, default=0), tuple(self.fields), rows)

    def rows(self, block: SpirvInstruction) -> StructArray | None:
        """Return the array of structs without a length that ends a block, if any."""
        struct_id, *members = block.operands
        if not members:
            return None
        last = self.tables.type_of(members[-1], block)
        if last.opcode != Opcode.TYPE_RUNTIME_ARRAY:
            return None
        own_id, element_id = last.require(2)[:2]
        stride = self.tables.decorations.get((own_id, Decoration.ARRAY_STRIDE))
        offset = self.tables.member_offsets.get((struct_id, len(members) - 1))
        element = self.tables.type_of(element_id, last)
        if stride is None or offset is None or element.opcode != Opcode.TYPE_STRUCT:
            raise last.error("an array without a length must hold structs with offsets")
        inner = _Flattener(self.tables)
        inner.visit_struct(element, "", 0, 1)
        ends = [field.offset + field.size for field in inner.fields]
        if not 0 < max(ends, default=0) <= stride or offset + stride > MAX_BLOCK_SIZE:
            raise last.error(f"structs do not fit into a stride of {stride} bytes")
        return StructArray(offset, stride, tuple(inner.fields))

    def visit(
        self, declared: SpirvInstruction, name: str, offset: int, depth: int
    ) -> None:
        """Append the scalars of a type."""
        self.visits += 1
        if max(self.visits, offset) > MAX_BLOCK_SIZE or depth > MAX_DEPTH:
            raise declared.error(
                f"block member `{name}` is too large: byte {offset}, depth {depth};"
                f" at most {MAX_BLOCK_SIZE} bytes and {MAX_DEPTH} levels are accepted"
            )
        kind = self.tables.kind_of(declared)
        if kind is not None:
            size = struct.calcsize(FORMATS[kind])
            self.fields.append(Field(name, offset, kind, size))
        elif declared.opcode == Opcode.TYPE_STRUCT:
            self.visit_struct(declared, f"{name}.", offset, depth)
        elif declared.opcode in (Opcode.TYPE_VECTOR, Opcode.TYPE_ARRAY):
            self.visit_elements(declared, name, offset, depth)
        else:
            raise declared.error(
                f"block member `{name}` has a type that the host cannot fill;"
                " accepted: addresses, scalars, and vectors, arrays, structs of them"
            )

    def visit_struct(
        self,
        declared: SpirvInstruction,
        prefix: str,
        offset: int,
        depth: int,
        open_ended: bool = False,
    ) -> None:
        """Append the members of a struct, without the last if that has no length."""
        struct_id, *members = declared.operands
        members = members[:-1] if open_ended else members
        for index, member in enumerate(members):
            name = self.tables.member_names.get((struct_id, index)) or f"member_{index}"
            start = self.tables.member_offsets.get((struct_id, index))
            if start is None:
                raise declared.error(f"block member `{prefix}{name}` has no offset")
            member_type = self.tables.type_of(member, declared)
            self.visit(member_type, prefix + name, offset + start, depth + 1)

    def visit_elements(
        self, declared: SpirvInstruction, name: str, offset: int, depth: int
    ) -> None:
        """Append the elements of a vector or array."""
        own_id, element_id, count = declared.require(3)[:3]
        element = self.tables.type_of(element_id, declared)
        stride = self.tables.decorations.get((own_id, Decoration.ARRAY_STRIDE))
        if declared.opcode == Opcode.TYPE_ARRAY:
            count = self.tables.integer(count, declared)
        else:
            # The parts of a vector follow each other without gaps.
            stride = element.require(2)[1] // 8
        if stride is None:
            raise declared.error(f"block member `{name}` is an array without a stride")
        for index in range(count):
            place = offset + index * stride
            self.visit(element, f"{name}[{index}]", place, depth + 1)
