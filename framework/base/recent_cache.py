"""Cache with a limit that drops nothing of what is in use."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
Entry = TypeVar("Entry")


class RecentCache(dict[Key, "Entry | None"]):
    """Cache of what was used of late, in two generations; read it with `cache[key]`.

    Full, its entries become the older ones, from which what is asked for comes back;
    the others go when it is full again. So a cache that is too small for all that comes
    drops what was not used for that long, and needs no order of use.

    Parameters
    ----------
    most : int
        Entries of a generation: there are at most twice as many.

    Attributes
    ----------
    older : dict
        The older entries.

    Examples
    --------
    >>> cache: RecentCache[str, int] = RecentCache(2)
    >>> for number, key in enumerate("abac"):
    ...     if cache[key] is None:
    ...         cache.add(key, number)
    >>> cache["a"], cache["c"], len(cache)
    (0, 3, 2)
    """

    __slots__ = ("most", "older")

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.older: dict[Key, Entry | None] = {}

    def __missing__(self, key: Key) -> Entry | None:
        """Return an older entry, which is a recent one again; None if there is none."""
        entry = self.older.get(key)
        if entry is not None:
            self.add(key, entry)
        return entry

    def add(self, key: Key, entry: Entry) -> None:
        """Set an entry; if that is one too many, the older ones go."""
        self._make_room(key)
        self[key] = entry

    def shared(self, key: Key, entry: Entry) -> Entry:
        """Return the entry of a key: the given one, or what another thread has set."""
        self._make_room(key)
        found = self.setdefault(key, entry)
        assert found is not None
        return found

    def _make_room(self, key: Key) -> None:
        if len(self) >= self.most and key not in self:
            self.older = dict(self)
            super().clear()

    def clear(self) -> None:
        """Drop all entries, the older ones too."""
        self.older = {}
        super().clear()
