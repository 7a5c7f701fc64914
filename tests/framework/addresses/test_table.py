"""What the tables name is there."""

from vkbackend.framework.addresses.table import ABSENT, ADDRESSES, LAZY, OWN
from vkbackend.framework.base.late_modules import resolved

NEEDS_A_PACKAGE = {"utils.tensorboard"}


def test_sources_are_there() -> None:
    for sources, own in ADDRESSES.values():
        for source in (*sources, *own.values()):
            assert resolved(source) is not None
    for own in OWN.values():
        for source in own.values():
            assert resolved(source) is not None
    assert {*OWN} <= {*ABSENT}
    for name in LAZY:
        if name not in NEEDS_A_PACKAGE:
            assert resolved(name).__doc__


def test_no_name_is_in_two_tables() -> None:
    assert not {*LAZY} & {*ADDRESSES, *ABSENT}
    for address in {*ADDRESSES} & {*ABSENT}:
        sources, own = ADDRESSES[address]
        here = {*own, *(name for each in sources for name in dir(resolved(each)))}
        assert not here & {*ABSENT[address][1].split()}, address
