"""What spirv-dis says of a module, read from its text: the oracle of these tests.

Nothing here uses the package under test. Modules with operations of after 2023 are
beyond Debian 12's spirv-dis; `known` tells.
"""

import functools
import re
import shutil
import subprocess
from collections import Counter

import pytest

needs_spirv_dis = pytest.mark.skipif(
    shutil.which("spirv-dis") is None, reason="spirv-dis, of spirv-tools, is missing"
)

_RESULT = re.compile(r"^(?:(%\d+) = )?(Op\w+)(?: (.*))?$")
_TRANSCENDENTAL = re.compile(
    r"^(?:A?(?:Sin|Cos|Tan)h?|Atan2|Pow|Exp2?|Log2?|Sqrt|InverseSqrt)$"
)
_ARITHMETIC = re.compile(
    r"^Op(?:[FISU](?:Add|Sub|Mul|Div|Rem|Mod|Negate)|[US]MulExtended|IAddCarry"
    r"|ISubBorrow|Dot|OuterProduct|Vector\w*Times\w+|Matrix\w*Times\w+|Bit(?:wise)?\w+"
    r"|Shift\w+|Not|Logical\w+|Select|Is\w+|Any|All|[FIUS](?:Ord|Unord)?"
    r"(?:Not)?(?:Equal|Less\w+|Greater\w+))$"
)
_DECLARED = {
    *("OpVariable", "OpLabel", "OpLoopMerge", "OpSelectionMerge", "OpUndef"),
    *("OpFunction", "OpFunctionParameter", "OpFunctionEnd", "OpLine", "OpNoLine"),
}
_CONTROL = {
    *("OpBranch", "OpBranchConditional", "OpSwitch", "OpReturn", "OpReturnValue"),
    *("OpPhi", "OpFunctionCall", "OpUnreachable", "OpKill"),
}
_DECLARES = 2 << 16 | 17  # the first word of OpCapability
_NEWER = {5116, 5118, 6022}  # bfloat16, alone and in matrices; cooperative matrices
_STORAGES = {
    "PhysicalStorageBuffer": "device",
    "Workgroup": "shared",
    "Function": "private",
    "Private": "private",
    "PushConstant": "push",
    "Input": "input",
}
_QUALIFIERS = {
    "Coherent": "coherent",
    "Restrict": "restrict",
    "NonWritable": "readonly",
    "NonReadable": "writeonly",
}


def known(words: bytes) -> bool:
    """Return whether Debian 12's spirv-dis knows every capability of a module."""
    numbers = memoryview(words).cast("I")
    declared = set()
    at = 5
    while numbers[at] == _DECLARES:
        declared.add(numbers[at + 1])
        at += 2
    return not declared & _NEWER


