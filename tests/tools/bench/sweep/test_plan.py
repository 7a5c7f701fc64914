"""Cases and their order."""

from vkbackend.tools.bench.sweep.plan import BOTH, FORWARD, cases
from vkbackend.tools.bench.sweep.units import units


def test_what_tells_most_comes_first() -> None:
    some = {name: units()[name] for name in ("exp", "softmax", "mm")}
    found = cases(some, "full")
    assert [each.title for each in found[:4]] == [
        "exp contiguous forward",
        "softmax contiguous forward",
        "mm contiguous forward",
        "exp contiguous both",
    ]
    assert {each.direction for each in found} == {FORWARD, BOTH}
    assert len({(each.title, each.dtype) for each in found}) == len(found)
    assert len(cases(some, "small")) == 6
    assert len(cases(some, "full", every=True)) > 2 * len(found)
