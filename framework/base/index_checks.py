"""Index checks: what a kernel found out of range becomes an error on the host.

A kernel that reads indices writes one out of range into the device's status record, to
the slot of its site; see `lib/index_record.glsl`. A *site* is a call's name and what it
indexes, as "gather: dimension 1"; it gets a slot for each size, in the order in which
plans are built. The host looks at the record where it has waited for a result anyway.
"""

from __future__ import annotations

import sys
import threading

import vkbackend
from vkbackend import fork_safety

from .errors import IndexRangeError

UNCHECKED = ""
"""Site of indices that are in range, or were checked before."""

CLASSES = "classes"
"""What labels index; see `out_of_range`."""

OFFSETS = "offsets"
"""What ends of groups are; see `out_of_range`."""

BAG_OFFSETS = "bag offsets"
"""What starts of bags are, of which the size is 0: so that indices, of which there may
be another number in each call, take one slot."""

_enabled = True

# Site and size of each slot, in order from 1 on.
_sites: dict[tuple[str, int], int] = {}
_lock = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.RLock)


def is_index_checks_enabled() -> bool:
    """Return whether devices check indices; see `set_index_checks`."""
    return _enabled


def enable(enabled: bool) -> None:
    """Set whether plans that are built from now on check indices."""
    global _enabled
    _enabled = enabled


def slot_of(site: str, size: int, record: vkbackend.StatusRecord) -> int:
    """Return the slot of a site in a record; 0 if it is not to be checked."""
    if site == UNCHECKED or not _enabled:
        return 0
    with _lock:
        slot = _sites.get((site, size)) or len(_sites) + 1
        if slot >= _LAST_SLOT:
            slot = _LAST_SLOT
        else:
            _sites[site, size] = slot
        record.watch(slot)
    return slot


def out_of_range(site: str, index: int | str, size: int) -> IndexRangeError:
    """Return the error of an index out of range.

    Parameters
    ----------
    site : str
        The call and what it indexes, apart by ": ".
    index : int or str
        The index.
    size : int
        Number of what can be indexed.
    """
    name, _, indexed = (site or "index: the dimension").partition(": ")
    if indexed == CLASSES:
        found = f"label {index} is out of range: there are {size} classes"
    elif indexed == OFFSETS:
        found = f"offset {index} is out of range: offsets rise, up to {size}"
    elif indexed == BAG_OFFSETS:
        found = f"offset {index} is out of range: offsets rise, up to where indices end"
    else:
        word = "" if name == "index" else "index "
        found = f"{word}{index} is out of range: {indexed} has size {size}"
    return IndexRangeError(f"{name}: {found}")


def raise_recorded(gpu: vkbackend.Device, record: vkbackend.StatusRecord) -> None:
    """Raise the error that kernels have recorded, and clear the record.

    Waits for all submitted work, so that nothing writes the record meanwhile.

    Raises
    ------
    IndexRangeError
        If there is one. Of several sites it names the one that was planned first.
    """
    gpu.synchronize()
    with _lock:
        words = record.words()
        record.clear()
        found = [(slot, word) for slot, word in enumerate(words) if slot and word]
        if not found:
            return
        slot, word = found[0]
        sites = [*_sites]
    index = word - (1 << 31)
    said: int | str = index
    if abs(index) == _MOST:
        said = f"{index} or {'more' if index > 0 else 'less'}"
    if slot == _LAST_SLOT:
        raise IndexRangeError(
            f"index: {said} is out of range in one of more than {len(sites)} different"
            " calls, which are not told apart"
        )
    raise out_of_range(sites[slot - 1][0], said, sites[slot - 1][1])


_MOST = (1 << 31) - 1
"""Absolute value to which kernels clamp the index that they report."""

_LAST_SLOT = vkbackend.StatusRecord.SLOTS - 1
"""Slot that all further sites share."""
