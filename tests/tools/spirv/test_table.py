from vkbackend.tools.spirv import instruction, table


def test_it_knows_what_the_library_uses() -> None:
    assert table.REVISION >= (1, 6, 7)
    names = {shape.name for shape in instruction.operation_grammars().values()}
    assert {
        "CooperativeMatrixMulAddKHR",
        "CooperativeMatrixLoadTensorNV",
        "CooperativeMatrixPerElementOpEXT",
        "TypeTensorLayoutNV",
        "AtomicFAddEXT",
    } <= names
    assert "BFloat16TypeKHR" in instruction.enumerations()["Capability"].names.values()
    assert instruction.enumerant("FPEncoding", 0) == "BFloat16KHR"


def test_every_operand_has_a_kind() -> None:
    literals = {
        *("LiteralInteger", "LiteralString", "LiteralFloat"),
        *("LiteralContextDependentNumber", "LiteralExtInstInteger"),
        "LiteralSpecConstantOpInteger",
    }
    pairs = {"PairLiteralIntegerIdRef", "PairIdRefLiteralInteger", "PairIdRefIdRef"}
    known = {*instruction.enumerations(), *instruction.IDS, *literals, *pairs}
    used = {
        operand.rstrip("?*")
        for shape in instruction.operation_grammars().values()
        for operand in shape.operands
    }
    used |= {
        parameter.rstrip("?*")
        for kind in instruction.enumerations().values()
        for parameters in kind.parameters.values()
        for parameter in parameters
    }
    assert used <= known


def test_names_are_unique() -> None:
    names = [shape.name for shape in instruction.operation_grammars().values()]
    assert len(set(names)) == len(names)
