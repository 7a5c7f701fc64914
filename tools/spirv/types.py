"""Types of a shader: their GLSL names, sizes and parts."""

from dataclasses import dataclass

from vkbackend.shader.spirv_reader import SpirvInstruction


@dataclass(frozen=True)
class Type:
    """Type of a shader: name, size and parts.

    Attributes
    ----------
    name : str
        As GLSL writes it: `uvec4`, `float[16]`.
    operation : str
        The declaring operation without `OpType`: `Int`, `Struct`, `Pointer`.
    size, alignment : int
        Bytes, by the rules of std430; 0 where the size is not known.
    components : int
        Scalars in it: 4 of a vec4, 16 of a mat4; of a cooperative matrix all elements.
    element : int
        Id of what it is made of, or 0.
    width : int
        Bits of one scalar.
    length : int
        Elements of a vector, array or matrix.
    """

    name: str
    operation: str
    size: int = 0
    alignment: int = 1
    components: int = 0
    element: int = 0
    width: int = 0
    length: int = 0


def vector_prefix(scalar: Type) -> str:
    """Return what GLSL puts before `vec` for vectors of a scalar: `u`, `f16`."""
    known = {"float": "", "uint": "u", "int": "i", "bool": "b", "double": "d"}
    if scalar.name in known:
        return known[scalar.name]
    # As GLSL has them: f16vec2, u64vec4.
    return f"{scalar.name[0]}{scalar.width}"


def scalar_type(kind: str, row: SpirvInstruction) -> Type:
    """Return the type that OpTypeBool, OpTypeInt or OpTypeFloat declares."""
    if kind == "Bool":
        return Type("bool", kind, 4, 4, 1, 0, 1, 1)
    _, width, *rest = row.require(2)
    size = max(1, width // 8)
    if kind == "Float":
        base = "float" if not rest else "bfloat"
        name = {("float", 32): "float", ("float", 64): "double"}.get(
            (base, width), f"{base}{width}"
        )
    else:
        base = "int" if rest[:1] == [1] else "uint"
        name = base if width == 32 else f"{base}{width}"
    return Type(name, kind, size, size, 1, 0, width, 1)
