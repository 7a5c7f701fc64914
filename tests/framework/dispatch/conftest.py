"""What the tests of declared ops share."""

from collections.abc import Iterator

import pytest

from vkbackend.framework.dispatch.op import REGISTRY


@pytest.fixture
def registry() -> Iterator[None]:
    """Forget the ops that a test declares."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)
