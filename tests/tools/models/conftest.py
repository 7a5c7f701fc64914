from pathlib import Path

import pytest

from tests.framework.models.small import write_checkpoint

pytest.importorskip("tokenizers")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small language model."""
    path = tmp_path_factory.mktemp("command") / "small"
    write_checkpoint(path)
    return path
