"""SPIR-V float controls: preserve special values, forbid contraction.

Without `SignedZeroInfNanPreserve` a driver may compute as if there were no NaN,
infinity or sign of zero, and NVIDIA's does: it takes `x != x` for false. Without
`NoContraction` it may make one rounding of a product and a sum, or not, as the code
around suggests. The requests are words of the module (SPIR-V, "Execution Mode" and
"Decoration"), not GLSL, so that they reach every instruction, whoever wrote it.
"""

import struct
from collections.abc import Collection

from .spirv_reader import HEADER_WORDS, Decoration, Opcode, instructions

SIGNED_ZERO_INF_NAN_PRESERVE = 4461
"""The execution mode."""

PRESERVE_CAPABILITY = 4466
"""The capability that it needs; part of SPIR-V since 1.4."""

_CONTRACTED = frozenset(
    {
        129,  # OpFAdd
        131,  # OpFSub
        133,  # OpFMul
        136,  # OpFDiv
        *range(140, 142),  # OpFRem, OpFMod
        *range(142, 149),  # of vectors and matrices: OpVectorTimesScalar to OpDot
    }
)
"""Float arithmetic that rounds; on what is no arithmetic instruction the decoration may
not stand."""

_BEFORE_DECORATIONS = frozenset(
    {
        *range(2, 9),  # source, names, strings
        *range(10, 18),  # extensions, memory model, entry point, modes, capabilities
        330,  # OpModuleProcessed
        331,  # OpExecutionModeId
    }
)
"""Opcodes of what stands before decorations ("Logical Layout of a Module")."""

_WIDTH_CAPABILITIES = {16: 9, 64: 10}
"""Capabilities of the floats that not every device has, by width in bits."""


def keep_special_values(words: bytes, widths: Collection[int]) -> bytes:
    """Return a compute shader that keeps special values of the floats it may use.

    Parameters
    ----------
    words : bytes
        A module of SPIR-V 1.4 or later, little-endian.
    widths : collection of int
        Bits of the floats for which the device takes the request, as
        `DeviceInfo.special_value_widths`.

    Returns
    -------
    bytes
        The module with one capability more, and one execution mode for each width;
        unchanged if no width applies or if it makes the request itself.

    Raises
    ------
    ShaderError
        If the module is broken before its entry point.
    """
    capabilities = set()
    for instruction in instructions(words):
        if instruction.opcode == Opcode.CAPABILITY:
            capabilities.add(instruction.require(1)[0])
        if instruction.opcode == Opcode.ENTRY_POINT:
            break
    else:
        return words
    used = [
        width
        for width in sorted(widths)
        if width == 32 or _WIDTH_CAPABILITIES[width] in capabilities
    ]
    if not used or PRESERVE_CAPABILITY in capabilities:
        return words
    entry, after = instruction.require(2)[1], instruction.offset
    after += 1 + len(instruction.operands)
    modes = [
        _instruction(Opcode.EXECUTION_MODE, entry, SIGNED_ZERO_INF_NAN_PRESERVE, width)
        for width in used
    ]
    return b"".join(
        (
            words[: 4 * HEADER_WORDS],
            _instruction(Opcode.CAPABILITY, PRESERVE_CAPABILITY),
            words[4 * HEADER_WORDS : 4 * after],
            *modes,
            words[4 * after :],
        )
    )


def forbid_contraction(words: bytes) -> bytes:
    """Return a module whose float arithmetic is rounded operation by operation.

    What the shader itself asks for with `fma` stays one operation. What the driver
    makes of `mix`, `length`, `distance`, `normalize`, `cross` and the like is its own
    affair: those are no arithmetic instructions, and cannot be asked.

    Parameters
    ----------
    words : bytes
        A module, little-endian.

    Returns
    -------
    bytes
        The module with `NoContraction` on the result of each addition, subtraction,
        product, quotient and remainder of floats, also of vectors and matrices.

    Raises
    ------
    ShaderError
        If the module is broken.
    """
    results, decorated = [], set()
    for instruction in instructions(words, {*_CONTRACTED, Opcode.DECORATE}):
        if instruction.opcode == Opcode.DECORATE:
            target, decoration = instruction.require(2)[:2]
            if decoration == Decoration.NO_CONTRACTION:
                decorated.add(target)
        else:
            results.append(instruction.require(2)[1])
    after = (i for i in instructions(words) if i.opcode not in _BEFORE_DECORATIONS)
    first = next(after, None)
    place = len(words) if first is None else 4 * first.offset
    requests = [
        _instruction(Opcode.DECORATE, result, Decoration.NO_CONTRACTION)
        for result in results
        if result not in decorated
    ]
    return b"".join((words[:place], *requests, words[place:]))


def _instruction(opcode: int, *operands: int) -> bytes:
    """Return the words of one instruction."""
    length = 1 + len(operands)
    return struct.pack(f"<{length}I", length << 16 | opcode, *operands)
