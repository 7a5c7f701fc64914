"""Pages of a paged cache: which are free, and which hold how texts begin.

Source: Kwon et al. 2023, arXiv:2309.06180 (paged attention); Zheng et al. 2024,
arXiv:2312.07104 (prefixes of texts as a tree).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Prefix:
    """Tokens that a page holds, after those of the pages before it.

    Attributes
    ----------
    tokens : tuple of int
        As many as a page has, or fewer of a text that ends there.
    page : int
    parent : Prefix or None
        The page before it.
    children : dict of tuple to Prefix
        Pages that follow, by their tokens.
    """

    __slots__ = ("children", "page", "parent", "tokens")

    def __init__(
        self, tokens: tuple[int, ...], page: int, parent: Prefix | None
    ) -> None:
        self.tokens, self.page, self.parent = tokens, page, parent
        self.children: dict[tuple[int, ...], Prefix] = {}


class PartialPage(NamedTuple):
    """A page whose first tokens are the next ones of a text, and how many."""

    page: int
    length: int


class PagePool:
    """Allocator of pages, which counts the texts that hold each.

    A page that no text holds is free; what it holds stays known until it is taken for
    another text, the one that was released first before others.

    Parameters
    ----------
    pages : Iterable of int
        Their numbers.
    size : int
        Tokens of a page.

    Attributes
    ----------
    root : Prefix
        What every text begins with: nothing.
    """

    def __init__(self, pages: Iterable[int], size: int) -> None:
        self._size = size
        self._blank = [*pages][::-1]
        self._holders: dict[int, int] = {}
        self._known: dict[int, Prefix] = {}
        self._released: OrderedDict[int, None] = OrderedDict()
        self.root = Prefix((), -1, None)

    @property
    def free(self) -> int:
        """Number of pages that no text holds."""
        return len(self._blank) + len(self._released)

    def take(self) -> int | None:
        """Return a page for one text, or None if there is none."""
        if self._blank:
            page = self._blank.pop()
        elif self._released:
            page, _ = self._released.popitem(last=False)
            self._forget(page)
        else:
            return None
        self._holders[page] = 1
        return page

    def hold(self, page: int) -> None:
        """Let one more text have a page."""
        self._released.pop(page, None)
        self._holders[page] = self._holders.get(page, 0) + 1

    def release(self, pages: Sequence[int]) -> None:
        """Take pages from a text, of which the last ones are taken first by others."""
        for page in reversed(pages):
            self._holders[page] -= 1
            if self._holders[page]:
                continue
            del self._holders[page]
            if page in self._known:
                self._released[page] = None
            else:
                self._blank.append(page)

    def following(self, after: Prefix, tokens: Sequence[int]) -> Prefix | None:
        """Return the page that holds just these tokens, whole, or None."""
        return after.children.get(tuple(tokens))

    def partly_following(
        self, after: Prefix, tokens: Sequence[int]
    ) -> PartialPage | None:
        """Return the page that begins with most of these tokens, or None."""
        best: PartialPage | None = None
        for each in after.children.values():
            count = _common(each.tokens, tokens)
            if count > (best.length if best else 0):
                best = PartialPage(each.page, count)
        return best

    def remember(self, after: Prefix, page: int, tokens: Sequence[int]) -> Prefix:
        """Note what a page holds; return it, or another page that holds the same."""
        key = tuple(tokens)
        known = after.children.get(key)
        if known is not None:
            return known
        self._forget(page)
        found = after.children[key] = self._known[page] = Prefix(key, page, after)
        return found

    def _forget(self, page: int) -> None:
        known = self._known.pop(page, None)
        if known is not None and known.parent is not None:
            del known.parent.children[known.tokens]


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
