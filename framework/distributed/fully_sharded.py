"""PyTorch's forms of modules that are divided among processes; see `nn.FSDP`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..base.process_group import ProcessGroup, group_for
from ..communication.group import Group, alone
from ..nn.fsdp.unit import Dtypes, FSDPUnit
from ..nn.fsdp.wrapper import FSDP
from ..nn.fsdp.wrapper import fully_shard as divide
from ..nn.module import Module
from ..optim.grad_scaler import GradScaler
from .device_mesh import DeviceMesh
from .sharding import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    ShardingStrategy,
    StateDictType,
)

__all__ = [
    "FSDPModule",
    "FullyShardedDataParallel",
    "ShardedGradScaler",
    "UnshardHandle",
    "fully_shard",
]

_KINDS = {
    StateDictType.FULL_STATE_DICT: "full",
    StateDictType.SHARDED_STATE_DICT: "sharded",
    StateDictType.LOCAL_STATE_DICT: "sharded",
}


class ShardedGradScaler(GradScaler):
    """`GradScaler`, which takes the gradients of all ranks together by itself."""


class FullyShardedDataParallel(FSDP):
    """Module whose parameters are divided among processes; see `nn.FSDP`.

    Parameters
    ----------
    module : Module
    process_group : ProcessGroup, optional
        By default the one that `distributed.init_process_group` made.
    sharding_strategy : ShardingStrategy, optional
        `FULL_SHARD` by default; with `SHARD_GRAD_OP` parameters stay gathered from the
        forward pass to the backward pass.
    cpu_offload : CPUOffload, optional
    auto_wrap_policy : callable, optional
        Which modules are units of their own.
    mixed_precision : MixedPrecision, optional
    ignored_modules : iterable of Module, optional
    param_init_fn : callable, optional
        Called with each module first, to give it elements.
    device_id : Device, str or int, optional
        Where this rank's parts are moved to; a number stands for the process's device.
    sync_module_states : bool, default False
        Whether the values of rank 0 count; else they must be alike.
    backward_prefetch, forward_prefetch, limit_all_gathers, use_orig_params : object
        Without effect: the next unit is gathered while one computes, and parameters
        keep their names.

    Raises
    ------
    NotImplementedError
        If parameters are to stay on the host, to be divided among some processes and
        copied among others, or not divided at all.
    ValueError
        If no process group is initialised.
    """

    def __init__(
        self,
        module: Module,
        process_group: ProcessGroup | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], object] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        known = ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP
        if strategy not in known:
            raise NotImplementedError(
                f"FullyShardedDataParallel: sharding_strategy is {strategy.name}; it"
                " must be FULL_SHARD or SHARD_GRAD_OP, or use DistributedDataParallel"
            )
        if cpu_offload is not None and cpu_offload.offload_params:
            _refuse_offload("FullyShardedDataParallel")
        if param_init_fn is not None:
            for each in module.modules():
                param_init_fn(each)
        low = mixed_precision or MixedPrecision()
        ignored = [*(ignored_modules or ()), *(ignored_states or ())]
        super().__init__(
            module,
            _group_of("FullyShardedDataParallel", process_group, device_mesh),
            auto_wrap_policy=auto_wrap_policy,
            reshard_after_forward=None if strategy is known[0] else False,
            param_dtype=low.param_dtype,
            reduce_dtype=low.reduce_dtype,
            buffer_dtype=low.buffer_dtype,
            ignored_modules=[each for each in ignored if isinstance(each, Module)],
            init_sync=sync_module_states,
        )
        if device_id is not None:
            place = self.group.device if isinstance(device_id, int) else device_id
            self.to(place)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FSDP]:
        """Return the divided modules within a module."""
        found = [each for each in module.modules() if isinstance(each, FSDP)]
        return found[:1] if root_only else found

    @staticmethod
    def state_dict_type(  # type: ignore[override]  # PyTorch's, of a class
        module: Any,
        state_dict_type: Any = StateDictType.FULL_STATE_DICT,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> AbstractContextManager[None]:
        """Return a block in which states are of a kind: whole, or of this rank.

        Parameters
        ----------
        module : FSDP
        state_dict_type : StateDictType
        state_dict_config, optim_state_dict_config : object
            Without effect.
        """
        kind = _KINDS.get(state_dict_type, state_dict_type)
        return FSDP.state_dict_type(module, kind)

    @staticmethod
    def summon_full_params(  # type: ignore[override]  # PyTorch's, of a class
        module: Any,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> AbstractContextManager[None]:
        """Return a block in which a module's parameters are whole; see `FSDP`."""
        if with_grads:
            raise NotImplementedError(
                "summon_full_params: with_grads is True, and gradients stay divided"
            )
        return FSDP.summon_full_params(module, writeback)


