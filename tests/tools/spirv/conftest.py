"""What tests of `vkspirv` share."""

import pytest

from tests.tools import kept_drivers


@pytest.fixture(scope="session")
def radv() -> None:
    """Skip where the driver of AMD GPUs cannot be fetched."""
    kept_drivers.environment("radv")
