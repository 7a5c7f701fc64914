"""Meshes have the one device of this process."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.distributed.device_mesh import init_device_mesh


def test_mesh(group: Any) -> None:
    mesh = init_device_mesh("cuda", (1, 1), mesh_dim_names=("dp", "tp"))
    assert isinstance(mesh, fw.distributed.DeviceMesh)
    assert (mesh.ndim, mesh.shape, mesh.size(0)) == (2, (1, 1), 1)
    assert mesh["tp"].mesh_dim_names == ("tp",)
    assert (mesh.get_coordinate(), mesh.get_local_rank("dp")) == ([0, 0], 0)
    assert mesh.get_rank() == 0
    assert mesh.get_group("dp") is group
    assert mesh.get_all_groups() == [group, group]
    assert "DeviceMesh((1, 1), 'cuda'" in repr(mesh)
    with pytest.raises(KeyError, match="'x' is no dimension"):
        mesh["x"]
    with pytest.raises(NotImplementedError, match=r"mesh_shape is \(2,\)"):
        init_device_mesh("cuda", (2,))
    with pytest.raises(NotImplementedError, match="the mesh has 2 processes"):
        fw.distributed.DeviceMesh("cuda", [0, 1])
    with pytest.raises(ValueError, match="each dimension needs one"):
        fw.distributed.DeviceMesh("cuda", [0], mesh_dim_names=("a", "b"))
