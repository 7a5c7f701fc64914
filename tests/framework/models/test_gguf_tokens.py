"""Numbers that the package gguf has for the types of tokens."""

import pytest

from vkbackend.framework.models import gguf_tokens

gguf = pytest.importorskip("gguf")


def test_types_are_those_of_files() -> None:
    for each in gguf.TokenType:
        assert getattr(gguf_tokens, each.name) == each.value
