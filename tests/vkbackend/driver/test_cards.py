"""One card under several drivers, and two cards of one model, on made-up devices."""

import dataclasses
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.vkbackend.driver.test_device_info import bare
from vkbackend.driver import physical_device
from vkbackend.driver.cards import NO_UUID, is_same_card, unique_names, why_not
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.physical_device import PhysicalDevice, list_cards
from vkbackend.framework.base.device import GpuDevice
from vkbackend.vk import generated as vk

DEFAULTS: dict[str, Any] = {
    "name": "Big GPU",
    "kind": "discrete",
    "driver_name": "ours",
    "api_version": (1, 3, 0),
    "uuid": "a" * 32,
    "pci_address": "0000:06:00.0",
}


def made(*features: str, **values: Any) -> DeviceInfo:
    """Return the record of a device with some features."""
    return dataclasses.replace(bare(frozenset(features)), **{**DEFAULTS, **values})


class Row(PhysicalDevice):
    """A physical device that is a record alone."""

    def __init__(self, info: DeviceInfo, lacking: tuple[str, ...] = ()) -> None:
        self.info = info
        self.name = info.name
        self.lacking = lacking

    def missing(self) -> list[str]:
        return list(self.lacking)


OTHER = {"uuid": "b" * 32}
ELSEWHERE = {"pci_address": "0000:07:00.0"}


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ({"driver_name": "theirs", **ELSEWHERE}, True),
        ({"driver_name": "theirs", **OTHER}, True),
        # Listed twice, by two manifests of one driver.
        ({}, True),
        # Partitions of one card.
        (OTHER, False),
        ({"driver_name": "theirs", **OTHER, **ELSEWHERE}, False),
        ({"driver_name": "theirs", **OTHER, "pci_address": ""}, False),
    ],
)
def test_same_card(values: dict[str, Any], same: bool) -> None:
    assert is_same_card(made(), made(**values)) == same


def test_no_uuid_and_no_address_are_no_card() -> None:
    nameless = {"uuid": NO_UUID, "pci_address": ""}
    assert not is_same_card(made(**nameless), made(**nameless, driver_name="theirs"))


@pytest.mark.parametrize(
    ("better", "worse", "reason"),
    [
        (Row(made()), Row(made("x"), ("Vulkan 1.3",)), "lacks Vulkan 1.3"),
        (Row(made("x", "y")), Row(made("x")), "has 1 fewer features, without y"),
        (Row(made()), Row(made(api_version=(1, 2, 9))), "has Vulkan 1.2.9"),
    ],
)
def test_the_driver_with_the_most_is_chosen(
    better: Row, worse: Row, reason: str
) -> None:
    for rows in ([better, worse], [worse, better]):
        assert list_cards(rows) == (better,)
        assert better.others == (worse,)
        assert why_not(worse, better) == reason


def test_equal_drivers_keep_the_order_of_the_loader() -> None:
    first, second = Row(made()), Row(made(driver_name="theirs"))
    assert list_cards([first, second]) == (first,)
    assert why_not(second, first) == "comes later in the loader's order"


def test_cards_are_listed_best_first() -> None:
    software = Row(made(kind="software", name="slow", **OTHER, pci_address=""))
    big = Row(made())
    assert list_cards([software, big]) == (big, software)


def test_equal_cards_have_unequal_names() -> None:
    pair = [made(), made(**OTHER, **ELSEWHERE)]
    other = made(name="Small GPU")
    assert unique_names([*pair, other]) == [
        "Big GPU (PCI 0000:06:00.0)",
        "Big GPU (PCI 0000:07:00.0)",
        "Small GPU",
    ]
    pair[1] = made(**OTHER)
    numbered = ["Big GPU (device 0)", "Big GPU (device 1)"]
    assert unique_names(pair) == numbered
    assert unique_names([made(pci_address=""), made(**OTHER)]) == numbered


@pytest.mark.device
def test_equal_cards_are_told_apart_by_users(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices of this machine's one card, as if there were two."""
    rows = [
        PhysicalDevice(gpu.gpu.physical.instance, gpu.gpu.physical.handle)
        for _ in range(2)
    ]
    for number, row in enumerate(rows):
        address = {"uuid": f"{number}" * 32, "pci_address": f"0000:0{number}:00.0"}
        row.info = dataclasses.replace(row.info, **address)
    both = list_cards(rows)
    monkeypatch.setattr(physical_device, "devices", lambda: both)
    monkeypatch.setattr(vkbackend, "devices", lambda: both)
    names = [f"{row.info.name} (PCI {row.info.pci_address})" for row in rows]
    assert fw.devices() == [*names, "cpu"]
    first, second = fw.device(0), fw.device("pci 0000:01")
    assert [first.name, second.name] == names
    assert pickle.loads(pickle.dumps(second)) is second
    x, y = (fw.ones(2, device=place) for place in (first, second))
    with pytest.raises(RuntimeError, match="`x` on vulkan:0, `y` on vulkan:1"):
        fw.add(x, y)
    with pytest.raises(vkbackend.ArgumentError) as found:
        first.gpu.upload(b"", second.gpu.allocate(4))
    assert all(name in str(found.value) for name in names)
    del x, y
    for each in (first, second):
        each.gpu.close()


def test_the_address_is_that_of_the_bus() -> None:
    def properties(_: int, head: Any) -> None:
        struct = vk.VkPhysicalDevicePCIBusInfoPropertiesEXT
        place = struct.from_address(head._obj.pNext)
        place.pciDomain, place.pciBus, place.pciDevice, place.pciFunction = 1, 6, 17, 3

    functions = SimpleNamespace(vkGetPhysicalDeviceProperties2=properties)
    row = Row(made())
    row.handle, row.instance = 1, SimpleNamespace(functions=functions)  # type: ignore[assignment]
    row.extensions = frozenset({vk.VK_EXT_PCI_BUS_INFO_EXTENSION_NAME})
    assert row._read_pci_address() == "0001:06:11.3"
    row.extensions = frozenset()
    assert row._read_pci_address() == ""
