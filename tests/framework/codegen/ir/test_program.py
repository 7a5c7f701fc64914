"""Programs as plain values, and the order of their arguments."""

from vkbackend.framework.codegen.ir.program import (
    Access,
    Instruction,
    Output,
    Pattern,
    Program,
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


def program(*, whole_quads: bool) -> Program:
    return Program(
        rank=2,
        whole_quads=whole_quads,
        patterns=(Pattern(("s", "1"), False), Pattern(("0", "s"), True)),
        accesses=(Access("gather", "float64", 0), Access("gather", "uint8", 1)),
        scalars=("double", "uint"),
        instructions=(ADD,),
        outputs=(Output(0, "float64"),),
    )


def test_wide_fields_come_first() -> None:
    fields = push_fields(program(whole_quads=False))
    assert [name for name, _ in fields] == [
        "in0", "in1", "out0", "s0",
        "s1", "quads", "last", "size1", "magic1", "shift1", "p0_0", "p1_offset", "p1_1",
    ]  # fmt: skip
    sizes = [field_size(kind) for _, kind in fields]
    assert sizes == [8] * 4 + [4] * 9


def test_only_what_is_needed_is_pushed() -> None:
    names = [name for name, _ in push_fields(program(whole_quads=True))]
    assert "last" not in names
    linear = program(whole_quads=True)._replace(
        rank=1, patterns=(), accesses=(Access("linear", "float64"),), scalars=()
    )
    assert push_fields(linear) == (("in0", ""), ("out0", ""), ("quads", "uint"))


def test_equal_programs_are_one_kernel() -> None:
    assert program(whole_quads=True) == program(whole_quads=True)
    assert hash(program(whole_quads=True)) == hash(program(whole_quads=True))
    assert program(whole_quads=True) != program(whole_quads=False)
