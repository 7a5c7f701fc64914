"""The group of all processes where there is one, and what cannot be had."""

import builtins
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import setup

dist = fw.distributed


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(setup, "_groups", [])
    return


def test_alone() -> None:
    group = dist.init(device="cpu")
    assert dist.init() is group
    assert (group.rank, group.size, group.ranks) == (0, 1, (0,))
    assert group.device is fw.device("cpu")
    assert str(dist.transport()) == "none: this process is alone"
    assert dist.split(group, 0) is group
    assert dist.split(group, None) is None
    with pytest.raises(ValueError, match="color is -1"):
        dist.split(group, -1)


def test_what_is_not_known() -> None:
    with pytest.raises(ValueError, match="backend is 'nccl'; it must be one of any"):
        dist.init(backend="nccl")
    with pytest.raises(ValueError, match="transport is 'tcp'"):
        dist.init(transport="tcp")
    with pytest.raises(DistributedError, match=r"alone, .*tools\.launch -n 2"):
        dist.init(strict=True)


def test_more_ranks_than_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Software devices do not count."""
    kinds = ("discrete", "software", "discrete")
    found = [SimpleNamespace(info=SimpleNamespace(kind=each)) for each in kinds]
    monkeypatch.setattr(setup.vkbackend, "devices", lambda: found)
    monkeypatch.delenv("VKBACKEND_DEVICE", raising=False)
    job: Any = SimpleNamespace(rank=5, local_rank=2, local_size=3)
    with pytest.raises(
        DistributedError,
        match="rank 5 is number 2 of the 3 processes of this machine, which has 2 dev",
    ):
        setup._device(job)


def test_without_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    plain = builtins.__import__

    def without(name: str, *given: Any, **options: Any) -> Any:
        if name == "mpi4py":
            raise ImportError("No module named 'mpi4py'")
        return plain(name, *given, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        DistributedError, match=r"No module.*pip install 'vkbackend.mpi"
    ):
        dist.init()


def test_neither_init_nor_the_module_imports_mpi() -> None:
    program = (
        "import sys, vkbackend.framework as fw; fw.distributed.init();"
        "assert 'mpi4py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
