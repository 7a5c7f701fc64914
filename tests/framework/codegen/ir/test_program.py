"""Programs as plain values, and the order of their arguments."""

from tests.framework.codegen import rows
from vkbackend.framework.codegen.ir.program import (
    Access,
    Instruction,
    KernelProgram,
    Output,
    Pattern,
    Reference,
    field_size,
    push_fields,
)

ADD = Instruction(
    "x + y",
    ("x", "y"),
    ("double", "double"),
    (Reference("in", 0), Reference("scalar", 0)),
    "float64",
)


def program(*, vec4: bool) -> KernelProgram:
    return KernelProgram(
        row_rank=0,
        column_rank=2,
        vec4=vec4,
        patterns=(Pattern((), ("s", "1"), False), Pattern((), ("0", "s"), True)),
        accesses=(Access("gather", "float64", 0), Access("gather", "uint8", 1)),
        scalars=("double", "uint"),
        factors=(),
        instructions=(ADD,),
        outputs=(Output(0, "float64"),),
    )


def test_wide_fields_come_first() -> None:
    fields = push_fields(program(vec4=False))
    assert [name for name, _ in fields] == [
        "in0", "in1", "out0", "s0",
        "s1", "quads", "last", "size1", "magic1", "shift1", "p0_0", "p1_offset", "p1_1",
    ]  # fmt: skip
    sizes = [field_size(kind) for _, kind in fields]
    assert sizes == [8] * 4 + [4] * 9


def test_only_what_is_needed_is_pushed() -> None:
    names = [name for name, _ in push_fields(program(vec4=True))]
    assert "last" not in names
    linear = program(vec4=True)._replace(
        column_rank=1, patterns=(), accesses=(Access("linear", "float64"),), scalars=()
    )
    assert push_fields(linear) == (("in0", ""), ("out0", ""), ("quads", "uint"))


def test_equal_programs_are_one_kernel() -> None:
    assert program(vec4=True) == program(vec4=True)
    assert hash(program(vec4=True)) == hash(program(vec4=True))
    assert program(vec4=True) != program(vec4=False)


def test_arguments_of_rows() -> None:
    assert push_fields(rows.program(rows.softmax(), rows.GPU)) == (
        ("in0", ""),
        ("out0", ""),
        ("rows", "uint"),
        ("columns", "uint"),
    )
    names = [name for name, _ in push_fields(rows.program(rows.normalised(), rows.GPU))]
    assert names == [
        "in0", "in1", "out0", "s0", "factor0", "rows", "columns",
    ]  # fmt: skip
