"""The base of the optimizers: parameter groups, state, and the step."""

# Longer than most: step counters, state and roll-back belong together.

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from operator import is_
from typing import Any, ClassVar, cast

from ..autograd.grad_mode import enable_grad, no_grad
from ..base import trace_hooks
from ..base.device import Device, GpuDevice
from ..base.errors import DTypeError
from ..dispatch.diagnosis import explain_constructor
from ..eager.base_tensor import evaluate
from ..ir.lazy_graph import Array, Failed
from ..nn.parameter import zero_gradient
from ..tensor.inplace import transaction
from ..tensor.tensor import Tensor
from .complex_parameters import as_real
from .found_inf import revert_if, without_skipped
from .hooks import (
    KINDS,
    LOAD_POST,
    LOAD_PRE,
    STATE_POST,
    STATE_PRE,
    Hook,
    HookedOptimizer,
)
from .hooks import (
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
)
from .hooks import (
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)
from .recorded_plan import CallRecorder, NotRepeatable
from .sparse_updates import SparseUpdates
from .state_dict import CheckedState, States, StateSpec
from .stateful import StatefulOptimizer
from .step_counter import DeferredStepCounter
from .step_plan import StepPlan, Truths

Group = dict[str, Any]
"""Options of some parameters, and the list itself as "params"."""

Params = Iterable[Tensor] | Iterable[Mapping[str, Any]] | Iterable[tuple[str, Tensor]]
"""Parameters, groups of them, or pairs of a name and a parameter."""

Update = tuple[Tensor, Tensor]
"""A parameter and its gradient."""


ParamsT = Iterable[Any]
"""What optimizers take: parameters, groups of them, or names with them."""


class _RequiredParameter:
    """Default of an option that has to be given."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


class _CachedStep:
    """Cached step: a step plan with the guards of its optimizer."""

    def __init__(
        self, optimizer: Optimizer, kernels: StepPlan, owners: Sequence[Any]
    ) -> None:
        self._kernels = kernels
        groups = optimizer.param_groups
        self._groups = [(group, list(group["params"])) for group in groups]
        self._guard_sources = [
            each for each in optimizer._guard_sources() if each[1] != "params"
        ]
        self._options = self._read_options()
        self._state = optimizer._fingerprint()
        self._owners = owners
        self._counts = [owner._fingerprint() for owner in owners]
        self._step_counters = optimizer.step_counters

    def _read_options(self) -> list[Any]:
        return [group[name] for group, name in self._guard_sources]

    def run(self, optimizer: Optimizer) -> bool:
        """Run the step plan, or return False if a guard fails."""
        if trace_hooks.running or not self._fits(optimizer) or not self._kernels.run():
            return False
        if optimizer.state_exposed:
            optimizer.apply_deferred_steps(None)
        if optimizer.step_counters > self._step_counters:
            trace_hooks.structure_changed()
        return True

    def _fits(self, optimizer: Optimizer) -> bool:
        """Return whether groups, options and state are unchanged."""
        groups = optimizer.param_groups
        if len(groups) != len(self._groups):
            return False
        for group, (known, params) in zip(groups, self._groups):
            now = group["params"]
            if group is not known or len(now) != len(params):
                return False
            if not all(map(is_, now, params)):
                return False
        if self._read_options() != self._options:
            return False
        if not optimizer.state_exposed:
            return True
        state = optimizer._fingerprint()
        if len(state) != len(self._state) or not all(map(is_, state, self._state)):
            return False
        return [owner._fingerprint() for owner in self._owners] == self._counts


def _is_named(value: object) -> bool:
    """Return whether a parameter comes as a pair of its name and itself."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


MAX_PLAN_ATTEMPTS = 8
"""Steps in a row without a usable plan, after which none is cached."""


