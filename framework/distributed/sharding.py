"""How parameters would be sharded: options that programs make and hand over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ..base.dtype import DType
from ..nn.batchnorm import _BatchNorm
from ..nn.module import Module

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CPUOffloadPolicy",
    "DataParallelMeshDims",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
    "register_fsdp_forward_method",
]


class ShardingStrategy(Enum):
    """What is divided among processes."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered in a backward pass."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What a state has of divided parameters."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What an optimizer's state calls its parameters."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """Dtypes of divided parameters, of reductions and of buffers."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether divided parameters stay on the host."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Where a module's state is put together."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Options of a whole state."""

    rank0_only: bool = False


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of a divided state."""

    _use_dtensor: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of one process's part of a state."""


@dataclass
class OptimStateDictConfig:
    """Where an optimizer's state is put together."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options of an optimizer's whole state."""

    rank0_only: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of an optimizer's divided state."""

    _use_dtensor: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of one process's part of an optimizer's state."""

    offload_to_cpu: bool = False


@dataclass
class StateDictSettings:
    """A kind of state, with options of a module's and of an optimizer's."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of divided parameters, of reductions and of outputs."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Leaves divided parameters where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Keeps divided parameters on the host."""

    pin_memory: bool = True


@dataclass(frozen=True)
class DataParallelMeshDims:
    """Names of a mesh's dimensions over which parameters are divided or copied."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Do nothing, as in PyTorch for a module whose parameters are not divided."""
