"""Drivers in the user's cache, where the gate keeps them, not in that of the tests."""

import contextlib

import pytest

from vkbackend import config
from vkbackend.tools import drivers


def environment(name: str) -> dict[str, str]:
    """Return the environment of a driver, or skip the test if it cannot be fetched.

    The cache of the tests has a link to it, so that tools find it there too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(config.CACHE.name, raising=False)
        try:
            found = drivers.environment(name)
        except drivers.DriverError as error:
            pytest.skip(str(error))
        kept = config.cache_folder() / "drivers" / name
    link = config.cache_folder() / "drivers" / name
    if kept.exists() and not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        # Another worker, with the same cache, may be quicker.
        with contextlib.suppress(FileExistsError):
            link.symlink_to(kept, target_is_directory=True)
    return found