class Optimizer(SparseUpdates, StatefulOptimizer, HookedOptimizer):
    """Changes parameters in place by their gradients.

    Each parameter's update is one expression in several outputs, so it becomes one
    kernel; numbers such as the learning rate are its arguments and do not recompile it.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Leaves; or groups `{"params": [...], "lr": ...}` whose other entries replace
        the defaults. Those without a gradient, as frozen ones, are left as they are.
    defaults : mapping of str to object
        Options of groups that do not give them.

    Attributes
    ----------
    param_groups : list of dict
        May be changed between steps, for example `group["lr"]`.

    Raises
    ------
    ValueError
        If there is nothing to optimize, a parameter comes twice or is no leaf, some
        have names and others none, or an option is unknown or out of range.
    TypeError
        If what is given are no tensors, or they are in a set or alone.
    DTypeError
        If a parameter is complex, and `takes_complex` False.

    Notes
    -----
    A complex parameter is to `update` the real tensor of its parts, a view, and so are
    its gradient and its state, as in PyTorch.
    """

    takes_complex: ClassVar[bool] = True
    """Whether parameters may be complex."""

    replayable = False
    """Whether `update` reads numbers that change through `trace_hooks.changing`."""

    read_anew: ClassVar[frozenset[str]] = frozenset({"lr"})
    """Options that each replay reads anew, whatever they are."""

    switches: ClassVar[frozenset[str]] = frozenset()
    """Options that each replay reads anew, unless they become 0 or were it."""

    remembered: ClassVar[StateSpec | None] = None
    """State of each parameter by name and type; None leaves states unchecked."""

    counts_skips = False
    """Whether steps that `step_unless` skips on the device are uncounted there."""

    skip: Tensor | None = None
    """In `step_unless`: whether the step will be skipped."""

    _cached_step: _CachedStep | None = None
    _attempts = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain_constructor(cls)

    def __init__(
        self,
        params: Params,
        defaults: Mapping[str, Any],
    ) -> None:
        self.defaults = dict(defaults)
        super().__init__()
        self._state = States()
        self.param_groups: list[Group] = []
        if isinstance(params, Tensor):
            raise TypeError(
                f"{self._name}: a tensor was given; pass a list of tensors, or groups"
            )
        listed: list[Any] = list(params)
        if not listed:
            raise ValueError(f"{self._name}: there are no parameters to optimize")
        if not isinstance(listed[0], Mapping):
            listed = [{"params": listed}]
        for group in listed:
            self.add_param_group(group)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _device(self) -> Device | None:
        """Device of the first parameter."""
        for group in self.param_groups:
            for parameter in group["params"]:
                return cast(Tensor, parameter).device
        return None

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize further parameters, with options of their own.

        Parameters
        ----------
        group : mapping of str to object
            Parameters, or pairs of a name and a parameter, as "params"; options, which
            may be others than the optimizer's.
        """
        if not isinstance(group, Mapping):
            raise TypeError(
                f"{self._name}.add_param_group: a {type(group).__name__} was given; it"
                ' must be a dict with "params"'
            )
        if "params" not in group:
            raise KeyError(
                f"{self._name}: a group has {', '.join(group)}; it must have params"
            )
        given = group["params"]
        if isinstance(given, set):
            raise TypeError(
                f"{self._name}: the parameters are a set, which has no order; pass a"
                " list"
            )
        params = [given] if isinstance(given, Tensor) else list(given)
        names = [each[0] for each in params if _is_named(each)]
        if names:
            if len(names) < len(params):
                raise ValueError(
                    f"{self._name}: {len(names)} of {len(params)} parameters have"
                    " names; all or none must"
                )
            params = [each[1] for each in params]
            group = {**group, "param_names": names}
        named = "param_names" in group
        if any(("param_names" in each) != named for each in self.param_groups):
            raise ValueError(
                f"{self._name}: some groups have names of parameters; all or none must"
            )
        known = {id(each) for known in self.param_groups for each in known["params"]}
        for parameter in params:
            self._check_parameter(parameter)
            if id(parameter) in known:
                raise ValueError(
                    f"{self._name}: a parameter of shape {tuple(parameter.shape)}"
                    " comes twice;"
                    " each may be in one group, once"
                )
            known.add(id(parameter))
        filled = {**self.defaults, **group, "params": params}
        self.check(filled)
        self.param_groups.append(filled)
        self._invalidate()

    def _check_parameter(self, parameter: object) -> None:
        if not isinstance(parameter, Tensor):
            raise TypeError(
                f"{self._name}: {type(parameter).__name__} is no tensor;"
                " pass model.parameters()"
            )
        if not parameter.is_leaf:
            raise ValueError(
                f"{self._name}: a tensor of shape {tuple(parameter.shape)} is no leaf:"
                " an operation computed it; pass model.parameters()"
            )
        if parameter.dtype.is_complex and not self.takes_complex:
            raise DTypeError(
                f"{self._name}: a parameter is {parameter.dtype.name}, and steps are of"
                " real numbers; make view_as_real(z).clone() the parameter"
            )

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        if group.get("differentiable"):
            raise ValueError(
                f"{self._name}: differentiable is True, but steps are not recorded on"
                " the tape; leave it False"
            )
        package = __name__.rpartition(".")[0]
        kinds = type(self).__mro__[: type(self).__mro__.index(Optimizer)]
        if not any(kind.__module__.startswith(package) for kind in kinds):
            # Optimizers of programs give options meanings of their own.
            return
        for name in ("lr", "weight_decay", "eps", "momentum"):
            if name in group and not group[name] >= 0:
                raise ValueError(
                    f"{self._name}: {name} is {group[name]}; it must be at least 0"
                )

    def update(self, parameter: Tensor, grad: Tensor, group: Group) -> None:
        """Change one parameter by its gradient; each optimizer defines it."""
        raise NotImplementedError(f"{self._name}.update: it is not defined")

    def update_all(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters of one group by their gradients, one by one."""
        for parameter, grad in updates:
            self.update(parameter, grad, group)

    def _invalidate(self) -> None:
        """Drop the cached step, as groups or state have changed."""
        self._drop_cached_step()
        self._attempts = 0
        trace_hooks.structure_changed()

    def begin(self) -> None:
        """Prepare a step on the slow path."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, and submit what is pending.

        Waits for nothing.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients first, with gradients enabled.

        Returns
        -------
        object
            What the closure returned; None without one.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._step()
        return loss

    def _step(self) -> None:
        """Make a step, by the cached plan if there is one."""
        if self._cached_step is not None and self._cached_step.run(self):
            self._attempts = 0
            return
        self._begin_slow_path()
        device = self._device
        may_cache = self.replayable and self._attempts < MAX_PLAN_ATTEMPTS
        if isinstance(device, GpuDevice) and may_cache and not trace_hooks.running:
            self._attempts += 1
            self._run_and_cache(device)
            return
        changed = self._update_parameters()
        if changed:
            with self._uncount_failures(changed):
                evaluate(*changed)

    def _begin_slow_path(self) -> None:
        self._drop_cached_step()
        self._drop_failed()
        self.begin()
        trace = trace_hooks.listener()
        if trace is not None:
            trace.called(self)
            if not self.replayable:
                trace.once(f"{self._name} does not say that it can be replayed")
        elif self._step_counters:
            trace_hooks.structure_changed()

    def step_unless(self, skip: Tensor, *args: Any) -> object:
        """Make a step, unless a flag on the device skips it.

        Waits for nothing, unless steps are counted on the host, are a method of a
        subclass, or have hooks: those run only with a step. State that a skipped step
        would have initialised is zero.

        Parameters
        ----------
        skip : Tensor, shape (), bool
            Whether parameters and state stay unchanged.
        *args
            Arguments of a subclass's `step`.

        Returns
        -------
        object
            What `step` returns; None if it was skipped.
        """
        if self._steps_on_host() or args:
            return None if skip.item() else self.step(*args)
        self._begin_slow_path()
        self.skip = skip
        try:
            with no_grad(), revert_if(skip, self.param_groups, self._state):
                changed = self._update_parameters()
        finally:
            self.skip = None
        if changed:
            with self._uncount_failures(changed):
                evaluate(*changed)
        return None

    def _steps_on_host(self) -> bool:
        """Return whether the host has to know if a step is made."""
        if self._has_step_hooks:
            return True
        if getattr(self.step, "__func__", None) is not Optimizer.step:
            return True
        return not self.counts_skips and "step" in (self._known_spec() or ())

    def _run_and_cache(self, device: GpuDevice) -> None:
        """Make a step on the slow path, and cache its plan if that can be repeated."""
        recorder = CallRecorder(device)
        changed = recorder.run(self._update_parameters)
        params = [each for group in self.param_groups for each in group["params"]]
        with device.lock, self._uncount_failures(changed):
            plan = recorder.submit()
            if plan is not None:
                with suppress(NotRepeatable):
                    kernels = StepPlan(params, recorder, plan, device)
                    self._cached_step = _CachedStep(self, kernels, recorder.owners)
            if changed:
                evaluate(*changed)

    @contextmanager
    def _uncount_failures(self, changed: Sequence[Tensor]) -> Iterator[None]:
        """Uncount the step of parameters whose update fails."""
        values = [each.array.value for each in changed]
        try:
            yield
        except Exception:
            self.uncount(
                [
                    parameter.array
                    for parameter, value in zip(changed, values)
                    if type(value.buffer) is Failed
                ]
            )
            raise

    def uncount(self, arrays: Collection[Array]) -> None:
        """Uncount the last step of parameters that it left unchanged.

        State that it would have initialised is dropped.

        Parameters
        ----------
        arrays : collection of Array
            The parameters' storages.
        """
        lost = set(map(id, arrays))
        for parameter, state in self._parameter_states():
            if id(parameter.array) in lost and "step" in state:
                state["step"] -= 1
        self._drop_failed()

    def _drop_cached_step(self) -> None:
        """Drop the cached step, and apply its deferred steps."""
        if self._cached_step is not None:
            self.apply_deferred_steps(None)
            self._cached_step = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, without step counters and cached step."""
        self._drop_cached_step()
        self.apply_deferred_steps(None)
        hooks = {kind: OrderedDict[int, Hook]() for kind in KINDS}
        # The numbers of a step have its counters.
        dropped: dict[str, Any] = {"_step_counters": [], "_shared": {}}
        return {**vars(self), **hooks, **dropped, "_replaying": None}

    def _update_parameters(self) -> list[Tensor]:
        """Update every parameter that has a gradient, and return them."""
        changed = []
        with no_grad():
            for group in self.param_groups:
                updates = [
                    (parameter, parameter.grad)
                    for parameter in group["params"]
                    if parameter.grad is not None
                ]
                changed += [parameter for parameter, _ in updates]
                if group.get("maximize"):
                    updates = [(parameter, -grad) for parameter, grad in updates]
                dense = self.without_sparse(updates, group)
                if dense:
                    with as_real(dense, self._state) as real:
                        self.update_all(real, group)
        return changed

    def __repr__(self) -> str:
        lines = [f"{self._name} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            names = sorted(name for name in group if name != "params")
            lines += [f"    {name}: {group[name]}" for name in names]
        return "\n".join([*lines, ")"])

    def _fingerprint(self) -> list[object]:
        """Return the guarded identities: parameters, their storages and state."""
        found: list[object] = []
        self.apply_deferred_steps(None)
        state = self._state
        for group in self.param_groups:
            for parameter in group["params"]:
                found += [parameter, parameter.array]
                for value in state.get(parameter, {}).values():
                    found.append(getattr(value, "array", None))
        return found

    def _guard_sources(self) -> list[tuple[Mapping[str, Any], str]]:
        """Return the guard sources of a step: the options that it does not read anew.

        Of those in `switches` it is whether they are 0.
        """
        return [
            (Truths(group) if name in self.switches else group, name)
            for group in self.param_groups
            for name in group
            if name not in self.read_anew
        ]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the parameters, or set them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                zero_gradient(parameter, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return state and options, with numbers in the place of parameters.

        Returns
        -------
        dict
            "state": the state, by the parameter's number; "param_groups": the
            groups, whose "params" are numbers counted through all groups.
        """
        trace_hooks.once(f"the state of {self._name} is read, which a replay would not")
        self._call_hooks(STATE_PRE)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers[id(parameter)] = len(numbers)
            params = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append({**group, "params": params})
        self.apply_deferred_steps(None)
        self._drop_failed()
        owners = {
            id(parameter): group
            for group in self.param_groups
            for parameter in group["params"]
        }
        state: dict[Any, Any] = {
            key: each for key, each in self._state.items() if id(key) not in numbers
        }
        for key, each in self._parameter_states():
            derived = self.derived_state(each, owners[id(key)])
            state[numbers[id(key)]] = {**without_skipped(each), **derived}
        found = {"state": state, "param_groups": groups}
        return cast(dict[str, Any], self._changed_by_hooks(STATE_POST, found))

    def state_spec(self, group: Group) -> StateSpec | None:
        """Return the state of a group's parameters, by name and type."""
        return self.remembered

    def _known_spec(self) -> StateSpec | None:
        return self.state_spec(self.param_groups[0])

    def derived_state(self, state: Mapping[str, Any], group: Group) -> dict[str, Any]:
        """Return what PyTorch keeps of a parameter and this optimizer derives."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load state and options; tensors are copied to the parameters' devices.

        Raises
        ------
        StateError, ShapeError, DTypeError, ValueError
            If it is no state of this optimizer with these parameters, or an option is
            out of range; nothing has been changed then, nor by an interrupt.
        """
        if isinstance(state_dict, Mapping):
            state_dict = self._changed_by_hooks(LOAD_PRE, dict(state_dict))
        loaded = CheckedState(self.param_groups, self.state_spec, state_dict)
        for mine, options in zip(self.param_groups, loaded.options):
            self.check({**mine, **options})
        # First, as it may fail; and a step that fails later must not take it along.
        tensors = [
            each
            for entry in loaded.state.values()
            for each in (entry.values() if isinstance(entry, dict) else [entry])
            if isinstance(each, Tensor)
        ]
        if tensors:
            evaluate(*tensors)
        self._invalidate()
        before = self._state, self._step_counters, list(map(dict, self.param_groups))
        transaction(
            lambda: self._replace_state(loaded.state, [], loaded.options),
            lambda: self._replace_state(*before),
        )
        # Where classes add the options that older states lack.
        self.__setstate__({"state": self._state, "param_groups": self.param_groups})
        self._call_hooks(LOAD_POST)

    def _replace_state(
        self,
        state: dict[Any, Any],
        step_counters: Sequence[weakref.ref[DeferredStepCounter]],
        options: Sequence[Mapping[str, Any]],
    ) -> None:
        self._state, self._step_counters = state, step_counters
        for group, new in zip(self.param_groups, options):
            group.update(new)
