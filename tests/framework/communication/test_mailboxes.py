"""Mailboxes on cards: their sizes; what moves in them is tested with the transport."""

from vkbackend.framework.communication import mailboxes
from vkbackend.framework.communication.mailboxes import Mailboxes, chunk_size


def test_slots_fit_into_a_part_of_the_card() -> None:
    assert chunk_size(2, 2) == mailboxes.CHUNK
    for size in (3, 8, 64):
        chunk = chunk_size(size, 2)
        assert chunk % 64 == 0
        assert 2 * size * chunk <= mailboxes.BYTES


def test_ranks_begin_with_different_cards() -> None:
    """Each other rank has a place of its own in the inbox."""
    orders = []
    for rank in range(3):
        made = Mailboxes.__new__(Mailboxes)
        made._rank, made._size, made._slots, made.chunk = rank, 3, 2, 64
        orders.append(made.others())
        places = {
            made._inbox_offset(each, slot) for each in made.others() for slot in (0, 1)
        }
        assert places == {0, 64, 128, 192}
    assert orders == [[1, 2], [2, 0], [0, 1]]
