"""Memory access analysis: byte offsets, bank conflicts in shared memory."""

from collections.abc import Sequence

from . import instruction
from .abstract_interpreter import Frame, InvocationContext, Values
from .constant_fold import Value
from .divergence import Divergence
from .module import ResolvedModule

BANKS = 32
LANES = 32
_WORD = 4


def offset_of(program: ResolvedModule, kind: int, path: Sequence[Value]) -> int | None:
    """Return the offset in bytes of what a path leads to in a type, or None."""
    total = 0
    for index in path:
        found = program.type(kind)
        if type(index) is not int:
            return None
        row = program.defined[kind]
        if found.operation == "Struct":
            members = row.operands[1:]
            if not 0 <= index < len(members):
                return None
            total += _member_offset(program, kind, index)
            kind = members[index]
            continue
        if found.operation not in ("Array", "RuntimeArray", "Vector", "Matrix"):
            return None
        inner = program.type(found.element)
        stride = program.decoration(kind, "ArrayStride")
        natural = -(-inner.size // inner.alignment) * inner.alignment
        total += index * (stride[0] if stride else natural)
        kind = found.element
    return total


def _member_offset(program: ResolvedModule, struct: int, index: int) -> int:
    stated = program.tables.member_offsets.get((struct, index))
    if stated is not None:
        return stated
    total = 0
    for number, member in enumerate(program.defined[struct].operands[1:]):
        kind = program.type(member)
        total = -(-total // kind.alignment) * kind.alignment
        if number == index:
            break
        total += kind.size
    return total


def byte_offset(
    values: Values, frame: Frame, pointer: int, invocation: InvocationContext
) -> int | None:
    """Return how many bytes a pointer lies behind its variable or address, or None."""
    place = values.place(frame, pointer)
    declared = values.program.defined.get(values.program.type_id(place.root))
    if declared is None or instruction.operation(declared.opcode) != "TypePointer":
        return None
    path = [values.value(f, n, invocation) for f, n in place.path]
    return offset_of(values.program, declared.operands[2], path)


def origin(values: Values, frame: Frame, pointer: int) -> tuple[object, ...]:
    """Return what tells the buffer of a pointer from other buffers.

    The argument that its address was read from, where that can be followed.
    """
    program = values.program
    path: tuple[Value, ...] = ()
    root = 0
    for _ in range(8):
        place = values.place(frame, pointer)
        row = program.defined.get(place.root)
        if row is None or instruction.operation(row.opcode) != "Load":
            break
        source = values.place(place.frame, row.operands[2])
        frame, root = source.frame, source.root
        path = tuple(values.value(f, n, InvocationContext()) for f, n in source.path)
        stores = values.stores.get(root, ())
        if len(stores) != 1 or instruction.operation(stores[0].row.opcode) != "Store":
            break
        pointer = stores[0].row.operands[1]
    return root, path


def bank_conflict_degree(
    values: Values, divergence: Divergence, frame: Frame, pointer: int, size: int
) -> int:
    """Return the bank conflict degree: words of one bank in neighbouring accesses.

    Parameters
    ----------
    values, divergence : Values and Divergence
        Of the shader.
    frame, pointer : Frame and int
        The access.
    size : int
        Bytes that each invocation moves; of 16, eight invocations are served at once.

    Returns
    -------
    int
        1 if there is no conflict; 0 if it cannot be told.
    """
    x, y, z = values.workgroup_size()
    lanes = min(LANES * _WORD // max(size, _WORD), x * y * z)
    banks: dict[int, set[int]] = {}
    for lane in range(lanes):
        invocation = InvocationContext(lane=lane)
        start = byte_offset(values, frame, pointer, invocation)
        differs = any(number in divergence.values for _, number in invocation.unknown)
        if start is None or differs:
            return 0
        for part in range(max(1, size // _WORD)):
            word = start // _WORD + part
            banks.setdefault(word % BANKS, set()).add(word)
    return max(map(len, banks.values()), default=0)
