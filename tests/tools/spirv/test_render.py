from vkbackend.tools.spirv.diff import Change
from vkbackend.tools.spirv.driver_statistics import (
    PipelineExecutable,
    Representation,
    Statistic,
)
from vkbackend.tools.spirv.lint import Diagnostic
from vkbackend.tools.spirv.lint_rules import RULES
from vkbackend.tools.spirv.render import (
    Page,
    amount,
    show_changes,
    show_diagnostics,
    show_executables,
    show_report,
    show_rules,
)
from vkbackend.tools.spirv.report import report

from .shaders import SHARED, compiled
from .variants import Shaders, some_of_library


@some_of_library
def test_no_line_is_wider_than_the_terminal(shaders: Shaders) -> None:
    found = [report(target.name, target.words) for target in shaders()]
    for width in (80, 132):
        page = Page(width)
        for row in found:
            show_report(page, row)
        show_rules(page)
        assert max(map(len, page.lines)) <= width
        assert not any(line != line.rstrip() for line in page.lines)


def test_colour_is_only_colour() -> None:
    found = report("test", compiled(SHARED))
    plain, coloured = Page(100), Page(100, colour=True)
    show_report(plain, found)
    show_report(coloured, found)
    assert "\x1b[" not in str(plain)
    assert "\x1b[1mtest\x1b[0m" in str(coloured)


def test_a_report() -> None:
    page = Page(80)
    show_report(page, report("test", compiled(SHARED), {"ROWS": 16}))
    text = str(page)
    assert "  workgroup    64 x 1 x 1 = 64 invocations" in text
    assert "  3  ROWS  uint  16 (default 32)" in text
    assert "24 bytes of the 128 that every device has" in text
    assert "tile  float[32]  128 bytes" in text
    assert "In: 1 load, 0 stores, alignment 4" in text


def test_complaints() -> None:
    page = Page(80)
    rows = [
        Diagnostic("qualifier", "a.comp:3", 9, "buffer A is not `restrict`", ""),
        Diagnostic("alignment", "a.comp:4", 11, "vec4 is aligned to 4", "so it is"),
    ]
    show_diagnostics(page, "a", rows)
    text = str(page)
    assert text.startswith("a: 1 finding, 1 accepted with a reason")
    assert "a.comp:3: buffer A is not `restrict` [qualifier]" in text
    assert "advice: declare buffers restrict" in text
    assert "accepted: so it is" in text
    clean = Page(80)
    show_diagnostics(clean, "b", [])
    assert str(clean) == "b: clean"


def test_changes() -> None:
    page = Page(80, colour=True)
    show_changes(page, "a", "b", [Change("flops", 3, 2), Change("barrier", None, 1)])
    assert "\x1b[32m3 -> 2\x1b[0m" in str(page)
    assert "\x1b[31mnone -> 1\x1b[0m" in str(page)
    page = Page(80)
    show_changes(page, "a", "b", [])
    assert "no difference" in str(page)


def test_executables() -> None:
    page = Page(80)
    forms = (Representation("SASS", "machine code", "MOV R1\nRET\n", 12),)
    row = PipelineExecutable(
        "main", "shader", 32, (Statistic("Registers", "", 40),), forms
    )
    show_executables(page, [row], "GPU")
    assert "Registers  40" in str(page)
    assert "      MOV R1\n      RET" in str(page)
    page = Page(80)
    show_executables(page, [], "GPU")
    assert "lacks VK_KHR_pipeline_executable_properties" in str(page).replace("\n", " ")


def test_amounts() -> None:
    assert amount(1, "byte") == "1 byte"
    assert amount(12345, "byte") == "12 345 bytes"
    assert len(RULES) == 9