def text_of(words: bytes) -> list[str]:
    """Return the text form of a module."""
    done = subprocess.run(
        ("spirv-dis", "--raw-id", "--no-header", "--no-indent", "-"),
        input=words,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().splitlines()


class Listing:
    """A module as its text form has it."""

    def __init__(self, words: bytes) -> None:
        self.lines = text_of(words)
        self.rows = []
        for line in self.lines:
            found = _RESULT.match(line)
            assert found is not None, line
            self.rows.append((found[1], found[2], (found[3] or "").split(" ")))
        self.defined = {result: (op, rest) for result, op, rest in self.rows if result}
        self.notes = [
            (operation, rest)
            for _, operation, rest in self.rows
            if operation in ("OpDecorate", "OpMemberDecorate", "OpMemberName")
        ]

    def operations(self) -> dict[str, int]:
        """Return how often each operation occurs."""
        return dict(Counter(operation for _, operation, _ in self.rows))

    def capabilities(self) -> list[str]:
        """Return the names of the declared capabilities."""
        return [rest[0] for _, operation, rest in self.rows if operation == _CAPABILITY]

    def classes(self) -> dict[str, int]:
        """Return how many instructions of functions are of each class."""
        found: Counter[str] = Counter()
        inside = False
        for result, operation, rest in self.rows:
            inside = inside or operation == "OpFunction"
            if inside and operation not in _DECLARED:
                found[self.kind(result, operation, rest)] += 1
        return dict(found)

    def kind(self, result: str | None, operation: str, rest: list[str]) -> str:
        """Return the class of one instruction."""
        if operation in ("OpLoad", "OpStore"):
            pointer = rest[1] if operation == "OpLoad" else rest[0]
            verb = operation[2:].lower()
            return f"{verb} {_STORAGES[self.storage(pointer)]}"
        if operation == "OpExtInst":
            known = _TRANSCENDENTAL.match(rest[2])
            return "transcendental" if known else "arithmetic"
        return _kind(operation)

    def storage(self, pointer: str) -> str:
        """Return the storage class that a pointer leads into."""
        declared = self.defined[self.defined[pointer][1][0]]
        return declared[1][0]

    def decorations(self, target: str) -> dict[str, list[str]]:
        """Return the decorations of an id."""
        return {
            rest[1]: rest[2:]
            for operation, rest in self.notes
            if operation == "OpDecorate" and rest[0] == target
        }

    def members(self, struct: str) -> list[tuple[str, int, tuple[str, ...]]]:
        """Return name, offset and qualifiers of a struct's members."""
        found = []
        for index in range(len(self.defined[struct][1])):
            mine = [
                (operation, rest[2:])
                for operation, rest in self.notes
                if operation != "OpDecorate" and rest[:2] == [struct, str(index)]
            ]
            name = next(r[0].strip('"') for op, r in mine if op == "OpMemberName")
            words = [r for op, r in mine if op == "OpMemberDecorate"]
            offset = next(int(r[1]) for r in words if r[0] == "Offset")
            said = {_QUALIFIERS[r[0]] for r in words if r[0] in _QUALIFIERS}
            found.append((name, offset, tuple(sorted(said))))
        return found

    def push(self) -> str | None:
        """Return the struct of the push-constant block."""
        for _, operation, rest in self.rows:
            if operation == "OpVariable" and rest[1] == "PushConstant":
                return self.defined[rest[0]][1][1]
        return None

    def buffers(self) -> list[str]:
        """Return the structs behind buffer addresses."""
        found = []
        for _, operation, rest in self.rows:
            if operation == "OpTypePointer" and rest[0] == "PhysicalStorageBuffer":
                if "Block" in self.decorations(rest[1]):
                    found.append(rest[1])
        return list(dict.fromkeys(found))

    def alignments(self) -> set[int]:
        """Return the alignments that loads and stores state."""
        found = (re.search(r"Aligned (\d+)", line) for line in self.lines)
        return {int(match[1]) for match in found if match}

    def constants(self) -> dict[int, str]:
        """Return the default of each scalar specialization constant, by its id."""
        found = {}
        for result, operation, rest in self.rows:
            if operation.startswith("OpSpecConstant") and result:
                decorations = self.decorations(result)
                if "SpecId" in decorations:
                    value = (
                        rest[-1] if operation == "OpSpecConstant" else operation[14:]
                    )
                    found[int(decorations["SpecId"][0])] = value
        return found


_CAPABILITY = "OpCapability"


@functools.cache
def _kind(operation: str) -> str:
    """Return the class of an operation that its operands do not decide."""
    for kind, pattern in (
        ("control", "|".join(_CONTROL)),
        ("address", "Op(?:InBounds)?(?:Ptr)?AccessChain|OpArrayLength"),
        ("atomic", r"OpAtomic\w+"),
        ("barrier", r"Op(?:Control|Memory)Barrier"),
        ("subgroup", r"OpGroup\w+"),
        ("composite", r"OpComposite\w+|OpVector\w*(?:Shuffle|Dynamic)|OpCopy\w+"),
        ("conversion", r"OpConvert\w+|Op[FSU]Convert|OpBitcast"),
    ):
        if re.fullmatch(pattern, operation):
            return kind
        if operation in ("OpVectorExtractDynamic", "OpVectorInsertDynamic"):
            return "composite"
    assert _ARITHMETIC.match(operation), operation
    return "arithmetic"


@functools.cache
def listing(words: bytes) -> Listing:
    """Return what spirv-dis says of a module."""
    return Listing(words)
