"""Ask the driver to keep NaN, infinities and signs of zero, where it can be asked.

Without `SignedZeroInfNanPreserve` a driver may compute as if there were none of them,
and NVIDIA's does: it takes `x != x` for false. The request is words of the module
(SPIR-V, "Execution Mode"), not GLSL, so that every kernel has it, whoever wrote it.
"""

import struct
from collections.abc import Collection

from .spirv_binary import HEADER_WORDS, Op, instructions

SIGNED_ZERO_INF_NAN_PRESERVE = 4461
"""The execution mode."""

PRESERVE_CAPABILITY = 4466
"""The capability that it needs; part of SPIR-V since 1.4."""

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
        if instruction.opcode == Op.CAPABILITY:
            capabilities.add(instruction.require(1)[0])
        if instruction.opcode == Op.ENTRY_POINT:
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
        _instruction(Op.EXECUTION_MODE, entry, SIGNED_ZERO_INF_NAN_PRESERVE, width)
        for width in used
    ]
    return b"".join(
        (
            words[: 4 * HEADER_WORDS],
            _instruction(Op.CAPABILITY, PRESERVE_CAPABILITY),
            words[4 * HEADER_WORDS : 4 * after],
            *modes,
            words[4 * after :],
        )
    )


def _instruction(opcode: int, *operands: int) -> bytes:
    """Return the words of one instruction."""
    length = 1 + len(operands)
    return struct.pack(f"<{length}I", length << 16 | opcode, *operands)
