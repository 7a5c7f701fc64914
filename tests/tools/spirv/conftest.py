"""What tests of `vkspirv` share."""

import pytest

from vkbackend.tools import drivers


@pytest.fixture(scope="session")
def radv() -> None:
    """Skip where the driver of AMD GPUs cannot be fetched."""
    try:
        drivers.environment("radv")
    except drivers.DriverError as error:
        pytest.skip(str(error))
