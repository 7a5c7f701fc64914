import json
from pathlib import Path
from typing import Any

import pytest

from vkbackend.tools.spirv import grammar, table

# Where Debian's spirv-headers has it; of which year depends on the release.
INSTALLED = Path("/usr/include/spirv/unified1")

CORE = {
    "major_version": 1,
    "minor_version": 9,
    "revision": 2,
    "instructions": [
        {
            "opname": "OpLoad",
            "class": "Memory",
            "opcode": 61,
            "operands": [
                {"kind": "IdResultType"},
                {"kind": "IdResult"},
                {"kind": "IdRef", "name": "Pointer"},
                {"kind": "MemoryAccess", "quantifier": "?"},
            ],
        },
        {"opname": "OpNop", "class": "Miscellaneous", "opcode": 0},
        {"opname": "OpOld", "class": "@exclude", "opcode": 0},
    ],
    "operand_kinds": [
        {
            "category": "BitEnum",
            "kind": "MemoryAccess",
            "enumerants": [
                {
                    "enumerant": "Aligned",
                    "value": "0x0002",
                    "parameters": [{"kind": "LiteralInteger"}],
                },
                {"enumerant": "Volatile", "value": "0x0001"},
                {"enumerant": "Alias", "value": "0x0001"},
            ],
        },
        {"category": "Id", "kind": "IdRef"},
        {
            "category": "ValueEnum",
            "kind": "Dim",
            "enumerants": [{"enumerant": "1D", "value": 0}],
        },
    ],
}
EXTENDED = {"instructions": [{"opname": "Sin", "opcode": 13}]}
EXPECTED = '''
REVISION = (1, 9, 2)

INSTRUCTIONS = """\\
0 Nop Miscellaneous
61 Load Memory IdResultType IdResult IdRef MemoryAccess?
"""

KINDS = """\\
MemoryAccess&
1 Volatile
2 Aligned LiteralInteger
Dim
0 1D
"""

EXTENDED = """\\
13 Sin
"""
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, CORE)
    return tmp_path


def write(folder: Path, core: dict[str, Any]) -> None:
    (folder / grammar.CORE).write_text(json.dumps(core))
    (folder / grammar.EXTENDED).write_text(json.dumps(EXTENDED))


def test_generation(folder: Path) -> None:
    assert grammar.generate(folder).endswith(f'"""\n{EXPECTED}')


def test_long_lines_are_continued(folder: Path) -> None:
    operands = [{"kind": "LiteralInteger"}] * 9
    core = {**CORE, "instructions": [{"opname": "OpA", "opcode": 1}]}
    core["instructions"][0] |= {"class": "Memory", "operands": operands}
    write(folder, core)
    text = grammar.generate(folder)
    assert "\n LiteralInteger" in text
    assert max(map(len, text.splitlines())) <= 88


@pytest.mark.skipif(not INSTALLED.exists(), reason="needs the package spirv-headers")
def test_the_installed_grammar_gives_the_table_or_agrees() -> None:
    core = json.loads((INSTALLED / grammar.CORE).read_text(encoding="utf-8"))
    revision = (core["major_version"], core["minor_version"], core["revision"])
    ours = grammar.TARGET.read_text(encoding="utf-8")
    theirs = grammar.generate(INSTALLED)
    if revision == table.REVISION and len(theirs) == len(ours):
        assert theirs == ours
    else:
        assert grammar.differences(ours, theirs) == []


def test_an_older_grammar_that_differs(folder: Path) -> None:
    ours = grammar.generate(folder)
    renamed = ours.replace("61 Load", "61 LoadKHR").replace("1 Volatile", "1 VolatileX")
    assert grammar.differences(ours, renamed) == []
    other = ours.replace("61 Load Memory IdResultType", "61 Load Memory IdRef")
    assert grammar.differences(ours, other) == [
        "('INSTRUCTIONS', '61'): ['IdRef', 'IdResult', 'IdRef', 'MemoryAccess?']"
    ]


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = folder / "table.py"
    options = [str(folder), "--output", str(output)]
    assert grammar.main(options) == 0
    assert grammar.main([*options, "--check"]) == 0
    assert capsys.readouterr().out.endswith("up to date\n")
    output.write_text(output.read_text().replace("Aligned Lit", "Aligned IdRef Lit"))
    assert grammar.main([*options, "--check"]) == 1
    assert grammar.main([str(folder / "none")]) == 2
    assert "no SPIR-V grammar" in capsys.readouterr().err
