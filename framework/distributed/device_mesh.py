"""Meshes of devices, each dimension of which has the one device of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.process_group import ProcessGroup, default_group, group_for
from ..base.shape import Size
from ..tensor.tensor import Tensor
from .process_group import init_process_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """The one device of this process, with a name for each dimension.

    Parameters
    ----------
    device_type : str
        Kept as it is.
    mesh : Tensor or nested sequence of int
        Ranks of the processes; the only one is 0.
    mesh_dim_names : tuple of str, optional
        Names of the dimensions.

    Raises
    ------
    NotImplementedError
        If the mesh has several processes.
    ValueError
        If it has another number of dimensions than names.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
    ) -> None:
        self.mesh = mesh if isinstance(mesh, Tensor) else Tensor(mesh)
        if self.mesh.numel() != 1:
            raise NotImplementedError(
                f"DeviceMesh: the mesh has {self.mesh.numel()} processes; one process"
                " computes on one device here"
            )
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names is not None and len(names) != self.mesh.ndim:
            raise ValueError(
                f"DeviceMesh: the mesh has {self.mesh.ndim} dimensions and the names"
                f" {names}; each dimension needs one"
            )
        self.device_type = device_type
        self.mesh_dim_names = names
        self._group = group_for("DeviceMesh")

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions, all 1."""
        return Size(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return 1, the number of processes."""
        return 1

    def get_rank(self) -> int:
        """Return 0, the number of this process."""
        return 0

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return 0, the number of this process in a dimension."""
        return 0

    def get_coordinate(self) -> list[int]:
        """Return the place of this process: 0 in each dimension."""
        return [0] * self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of the processes of a dimension."""
        return self._group

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the group of each dimension."""
        return [self._group] * self.ndim

    def __getitem__(self, mesh_dim_names: str | Sequence[str]) -> DeviceMesh:
        """Return the mesh of some of the dimensions.

        Raises
        ------
        KeyError
            If a name is no dimension's.
        """
        names = (
            (mesh_dim_names,)
            if isinstance(mesh_dim_names, str)
            else tuple(mesh_dim_names)
        )
        for name in names:
            if name not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"DeviceMesh: {name!r} is no dimension; there are"
                    f" {self.mesh_dim_names}"
                )
        mesh = self.mesh.reshape((1,) * len(names))
        return DeviceMesh(self.device_type, mesh, mesh_dim_names=names)

    def __repr__(self) -> str:
        """Return dimensions, kind of device and names."""
        return (
            f"DeviceMesh({tuple(self.shape)}, {self.device_type!r},"
            f" mesh_dim_names={self.mesh_dim_names})"
        )


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Return a mesh, and initialise the group of this process where there is none.

    Raises
    ------
    NotImplementedError
        If a size is not 1: one process computes on one device.
    ValueError
        If no group is initialised and the environment tells of none.
    """
    if any(size != 1 for size in mesh_shape):
        raise NotImplementedError(
            f"init_device_mesh: mesh_shape is {tuple(mesh_shape)}; one process computes"
            " on one device here, so each size must be 1"
        )
    if default_group() is None:
        init_process_group()
    mesh = Tensor([0]).reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
