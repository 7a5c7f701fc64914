"""The base of the optimizers: parameter groups, state, and the step."""

# Longer than most: what a step counts, remembers and takes back is one state.

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import is_
from typing import Any, ClassVar

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import GpuDevice
from ..eager.base_tensor import evaluate
from ..ir.lazy_graph import Array, Failed
from ..nn.parameter import zero_gradient
from ..scheduler.scheduler import flush
from ..tensor.inplace import transaction
from ..tensor.tensor import Tensor
from .found_inf import SKIPPED, counted, undone_where
from .state_dict import Loaded, Remembered
from .step_plan import Observer, Prepared, Unfit

Group = dict[str, Any]
"""Options of some parameters, and the list itself as "params"."""

Update = tuple[Tensor, Tensor]
"""A parameter and its gradient."""


class Cohort:
    """Parameters of one trace that have made equally many steps.

    Attributes
    ----------
    members : list of dict
        What is remembered of each.
    late : int
        Steps that replays have made and `members` do not count yet.
    factors : tuple of float
        Numbers of this step, once they have been asked for.
    made : int
        Steps that replays have made.
    """

    def __init__(self, optimizer: Optimizer, trace: object) -> None:
        self.members: list[dict[str, Any]] = []
        self.late = self.made = 0
        self.factors: tuple[float, ...] = ()
        # A step that an optimizer keeps ready keeps its cohorts.
        self._optimizer = weakref.ref(optimizer)
        self._trace = trace

    def __call__(self) -> None:
        """Count a step, in the same time for any number of parameters."""
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer.settle(self._trace)
        # Together, or an interrupt between would leave one without the other.
        self.late, self.made = self.late + 1, self.made + 1
        self.factors = ()

    def mark(self) -> int:
        """Return how many steps replays have made."""
        return self.made

    def take_back(self, mark: int) -> None:
        """Count a step no longer, as its kernels have not run."""
        if self.made != mark:
            self.late, self.made = self.late - 1, mark
        self.factors = ()

    def step(self) -> int:
        """Return the number of steps."""
        steps: int = self.members[0]["step"]
        return steps + self.late

    def catch_up(self) -> None:
        """Let each member count what it is late."""
        if self.late:
            for member in self.members:
                member["step"] += self.late
            self.late = 0

    def __del__(self) -> None:
        self.catch_up()

    def _fingerprint(self) -> list[object]:
        """Return how far each member is from the first: nowhere if a trace fits."""
        first = self.members[0]["step"]
        return [member["step"] - first for member in self.members]


class _Again:
    """A step that is ready to be made again, and what must be as it was for it."""

    def __init__(
        self, optimizer: Optimizer, kernels: Prepared, owners: Sequence[Any]
    ) -> None:
        self._kernels = kernels
        groups = optimizer.param_groups
        self._groups = [(group, list(group["params"])) for group in groups]
        self._places = [each for each in optimizer._places() if each[1] != "params"]
        self._options = self._read_options()
        self._state = optimizer._fingerprint()
        self._owners = owners
        self._counts = [owner._fingerprint() for owner in owners]
        self._cohorts = optimizer.cohorts

    def _read_options(self) -> list[Any]:
        return [group[name] for group, name in self._places]

    def run(self, optimizer: Optimizer) -> bool:
        """Make the step, or return False if another one is to be made."""
        if trace_hooks.running or not self._fits(optimizer) or not self._kernels.run():
            return False
        if optimizer.exposed:
            optimizer.settle(None)
        if optimizer.cohorts > self._cohorts:
            trace_hooks.structure_changed()
        return True

    def _fits(self, optimizer: Optimizer) -> bool:
        """Return whether groups, options and state are as they were."""
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
        if not optimizer.exposed:
            return True
        state = optimizer._fingerprint()
        if len(state) != len(self._state) or not all(map(is_, state, self._state)):
            return False
        return [owner._fingerprint() for owner in self._owners] == self._counts


def is_lost(remembered: object) -> bool:
    """Return whether something is a tensor that will never be computed."""
    if not isinstance(remembered, Tensor):
        return False
    return type(remembered.array.value.buffer) is Failed


MOST_ATTEMPTS = 8
"""Steps in a row that could not be repeated, after which none is kept ready."""


