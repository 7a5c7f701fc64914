"""The group of one process, for a test."""

from collections.abc import Iterator

import pytest

import vkbackend.framework as fw


@pytest.fixture
def group() -> Iterator[fw.distributed.ProcessGroup]:
    fw.distributed.init_process_group("gloo", world_size=1, rank=0)
    yield fw.distributed.group.WORLD
    fw.distributed.destroy_process_group()
