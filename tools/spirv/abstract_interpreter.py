"""Abstract interpreter: values of a shader for an invocation and loop iteration.

Strides, bank conflicts and loop counts follow from numbers: an index is computed for
several invocations, or several rounds of a loop, and compared. What cannot be known
(memory, push constants) stands as a number of its own, the same wherever it occurs, or
as None if nothing may be assumed. Calls are followed with the arguments of each call.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from vkbackend.shader.spirv_reader import SpirvInstruction

from . import instruction
from .constant_fold import Value, apply, pick, pseudo
from .control_flow import Function
from .module import ResolvedModule

MAX_DEPTH = 120
"""Most operations between a value and what it is computed from."""

MAX_STEPS = 50_000
"""Most operations computed for one module; what comes after is unknown."""

MAX_ROUNDS = 1024
"""Most rounds of a loop that are played through."""

# Built-in variables by their numbers. Which workgroup it is matters little.
_GROUP_COUNT, _WORKGROUP_SIZE, _GROUP_ID = 24, 25, 26
_LOCAL_ID, _GLOBAL_ID, _LOCAL_INDEX = 27, 28, 29
_SUBGROUP_SIZE, _SUBGROUP_COUNT, _SUBGROUP_ID, _SUBGROUP_LANE = 36, 38, 40, 41
_LANES = 32
_GROUP = (5, 3, 2)


@dataclass(frozen=True)
class Frame:
    """Call frame of a function: the source of its arguments.

    Attributes
    ----------
    function : Function
        What is called.
    caller : Frame or None
        Who calls; None for the entry point.
    arguments : tuple of int
        Ids, in the caller.
    site : int
        Offset of the call, in words.
    loops : tuple of (tuple, int)
        The loops that the call is in, outermost first.
    """

    function: Function
    caller: "Frame | None" = None
    arguments: tuple[int, ...] = ()
    site: int = 0
    loops: "tuple[Loop, ...]" = ()

    @functools.cached_property
    def key(self) -> tuple[int, ...]:
        """What tells this call from others: the offsets of the calls that led here."""
        return () if self.caller is None else (*self.caller.key, self.site)


Loop = tuple[tuple[int, ...], int]
"""A loop in the course of the program: the key of a frame, and the loop's header."""


@dataclass
class InvocationContext:
    """Invocation and loop iterations that values are computed for.

    Attributes
    ----------
    lane : int
        Index of the invocation in its workgroup.
    rounds : dict of Loop to int
        How often each loop has gone round; 0 if not given.
    assume : bool
        Whether what cannot be known stands as a number.
    odd : bool
        Whether these numbers are odd, or else multiples of 64.
    """

    lane: int = 0
    rounds: dict[Loop, int] = field(default_factory=dict)
    assume: bool = True
    odd: bool = False
    known: dict[tuple[tuple[int, ...], int], Value] = field(default_factory=dict)
    fixed: dict[tuple[tuple[int, ...], int], Value] = field(default_factory=dict)
    unknown: list[tuple[tuple[int, ...], int]] = field(default_factory=list)


@dataclass(frozen=True)
class PointerTarget:
    """Target of a pointer: a variable or address, and a path into it."""

    frame: Frame
    root: int
    path: tuple[tuple[Frame, int], ...]


@dataclass(frozen=True)
class _Store:
    """Store to a variable: the instruction's location and the value."""

    function: Function
    block: int
    row: SpirvInstruction
    path: tuple[int, ...]