class Optimizer:
    """Changes parameters in place by their gradients.

    Each parameter's update is one expression in several outputs, so it becomes one
    kernel; numbers such as the learning rate are its arguments and do not recompile it.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Leaves that require gradients; or groups `{"params": [...], "lr": ...}` whose
        other entries replace the defaults.
    defaults : mapping of str to object
        Options of groups that do not give them.

    Attributes
    ----------
    param_groups : list of dict
        May be changed between steps, for example `group["lr"]`.

    Raises
    ------
    ValueError
        If there is nothing to optimize, a parameter comes twice or is no leaf that
        requires a gradient, or an option is unknown or out of range.
    """

    replayable = False
    """Whether `update` reads numbers that change through `trace_hooks.changing`."""

    remembered: ClassVar[Remembered | None] = None
    """What a state has of each parameter; None does not say, so states pass unseen."""

    skip: Tensor | None = None
    """In `step_unless`: whether everything will stay as it is."""

    _prepared: _Again | None = None
    _attempts = 0
    _exposed = False

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        defaults: Mapping[str, Any],
    ) -> None:
        self.defaults = dict(defaults)
        self._state: dict[Tensor, dict[str, Any]] = {}
        # Traces keep them: who drops its last trace has no more steps to count.
        self._cohorts: list[weakref.ref[Cohort]] = []
        self._replaying: object = None
        self.param_groups: list[Group] = []
        listed = list(params)
        if not listed:
            raise ValueError(f"{self._name}: there are no parameters to optimize")
        if not isinstance(listed[0], Mapping):
            listed = [{"params": listed}]
        for group in listed:
            self.add_param_group(group)  # type: ignore[arg-type]  # checked there

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def cohorts(self) -> int:
        """Internal: how many traces there may be that count steps."""
        return len(self._cohorts)

    @property
    def exposed(self) -> bool:
        """Internal: whether others may change what is remembered of parameters."""
        return self._exposed

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """What is remembered of each parameter."""
        self.settle(None)
        self._drop_lost()
        self._exposed = True
        return self._state

    def settle(self, trace: object) -> None:
        """Let parameters count the replays of every trace but this one."""
        if self._replaying is not trace:
            for reference in self._cohorts:
                cohort = reference()
                if cohort is not None:
                    cohort.catch_up()
            self._replaying = trace

    def new_cohort(self, trace: object) -> Cohort:
        """Return parameters that will count steps together in one trace."""
        cohort = Cohort(self, trace)
        alive = [each for each in self._cohorts if each() is not None]
        self._cohorts = [*alive, weakref.ref(cohort)]
        return cohort

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize further parameters, with options of their own."""
        unknown = group.keys() - self.defaults.keys() - {"params"}
        if unknown:
            raise ValueError(
                f"{self._name}: unknown options: {', '.join(sorted(unknown))};"
                f" it takes {', '.join(self.defaults)}"
            )
        given = group["params"]
        params = [given] if isinstance(given, Tensor) else list(given)
        known = {id(each) for known in self.param_groups for each in known["params"]}
        for parameter in params:
            self._check_parameter(parameter)
            if id(parameter) in known:
                raise ValueError(
                    f"{self._name}: a parameter of shape {parameter.shape} comes twice;"
                    " each may be in one group, once"
                )
            known.add(id(parameter))
        filled = {**self.defaults, **group, "params": params}
        self.check(filled)
        self.param_groups.append(filled)
        self._changed()

    def _check_parameter(self, parameter: object) -> None:
        if not isinstance(parameter, Tensor):
            raise ValueError(
                f"{self._name}: {type(parameter).__name__} is no tensor;"
                " pass model.parameters()"
            )
        if not (parameter.is_leaf and parameter.requires_grad):
            raise ValueError(
                f"{self._name}: a tensor of shape {parameter.shape} is no leaf that"
                " requires a gradient; pass model.parameters()"
            )

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
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

    def _changed(self) -> None:
        """Note that groups or state are others: nothing known of steps holds."""
        self._forget()
        self._attempts = 0
        trace_hooks.structure_changed()

    def begin(self) -> None:
        """Get ready for a step that is done at length."""

    def step(self) -> None:
        """Change every parameter that has a gradient, and submit what is pending.

        Waits for nothing.
        """
        if self._prepared is not None and self._prepared.run(self):
            self._attempts = 0
            return
        self._begin_at_length()
        device = self.param_groups[0]["params"][0].device
        on_gpu = isinstance(device, GpuDevice) and not trace_hooks.running
        if on_gpu and self.replayable and self._attempts < MOST_ATTEMPTS:
            self._attempts += 1
            self._prepare(device)
            return
        changed = self._change()
        if changed:
            with self._taken_back(changed):
                evaluate(*changed)

    def _begin_at_length(self) -> None:
        self._forget()
        self._drop_lost()
        self.begin()
        trace = trace_hooks.listener()
        if trace is not None:
            trace.called(self)
            if not self.replayable:
                trace.once(f"{self._name} does not say that it can be replayed")
        elif self._cohorts:
            trace_hooks.structure_changed()

    def step_unless(self, skip: Tensor) -> None:
        """Make a step, or none if the device finds that there should be none.

        Waits for nothing. What a skipped step would have remembered first is zero.

        Parameters
        ----------
        skip : Tensor, shape (), bool
            Whether parameters, and what is remembered of them, stay as they are.
        """
        self._begin_at_length()
        self.skip = skip
        try:
            with no_grad(), undone_where(skip, self.param_groups, self._state):
                changed = self._change()
        finally:
            self.skip = None
        if changed:
            with self._taken_back(changed):
                evaluate(*changed)

    def _prepare(self, device: GpuDevice) -> None:
        """Make a step as usual, and keep ready what it runs if that can be repeated."""
        flush(device)
        observer = Observer(device)
        with trace_hooks.listening(observer):
            changed = self._change()
        params = [each for group in self.param_groups for each in group["params"]]
        with device.lock, self._taken_back(changed):
            alone = all(map(is_, device.pending, observer.nodes))
            alone = alone and len(device.pending) == len(observer.nodes)
            plan = flush(device)
            if plan is not None and alone:
                with suppress(Unfit):
                    kernels = Prepared(params, observer, plan, device)
                    self._prepared = _Again(self, kernels, observer.owners)
            if changed:
                evaluate(*changed)

    @contextmanager
    def _taken_back(self, changed: Sequence[Tensor]) -> Iterator[None]:
        """Count no step of those parameters whose new elements cannot be computed."""
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
        """Count no longer the last step of parameters that it left as they were.

        What was the first to be remembered of them is forgotten again.

        Parameters
        ----------
        arrays : collection of Array
            The parameters' storages.
        """
        lost = set(map(id, arrays))
        for parameter, state in self._state.items():
            if id(parameter.array) in lost and "step" in state:
                state["step"] -= 1
        self._drop_lost()

    def _drop_lost(self) -> None:
        """Forget what was to be remembered first by a step that failed."""
        for parameter, state in [*self._state.items()]:
            lost = [name for name, each in state.items() if is_lost(each)]
            if lost == [SKIPPED]:
                del state[SKIPPED]
            elif lost:
                del self._state[parameter]

    def _forget(self) -> None:
        """Have no step ready; parameters count those that it made."""
        if self._prepared is not None:
            self.settle(None)
            self._prepared = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has, which knows of no trace and has no step ready."""
        self._forget()
        self.settle(None)
        return {**vars(self), "_cohorts": [], "_replaying": None}

    def _change(self) -> list[Tensor]:
        """Change every parameter that has a gradient, and return them."""
        changed = []
        with no_grad():
            for group in self.param_groups:
                updates = [
                    (parameter, parameter.grad)
                    for parameter in group["params"]
                    if parameter.grad is not None
                ]
                self.update_all(updates, group)
                changed += [parameter for parameter, _ in updates]
        return changed

    def _fingerprint(self) -> list[object]:
        """Return everything but elements and learning rates that decides a step."""
        found: list[object] = []
        self.settle(None)
        state = self._state
        for group in self.param_groups:
            for parameter in group["params"]:
                found += [parameter, parameter.array]
                for value in state.get(parameter, {}).values():
                    found.append(getattr(value, "array", None))
        return found

    def _places(self) -> list[tuple[dict[str, Any], str]]:
        """Return where the options are that decide a step, without learning rates."""
        return [
            (group, name)
            for group in self.param_groups
            for name in group
            if name != "lr"
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
            "state": what is remembered, by the parameter's number; "param_groups": the
            groups, whose "params" are numbers counted through all groups.
        """
        trace_hooks.once(f"the state of {self._name} is read, which a replay would not")
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers[id(parameter)] = len(numbers)
            params = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append({**group, "params": params})
        self.settle(None)
        self._drop_lost()
        state = {numbers[id(key)]: counted(each) for key, each in self._state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options; tensors are copied to the parameters' devices.

        Raises
        ------
        StateError, ShapeError, DTypeError, ValueError
            If it is no state of this optimizer with these parameters, or an option is
            out of range; nothing has been changed then, nor by an interrupt.
        """
        loaded = Loaded(self.param_groups, self.remembered, state_dict)
        for mine, options in zip(self.param_groups, loaded.options):
            self.check({**mine, **options})
        # First, as it may fail; and a step that fails later must not take it along.
        tensors = [
            each
            for entry in loaded.state.values()
            for each in entry.values()
            if isinstance(each, Tensor)
        ]
        if tensors:
            evaluate(*tensors)
        self._changed()
        before = self._state, self._cohorts, list(map(dict, self.param_groups))
        transaction(
            lambda: self._take(loaded.state, [], loaded.options),
            lambda: self._take(*before),
        )

    def _take(
        self,
        state: dict[Tensor, dict[str, Any]],
        cohorts: list[weakref.ref[Cohort]],
        options: Sequence[Mapping[str, Any]],
    ) -> None:
        self._state, self._cohorts = state, cohorts
        for group, new in zip(self.param_groups, options):
            group.update(new)
