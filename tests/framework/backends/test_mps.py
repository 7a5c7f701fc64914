"""Metal, as programs ask for it."""

import vkbackend.framework as fw


def test_there_is_none() -> None:
    assert not fw.backends.mps.is_available()
    assert not fw.backends.mps.is_built()
