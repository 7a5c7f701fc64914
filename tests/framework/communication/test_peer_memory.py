"""Blocks that ranks tell each other of; what is pulled is tested with the transport."""

from vkbackend.framework.communication.peer_memory import PeerMemory


def test_ranks_begin_with_different_cards() -> None:
    orders = []
    for rank in range(3):
        made = PeerMemory.__new__(PeerMemory)
        made._rank, made._size = rank, 3
        orders.append(made.others())
    assert orders == [[1, 2], [2, 0], [0, 1]]
