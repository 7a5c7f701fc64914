"""Opening devices, one for each physical device, and closing them at exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from vkbackend.device import Device, disown_all, unclosed
from vkbackend.driver import instance, physical_device
from vkbackend.driver.physical_device import PhysicalDevice
from vkbackend.errors import Error

from . import fork_safety

_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.Lock)
_opened: dict[PhysicalDevice, Device] = {}


def open_device(selector: str | int | None = None) -> Device:
    """Return a device, opening it on the first call for it.

    Parameters
    ----------
    selector : str or int, optional
        An index into `devices()`, or part of a name in any case, as `llvmpipe`. None
        means `VKBACKEND_DEVICE`, or the best device when that is unset.

    Returns
    -------
    Device
        The same object for the same physical device until it is closed or lost.

    Raises
    ------
    NoVulkanError
        If there is no such device, or none at all; says what to do.
    """
    chosen = physical_device.choose(selector)
    with _lock:
        found = _opened.get(chosen)
        if found is None or not found.usable:
            found = _opened[chosen] = Device(chosen)
            found.at_close.append(_forget_closed)
        return found


def _forget_closed() -> None:
    for chosen, device in list(_opened.items()):
        if not device.usable:
            _opened.pop(chosen, None)


def close_all() -> None:
    """Close every device and the Vulkan instance.

    The instance stays if a device cannot be closed, whose error is raised.
    """
    failure: Error | None = None
    for device in unclosed():
        try:
            device.close()
        except Error as error:
            failure = error
    if failure is not None:
        raise failure
    instance.close()


def _forget_parent() -> None:
    """Start afresh in a forked child: Vulkan objects do not survive a fork."""
    instance.forget()
    physical_device.forget()
    disown_all()
    _opened.clear()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
