"""What pays on devices of each kind."""

import dataclasses

import pytest

from tests.vkbackend.driver.test_device_info import bare
from vkbackend.driver.target import LOOP_LIMIT, target_of


@pytest.mark.parametrize("kind", ["discrete", "integrated", "virtual", "other"])
def test_gpus_of_every_kind_are_one_target(kind: str) -> None:
    info = dataclasses.replace(
        bare(frozenset()), kind=kind, subgroup_shuffle=True, min_subgroup_size=32
    )
    target = info.target
    assert target is info.target
    assert target.hides_latency
    assert target.fast_shuffles
    assert not target.broadcasts_registers
    assert target.compiles_row_kernels
    assert target.loop_limit is None


def test_subgroups_are_wide_where_there_are_no_others() -> None:
    info = dataclasses.replace(bare(frozenset()), kind="discrete", max_subgroup_size=64)
    for least, wide in ((32, False), (64, True)):
        target = dataclasses.replace(info, min_subgroup_size=least).target
        assert target.wide_subgroups is wide
    software = dataclasses.replace(info, min_subgroup_size=64, kind="software")
    assert not software.target.wide_subgroups


def test_software_devices_limit_loops_and_share_the_processor() -> None:
    info = dataclasses.replace(bare(frozenset()), kind="software")
    target = target_of(info)
    assert target.loop_limit == LOOP_LIMIT
    assert target.shares_processor
    assert not target.cheap_barriers
    assert not target.compiles_row_kernels
    assert not target.uniform_loads


def test_record_follows_a_change_of_the_device_info() -> None:
    info = dataclasses.replace(bare(frozenset({"shader_int64"})), kind="software")
    assert info.target.uniform_loads
    other = dataclasses.replace(info, kind="discrete", min_subgroup_size=32)
    assert not other.target.uniform_loads