class Values:
    """Computes values of one program."""

    def __init__(self, program: ResolvedModule) -> None:
        self.program = program
        self.steps = 0
        self.stores: dict[int, list[_Store]] = {}
        self._played: dict[tuple[object, ...], list[Value]] = {}
        self._places: dict[tuple[tuple[int, ...], int], PointerTarget] = {}
        self._decoded: dict[int, list[tuple[bool, int]]] = {}
        for function in program.functions.values():
            self._scan(function)

    def _scan(self, function: Function) -> None:
        """Note every write to a variable or parameter."""
        for block, row in function.instructions():
            operation = instruction.operation(row.opcode)
            if operation == "Store":
                root, path = self.root(row.operands[0])
                self._add(root, _Store(function, block.label, row, path))
            elif operation == "FunctionCall":
                for argument in row.operands[3:]:
                    if self.program.operation(argument) == "Variable":
                        self._add(argument, _Store(function, block.label, row, ()))
            elif operation.startswith(("Atomic", "CopyMemory")):
                for operand in row.operands:
                    if self.program.operation(operand) == "Variable":
                        self._add(operand, _Store(function, block.label, row, (-1,)))

    def _add(self, root: int, store: _Store) -> None:
        self.stores.setdefault(root, []).append(store)

    def root(self, pointer: int) -> tuple[int, tuple[int, ...]]:
        """Return the variable, parameter or address behind a pointer, and the path."""
        path: tuple[int, ...] = ()
        for _ in range(MAX_DEPTH):
            row = self.program.defined.get(pointer)
            if row is None or instruction.operation(row.opcode) not in _CHAINS:
                break
            path = (*row.operands[3:], *path)
            pointer = row.operands[2]
        return pointer, path

    def place(self, frame: Frame, pointer: int) -> PointerTarget:
        """Return what a pointer points to, followed into the callers."""
        key = (frame.key, pointer)
        if key not in self._places:
            self._places[key] = self._follow(frame, pointer)
        return self._places[key]

    def _follow(self, frame: Frame, pointer: int) -> PointerTarget:
        path: tuple[tuple[Frame, int], ...] = ()
        for _ in range(MAX_DEPTH):
            pointer, ids = self.root(pointer)
            path = (*((frame, number) for number in ids), *path)
            outer = self._argument(frame, pointer)
            if outer is None:
                break
            frame, pointer = outer
        return PointerTarget(frame, pointer, path)

    def _argument(self, frame: Frame, number: int) -> tuple[Frame, int] | None:
        """Return what a caller gave for a parameter."""
        if frame.caller is None or number not in frame.function.parameters:
            return None
        at = frame.function.parameters.index(number)
        if at >= len(frame.arguments):
            return None
        return frame.caller, frame.arguments[at]

    def value(
        self, frame: Frame, number: int, invocation: InvocationContext, depth: int = 0
    ) -> Value:
        """Return a value: a number, several, or None if it cannot be known."""
        constant = self.program.constant(number)
        if constant is not None:
            return constant
        key = (frame.key, number)
        if key in invocation.known:
            return invocation.known[key]
        self.steps += 1
        found: Value = None
        if depth < MAX_DEPTH and self.steps < MAX_STEPS:
            found = self._compute(frame, number, invocation, depth + 1)
        if found is None:
            invocation.unknown.append(key)
            if invocation.assume:
                kind = self.program.type_of(number)
                found = pseudo(number, kind, invocation.odd)
        invocation.known[key] = found
        return found

    def _compute(
        self, frame: Frame, number: int, invocation: InvocationContext, depth: int
    ) -> Value:
        row = self.program.defined.get(number)
        if row is None:
            return None
        operation = instruction.operation(row.opcode)
        if operation == "FunctionParameter":
            outer = self._argument(frame, number)
            return None if outer is None else self.value(*outer, invocation, depth)
        if operation == "Load":
            return self._load(frame, row, invocation, depth)
        if operation == "FunctionCall":
            return self._call(frame, row, invocation, depth)
        operands = self._operands(frame, row, invocation, depth)
        if operation == "ExtInst":
            if row.operands[2] not in self.program.extended:
                return None
            operation, operands = (
                instruction.extended().get(row.operands[3], ""),
                operands[2:],
            )
        return apply(operation, self.program.type(row.operands[0]), operands)

    def _operands(
        self,
        frame: Frame,
        row: SpirvInstruction,
        invocation: InvocationContext,
        depth: int,
    ) -> list[Value]:
        """Return the values of an instruction's ids; literals stay as they are."""
        return [
            self.value(frame, word, invocation, depth) if is_id else word
            for is_id, word in self._operand_words(row)
        ]

    def _operand_words(self, row: SpirvInstruction) -> list[tuple[bool, int]]:
        """Return the operands but for the result: whether each is an id, and its word.

        A loop's instructions are computed in many rounds and taken apart once.
        """
        found = self._decoded.get(row.offset)
        if found is None:
            found = [
                (operand.kind == "IdRef", operand.words[0])
                for operand in instruction.decode(row, {})
                if not operand.kind.startswith("IdResult")
            ]
            self._decoded[row.offset] = found
        return found

    def call(
        self, frame: Frame, row: SpirvInstruction, loops: tuple[Loop, ...]
    ) -> Frame:
        """Return the frame of a call.

        Raises
        ------
        ShaderError
            If it calls what is no function, or itself.
        """
        _, _, target, *arguments = row.operands
        function = self.program.functions.get(target)
        if function is None:
            raise row.error(f"%{target} is called and is no function")
        above: Frame | None = frame
        while above is not None:
            if above.function is function:
                raise row.error(f"%{target} calls itself; SPIR-V has no recursion")
            above = above.caller
        return Frame(function, frame, tuple(arguments), row.offset, loops)

    def _call(
        self,
        frame: Frame,
        row: SpirvInstruction,
        invocation: InvocationContext,
        depth: int,
    ) -> Value:
        """Return what a function returns if it does so in one place."""
        callee = self.call(frame, row, frame.loops)
        returned = [
            inner.operands[0]
            for _, inner in callee.function.instructions()
            if instruction.operation(inner.opcode) == "ReturnValue"
        ]
        if len(returned) != 1:
            return None
        return self.value(callee, returned[0], invocation, depth)

    def _load(
        self,
        frame: Frame,
        row: SpirvInstruction,
        invocation: InvocationContext,
        depth: int,
    ) -> Value:
        place = self.place(frame, row.operands[2])
        variable = self.program.defined.get(place.root)
        if variable is None or instruction.operation(variable.opcode) != "Variable":
            return None
        storage = instruction.enumerant("StorageClass", variable.operands[2])
        path = [self.value(f, n, invocation, depth) for f, n in place.path]
        if storage == "Input":
            return pick(self._input(place.root, invocation.lane), path)
        if storage == "PushConstant" and invocation.assume:
            at = sum((i + 1) * 31 * n for i, n in enumerate(path) if type(n) is int)
            return pseudo(at, self.program.type(row.operands[0]), invocation.odd)
        if storage not in ("Function", "Private"):
            return None
        return self._variable(place, path, invocation, depth)

    def _input(self, variable: int, lane: int) -> Value:
        """Return a built-in variable of the invocation `lane`."""
        number = self.program.tables.decorations.get((variable, 11), -1)
        size = self.workgroup_size()
        local = (lane % size[0], lane // size[0] % size[1], lane // size[0] // size[1])
        group = _GROUP
        known: dict[int, Value] = {
            _GROUP_COUNT: (1021, 1019, 1013),
            _GROUP_ID: group,
            _WORKGROUP_SIZE: size,
            _LOCAL_ID: local,
            _GLOBAL_ID: tuple(g * s + i for g, s, i in zip(group, size, local)),
            _LOCAL_INDEX: lane,
            _SUBGROUP_SIZE: _LANES,
            _SUBGROUP_COUNT: max(1, size[0] * size[1] * size[2] // _LANES),
            _SUBGROUP_ID: lane // _LANES,
            _SUBGROUP_LANE: lane % _LANES,
        }
        return known.get(number)

    def workgroup_size(self) -> tuple[int, int, int]:
        """Return the workgroup's size with the specialization in force, at least 1."""
        module, overrides = self.program.module, self.program.overrides
        x, y, z = (
            max(1, int(overrides.get(number, size) if number is not None else size))
            for size, number in zip(module.workgroup_size, module.workgroup_ids)
        )
        return x, y, z

    def _variable(
        self,
        place: PointerTarget,
        path: Sequence[Value],
        invocation: InvocationContext,
        depth: int,
    ) -> Value:
        """Return what a variable holds, if one place of the program decides it."""
        frame = place.frame
        key = (frame.key, place.root)
        if key in invocation.fixed and not path:
            return invocation.fixed[key]
        stores = [row for row in self.stores.get(place.root, ()) if self._writes(row)]
        matching = [row for row in stores if self._matches(row, place.root, path)]
        if len(matching) == 1 and len(matching[0].path) <= len(path):
            (store,) = matching
            home = self._frame_of(frame, store)
            if home is None:
                return None
            if instruction.operation(store.row.opcode) == "FunctionCall":
                return self._written(home, store, place.root, path, invocation, depth)
            whole = self.value(home, store.row.operands[1], invocation, depth)
            return pick(whole, path[len(store.path) :])
        initial = self.program.defined[place.root].operands[3:]
        if not stores and initial:
            return pick(self.value(frame, initial[0], invocation, depth), path)
        if len(stores) == 2 and not path:
            chosen = self._branch(frame, stores, invocation, depth)
            if chosen is not None:
                return self.value(frame, chosen.row.operands[1], invocation, depth)
            return self._induction(frame, place.root, stores, invocation, depth)
        return None

    def _branch(
        self,
        frame: Frame,
        stores: list[_Store],
        invocation: InvocationContext,
        depth: int,
    ) -> _Store | None:
        """Return which of two writes is done, if they are the sides of one branch."""
        by_block = {store.block: store for store in stores}
        if any(store.function is not frame.function for store in stores):
            return None
        end = frame.function.branches().get(frozenset(by_block))
        if end is None or len(by_block) != 2:
            return None
        condition, first, second = end.operands[:3]
        taken = self.value(frame, condition, invocation, depth)
        if not isinstance(taken, bool):
            return None
        chosen = by_block[first if taken else second]
        is_store = instruction.operation(chosen.row.opcode) == "Store"
        return chosen if is_store and not chosen.path else None

    def _frame_of(self, frame: Frame, store: _Store) -> Frame | None:
        """Return the call in which a variable of `frame` is written."""
        above: Frame | None = frame
        while above is not None:
            if above.function is store.function:
                return above
            above = above.caller
        if store.function is self.program.entry:
            return Frame(store.function)
        return None

    def _writes(self, store: _Store) -> bool:
        """Whether a call may write the variable that it is given."""
        if instruction.operation(store.row.opcode) != "FunctionCall":
            return True
        return store.row.operands[2] in self.program.functions

    def _matches(self, store: _Store, root: int, path: Sequence[Value]) -> bool:
        """Whether a store may write what lies at a path in a variable."""
        if instruction.operation(store.row.opcode) == "FunctionCall":
            return bool(self._callee_stores(store, root))
        for number, wanted in zip(store.path, path):
            constant = self.program.constant(number)
            if constant is not None and wanted is not None and constant != wanted:
                return False
        return True

    def _callee_stores(self, store: _Store, root: int) -> list[_Store]:
        """Return the writes to a variable within a function that is given it."""
        function = self.program.functions[store.row.operands[2]]
        return [
            row
            for argument, parameter in zip(store.row.operands[3:], function.parameters)
            if argument == root
            for row in self.stores.get(parameter, ())
        ]

    def _written(
        self,
        frame: Frame,
        store: _Store,
        root: int,
        path: Sequence[Value],
        invocation: InvocationContext,
        depth: int,
    ) -> Value:
        """Return what a called function writes to its parameter."""
        callee = self.call(frame, store.row, frame.loops)
        inner = self._callee_stores(store, root)
        if len(inner) != 1 or inner[0].path:
            return None
        if instruction.operation(inner[0].row.opcode) != "Store":
            return None
        whole = self.value(callee, inner[0].row.operands[1], invocation, depth)
        return pick(whole, path)

    def _induction(
        self,
        frame: Frame,
        variable: int,
        stores: list[_Store],
        invocation: InvocationContext,
        depth: int,
    ) -> Value:
        """Return a loop's variable in the round that the situation tells."""
        found = self.induction(frame, variable, stores)
        if found is None:
            return None
        first, update, loop = found
        home = self._frame_of(frame, first)
        if home is None:
            return None
        others = tuple(
            sorted(pair for pair in invocation.rounds.items() if pair[0] != loop)
        )
        mode = (invocation.lane, invocation.assume, invocation.odd)
        key = (home.key, variable, mode, others)
        played = self._played.setdefault(key, [])
        if not played:
            played.append(self.value(home, first.row.operands[1], invocation, depth))
        wanted = min(invocation.rounds.get(loop, 0), MAX_ROUNDS)
        while len(played) <= wanted:
            played.append(self.after(home, variable, update, played[-1], invocation))
        return played[wanted]

    def induction(
        self, frame: Frame, variable: int, stores: Sequence[_Store]
    ) -> tuple[_Store, _Store, Loop] | None:
        """Return the start, the update and the loop of a loop's variable."""
        if len(stores) != 2 or stores[0].function is not stores[1].function:
            return None
        if any(
            instruction.operation(s.row.opcode) != "Store" or s.path for s in stores
        ):
            return None
        blocks = stores[0].function.blocks
        a, b = (blocks[store.block].loops for store in stores)
        first, update = (stores[0], stores[1]) if len(a) < len(b) else stores[::-1]
        outer, inner = sorted((a, b), key=len)
        if len(outer) == len(inner) or inner[: len(outer)] != outer:
            return None
        return first, update, (frame.key, inner[len(outer)])

    def after(
        self,
        frame: Frame,
        variable: int,
        update: _Store,
        value: Value,
        invocation: InvocationContext,
    ) -> Value:
        """Return a variable's next value, as the loop's update has it."""
        fixed = {**invocation.fixed, (frame.key, variable): value}
        lane, rounds, assume = invocation.lane, invocation.rounds, invocation.assume
        inner = InvocationContext(lane, rounds, assume, invocation.odd, fixed=fixed)
        return self.value(frame, update.row.operands[1], inner)


_CHAINS = ("AccessChain", "InBoundsAccessChain")
