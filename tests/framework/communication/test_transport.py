"""What all transports have in common."""

import pytest

from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.progress import Steps
from vkbackend.framework.communication.transport import (
    HEADER,
    Call,
    Header,
    mismatch,
    rounds_of,
)


def test_headers() -> None:
    header = Header("all_sum", "float32 (2,)", 3, (8,))
    packed = header.packed()
    assert len(packed) < HEADER
    assert Header.unpacked(packed + bytes(99)) == header
    with pytest.raises(DistributedError, match=r"takes .* bytes, and 4096 is"):
        Header("all_sum", "", 0, tuple(range(10_000, 20_000))).packed()


def test_mismatch_names_ranks_and_calls() -> None:
    same = Header("all_sum", "float32 (2,)", 3, (8,))
    other = Header("all_gather", "float32 (3,)", 3, (12,))
    assert mismatch([same, same], (4, 6), 0) == ""
    text = mismatch([same, other], (4, 6), 0)
    assert "rank 6 asks for all_gather of float32 (3,), and this rank, 4," in text
    assert str(Call("barrier")) == "barrier"


def test_rounds() -> None:
    headers = [Header("", "", 0, sizes) for sizes in ((0, 5), (8, 9))]
    assert rounds_of(headers, 4) == 3
    assert rounds_of([Header("", "", 0, (0,))], 4) == 1


def nothing() -> Steps:
    yield from ()


def test_a_group_that_was_closed_or_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> None:
        transport = group._transport
        assert transport is not None
        task = transport.start(Call("mine"), nothing(), "line")
        transport.give_up(task, ValueError("wrong"))
        with pytest.raises(DistributedError, match="as mine has failed before"):
            group.barrier()
        group.close()
        with pytest.raises(DistributedError, match="barrier: the group was destroyed"):
            group.barrier()

    as_threads(monkeypatch, 2).run(work)
