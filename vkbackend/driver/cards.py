"""Cards: which physical devices are one card under several drivers, and their names.

The loader lists a card once for each driver that offers it, as RADV and AMDVLK, or the
proprietary NVIDIA driver and NVK. Used as two devices they would share memory without
knowing, so only one is listed. Two cards of one model have one name, which tells users
nothing, so each then gets its PCI address with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device_info import DeviceInfo
    from .physical_device import PhysicalDevice

NO_UUID = "0" * 32


def is_same_card(one: DeviceInfo, other: DeviceInfo) -> bool:
    """Return whether two devices are one card.

    By `deviceUUID`, which the specification has equal under all drivers and unique
    otherwise; or under two drivers by the PCI address, as some drivers make a UUID of
    their own. Partitions of a card, which share its address, are two under one driver.
    """
    if one.uuid == other.uuid and one.uuid != NO_UUID:
        return True
    several = one.driver_name != other.driver_name
    return several and one.pci_address == other.pci_address != ""


def group_by_card(rows: Sequence[PhysicalDevice]) -> list[list[PhysicalDevice]]:
    """Return the devices of each card, the best driver first.

    The best is one that lacks nothing required; then has the most of the library's
    optional features; then the newest Vulkan; then comes first in the loader's order.
    """
    cards: list[list[PhysicalDevice]] = []
    for row in rows:
        for card in cards:
            if is_same_card(card[0].info, row.info):
                card.append(row)
                break
        else:
            cards.append([row])
    for card in cards:
        card.sort(key=_rank, reverse=True)
    return cards


def _rank(row: PhysicalDevice) -> tuple[bool, int, tuple[int, ...]]:
    return not row.missing(), len(row.info.supported), row.info.api_version


def why_not(row: PhysicalDevice, chosen: PhysicalDevice) -> str:
    """Return why a driver was not chosen for its card, as a phrase."""
    lacking = row.missing()
    if lacking:
        return f"lacks {', '.join(lacking)}"
    fewer = len(chosen.info.supported) - len(row.info.supported)
    if fewer:
        missing = sorted(chosen.info.supported - row.info.supported)
        return f"has {fewer} fewer features, without {', '.join(missing)}"
    if row.info.api_version != chosen.info.api_version:
        return f"has Vulkan {'.'.join(map(str, row.info.api_version))}"
    return "comes later in the loader's order"


def unique_names(infos: Sequence[DeviceInfo]) -> list[str]:
    """Return a name for each device that no other has, the driver's where it can be.

    Of equal ones each gets its PCI address, or without such its number in the list.
    """
    names = []
    for number, info in enumerate(infos):
        equals = [each for each in infos if each.name == info.name]
        addresses = {each.pci_address for each in equals}
        if len(equals) == 1:
            names.append(info.name)
        elif len(addresses) == len(equals) and "" not in addresses:
            names.append(f"{info.name} (PCI {info.pci_address})")
        else:
            names.append(f"{info.name} (device {number})")
    return names