class FSDPModule:
    """What `fully_shard` makes modules instances of."""

    def _unit(self) -> FSDPUnit:
        found: FSDPUnit = vars(self)["_fsdp_unit"]
        return found

    def _within(self) -> Iterator[FSDPUnit]:
        module: Any = self
        for each in module.modules():
            if isinstance(each, FSDPModule):
                yield each._unit()

    def reshard(self) -> None:
        """Give the memory of the gathered parameters back."""
        unit = self._unit()
        unit.hide()
        unit.free()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters; they become attributes as the module is called."""
        self._unit().gather()
        return UnshardHandle() if async_op else None

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Set whether backward passes exchange gradients; see `FSDP.no_sync`."""
        self._unit().schedule.syncs = requires_gradient_sync

    def set_reshard_after_forward(
        self, reshard_after_forward: bool, recurse: bool = True
    ) -> None:
        """Set whether parameters are freed after the forward pass."""
        for unit in self._within() if recurse else [self._unit()]:
            unit.reshard = reshard_after_forward

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing: each backward pass frees what it has gathered."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Do nothing: the unit that came next before is gathered ahead."""

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Do nothing: the unit that comes next is gathered ahead."""


class UnshardHandle:
    """Parameters that have been gathered."""

    def wait(self) -> None:
        """Return: they are there."""


_classes: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[..., Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divide the parameters of a module among the processes of the default group.

    Parameters
    ----------
    module : Module, or list of them
        Divide the inner ones first. It becomes an instance of `FSDPModule`.
    mesh : DeviceMesh, optional
        By default all processes of the default group.
    reshard_after_forward : bool, optional
        None frees all but the outermost module's.
    mp_policy : MixedPrecisionPolicy, optional
    shard_placement_fn, offload_policy, ignored_params, dp_mesh_dims : object
        None, or what changes nothing.

    Raises
    ------
    NotImplementedError
        If one of those asks for more.
    """
    if isinstance(module, list | tuple):
        for each in module:
            fully_shard(
                each,
                mesh=mesh,
                reshard_after_forward=reshard_after_forward,
                mp_policy=mp_policy,
            )
        return module
    if isinstance(offload_policy, CPUOffloadPolicy):
        _refuse_offload("fully_shard")
    if ignored_params or shard_placement_fn is not None or dp_mesh_dims is not None:
        raise NotImplementedError(
            "fully_shard: shard_placement_fn, ignored_params and dp_mesh_dims are not"
            " here; nn.FSDP has ignored_modules"
        )
    low = mp_policy or MixedPrecisionPolicy()
    divide(
        module,
        _group_of("fully_shard", None, mesh),
        reshard_after_forward=(
            None if reshard_after_forward is None else bool(reshard_after_forward)
        ),
        dtypes=Dtypes(
            low.param_dtype, low.reduce_dtype, low.output_dtype, low.cast_forward_inputs
        ),
    )
    kind = type(module)
    if kind not in _classes:
        _classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    module.__class__ = _classes[kind]
    return module


def _refuse_offload(where: str) -> None:
    raise NotImplementedError(
        f"{where}: parameters are to stay on the host, which they do not here; leave"
        " the offload policy out"
    )


def _group_of(
    where: str, group: ProcessGroup | None, mesh: DeviceMesh | None = None
) -> Group:
    found = mesh.get_group() if mesh is not None else group_for(where, group)
    return alone() if found.engine is None else found.engine
