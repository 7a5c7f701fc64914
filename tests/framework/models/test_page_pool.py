"""Pages that are free, held by texts, and known for what they hold."""

from vkbackend.framework.models.page_pool import PagePool, PartialPage


def test_pages_are_counted() -> None:
    pool = PagePool(range(1, 4), 2)
    assert [pool.take() for _ in range(4)] == [1, 2, 3, None]
    pool.hold(2)
    pool.release([1, 2])
    assert pool.free == 1
    pool.release([2])
    assert pool.free == 2


def test_what_a_free_page_holds_is_known_until_it_is_taken() -> None:
    pool = PagePool(range(1, 4), 2)
    first, second = pool.take(), pool.take()
    assert first is not None
    assert second is not None
    one = pool.remember(pool.root, first, [5, 6])
    two = pool.remember(one, second, [7, 8])
    assert pool.following(pool.root, [5, 6]) is one
    assert pool.following(pool.root, [5, 7]) is None
    assert pool.following(one, (7, 8)) is two
    pool.release([first, second])
    assert (pool.free, pool.following(one, [7, 8])) == (3, two)
    # A blank one first, then the end of a text before its beginning.
    assert pool.take() == 3
    assert (pool.take(), pool.following(one, [7, 8])) == (second, None)
    pool.hold(first)
    assert pool.take() is None


def test_pages_that_begin_alike() -> None:
    pool = PagePool(range(1, 4), 3)
    pages = [pool.take() for _ in range(2)]
    assert pages == [1, 2]
    pool.remember(pool.root, 1, [1, 2, 3])
    pool.remember(pool.root, 2, [1, 4])
    assert pool.partly_following(pool.root, [1, 2, 9]) == PartialPage(1, 2)
    assert pool.partly_following(pool.root, [1, 4, 4]) == PartialPage(2, 2)
    assert pool.partly_following(pool.root, [9]) is None
    # It has become longer, and is known for all of it.
    whole = pool.remember(pool.root, 2, [1, 4, 4])
    assert pool.partly_following(pool.root, [1, 4, 4]) == PartialPage(2, 3)
    # Another page of the same tokens is not known.
    assert pool.take() == 3
    assert pool.remember(pool.root, 3, [1, 4, 4]) is whole
    pool.release([3])
    assert pool.take() == 3
