"""Named cases."""

from vkbackend.tools.bench.sweep import named
from vkbackend.tools.bench.sweep.units import units


def test_names_tell_the_cases_apart() -> None:
    known = units()
    for size in ("full", "small"):
        found = [(each.title, each.dtype) for each in named.cases(known, size)]
        assert len(set(found)) == len(found)
        assert any("graph_step" in title for title, _ in found)
