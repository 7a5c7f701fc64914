"""How a tensor would lie on a mesh of devices, and modules be divided over it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ..nn.module import Module
from .device_mesh import DeviceMesh

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "Partial",
    "Placement",
    "PrepareModuleInput",
    "PrepareModuleOutput",
    "Replicate",
    "RowwiseParallel",
    "SequenceParallel",
    "Shard",
]


class Placement:
    """How a tensor lies in a dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is divided, and in dimension `dim` where that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each process has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether it is yet to be reduced, by `reduce_op` where given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Divided in a dimension."""

    dim: int

    def __str__(self) -> str:
        """Return `S` with the dimension."""
        return f"S({self.dim})"


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor in each process."""

    def __str__(self) -> str:
        """Return `R`."""
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Yet to be reduced over the processes."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        """Return `P` with the reduction."""
        return f"P({self.reduce_op})"

    def __repr__(self) -> str:
        """Return the class with the reduction."""
        return f"Partial({self.reduce_op})"


class ParallelStyle(ABC):
    """How a module would be divided over a mesh: what plans are made of."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


class _Style(ParallelStyle):
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError(
            f"{type(self).__name__}: one process computes on one device; use the module"
            " itself"
        )


class ColwiseParallel(_Style):
    """Divides a layer's outputs; by default its inputs are whole."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.desired_input_layouts = (Replicate(),)
        self.use_local_output = use_local_output


class RowwiseParallel(_Style):
    """Divides a layer's inputs; by default its outputs are whole."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.use_local_output = use_local_output


class SequenceParallel(_Style):
    """Divides the sequence of a layer's inputs."""

    def __init__(
        self, *, sequence_dim: int = 1, use_local_output: bool = False
    ) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output


class PrepareModuleInput(_Style):
    """Changes how a module's inputs lie."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _tuple(input_layouts)
        self.desired_input_layouts = _tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output


class PrepareModuleOutput(_Style):
    """Changes how a module's outputs lie."""

    def __init__(
        self,
        *,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _tuple(output_layouts)
        self.desired_output_layouts = _tuple(desired_output_layouts)
        self.use_local_output = use_local_output


def _tuple(layouts: Any) -> Any:
    return (layouts,) if isinstance(layouts, Placement) else layouts
