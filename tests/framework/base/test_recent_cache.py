"""What is in use stays, whatever else comes; there are two generations at most."""

import threading

from vkbackend.framework.base.recent_cache import RecentCache


def test_what_is_asked_for_stays() -> None:
    cache: RecentCache[int, str] = RecentCache(8)
    cache.add(-1, "in use")
    for number in range(1000):
        cache.add(number, "once")
        assert cache[-1] == "in use"
        assert cache[number] == "once"
        assert len(cache) + len(cache.older) <= 16


def test_what_is_not_goes() -> None:
    cache: RecentCache[int, str] = RecentCache(4)
    for number in range(12):
        cache.add(number, "once")
    assert cache[11] == cache[5] == "once"
    assert [cache[number] for number in range(4)] == [None] * 4


def test_a_full_cache_keeps_what_is_set_again() -> None:
    cache: RecentCache[int, str] = RecentCache(2)
    cache.add(0, "a")
    cache.add(1, "b")
    cache.add(0, "c")
    assert dict(cache) == {0: "c", 1: "b"}
    assert not cache.older


def test_the_first_entry_is_shared() -> None:
    cache: RecentCache[str, list[int]] = RecentCache(2)
    first = cache.shared("key", [])
    assert cache.shared("key", []) is first
    for number in range(9):
        cache.shared(f"{number}", [])
        assert cache["key"] is first


def test_cleared_it_has_no_older_ones() -> None:
    cache: RecentCache[int, str] = RecentCache(2)
    for number in range(4):
        cache.add(number, "entry")
    cache.clear()
    assert [cache[number] for number in range(4)] == [None] * 4


def test_threads_find_what_is_in_use() -> None:
    cache: RecentCache[tuple[int, int], int] = RecentCache(16)
    wrong = []

    def work(thread: int) -> None:
        for number in range(2000):
            key = thread, number % 3
            found = cache[key]
            if found not in (None, number % 3):
                wrong.append(found)
            cache.add(key, number % 3)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert len(cache) <= 16
