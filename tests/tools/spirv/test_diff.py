from vkbackend.tools.spirv.diff import Change, differences
from vkbackend.tools.spirv.report import report

from .shaders import SHARED, compiled, main_of


def test_equal_shaders() -> None:
    one = report("one", compiled(SHARED))
    assert differences(one, report("two", compiled(SHARED))) == []


def test_constants() -> None:
    words = compiled(SHARED)
    changes = differences(report("a", words), report("b", words, {"ROWS": 64}))
    assert Change("constants.ROWS.value", 32, 64) in changes
    assert Change("shared.size", 256, 512) in changes
    assert Change("shared.variables.tile.size", 256, 512) in changes


def test_what_is_gained_and_lost() -> None:
    one = report("a", main_of("push.y.at[i] = 1.0;"))
    two = report("b", compiled(SHARED))
    changes = {row.where: (row.old, row.new) for row in differences(one, two)}
    assert changes["constants.ROWS"] == (None, "type uint, default 32, value 32")
    assert changes["classes.barrier"] == (None, 1)
    assert changes["shared.variables.tile"] == (None, "type float[64], size 256")
    back = {row.where: (row.old, row.new) for row in differences(two, one)}
    assert back["classes.barrier"] == (1, None)
