"""Stop words, wherever the parts of a text are cut."""

import itertools

import pytest

from vkbackend.tools.models.stop_words import StopWords


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ("one two three", ["two"], "one "),
        ("one two three", ["three", "two"], "one "),
        ("aab", ["ab"], "a"),
        ("abcabd", ["abd"], "abc"),
        ("abcabd", ["abe", "x"], "abcabd"),
        ("the end ab", ["abc"], "the end ab"),
        ("two", ["two"], ""),
        ("text", [], "text"),
    ],
)
def test_a_text_in_all_its_parts(text: str, words: list[str], shown: str) -> None:
    for cuts in itertools.combinations(range(1, len(text)), 2):
        stop = StopWords(words)
        places = [0, *cuts, len(text)]
        parts = [text[a:b] for a, b in itertools.pairwise(places)]
        found = [stop.add(part) for part in parts]
        assert "".join([*found, stop.add("", is_last=True)]) == shown
        assert stop.found == (shown != text)


def test_only_what_may_be_a_word_is_held_back() -> None:
    stop = StopWords(["\n\n", "END"])
    assert [stop.add(part) for part in ("a\n", "b", " E", "N", "d")] == [
        "a",
        "\nb",
        " ",
        "",
        "ENd",
    ]
    assert stop.add("\n", is_last=True) == "\n"
