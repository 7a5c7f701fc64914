"""Check in a child process that a driver imports pages, where that is not known.

A driver that refuses an import may refuse nearly every later allocation of the process
too (an NVIDIA one does, given a file's pages), so that the first try of an unknown one
is another process's.
"""

import functools
import sys

from vkbackend.driver.device_info import DeviceInfo

_KNOWN_DRIVERS = frozenset({"NVIDIA", "llvmpipe"})
"""Names of drivers that were seen to import pages, for copies and kernels."""

_LIMIT_SECONDS = 60.0

# Both kinds of pages, there and back, and an allocation after that.
_PROGRAM = """
import sys
import vkbackend
uuid, driver = sys.argv[1:]
chosen = next(
    row
    for row in vkbackend.devices()
    if (row.info.uuid, row.info.driver_name) == (uuid, driver)
)
device = vkbackend.Device(chosen)
device.memory.imports_checked = True
for make in (vkbackend.HostPages.anonymous, vkbackend.HostPages.shared):
    pages = make(1 << 16)
    buffer, other = device.import_pages(pages), device.allocate(1 << 16)
    batch = device.batch()
    batch.fill(other, 0x01020304)
    batch.copy(other, buffer)
    batch.submit().wait()
    assert bytes(pages.view()) == b"\\x04\\x03\\x02\\x01" * (1 << 14)
device.allocate(64 << 20)
device.close()
"""


def is_known(info: DeviceInfo) -> bool:
    """Return whether the driver is known to import pages."""
    return info.driver_name in _KNOWN_DRIVERS


def failure_in_child(info: DeviceInfo) -> str:
    """Return what went wrong when a child process imported pages, or "".

    Waits for that process, once for each card and driver.
    """
    return _failure(info.uuid, info.driver_name)


@functools.cache
def _failure(uuid: str, driver: str) -> str:
    import subprocess  # imported slowly, and seldom needed

    command = [sys.executable, "-c", _PROGRAM, uuid, driver]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the child process was not to be had: {type(error).__name__}"
    if not done.returncode:
        return ""
    last = done.stderr.strip().rpartition("\n")[2]
    return f"the child process ended with {done.returncode}: {last or 'no message'}"
