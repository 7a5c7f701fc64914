"""Stop words: where a text that comes in parts ends."""

from __future__ import annotations

from collections.abc import Sequence


class StopWords:
    """Holds back what may be the beginning of a word at which a text ends.

    Parameters
    ----------
    words : sequence of str
        None of them empty.

    Attributes
    ----------
    found : bool
        Whether the text has ended.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self._held = ""
        self.found = False

    def add(self, text: str, is_last: bool = False) -> str:
        """Return what can be shown, as the text goes on or ends."""
        if self.found:
            return ""
        text = self._held + text
        self._held = ""
        places = [at for word in self._words if (at := text.find(word)) >= 0]
        if places:
            self.found = True
            return text[: min(places)]
        if is_last:
            return text
        shown = len(text) - self._beginning(text)
        self._held = text[shown:]
        return text[:shown]

    def _beginning(self, text: str) -> int:
        """Return the length of the longest end of a text that begins a word."""
        longest = max((len(word) for word in self._words), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(word.startswith(text[-size:]) for word in self._words):
                return size
        return 0
