"""When the units of a model are gathered, freed, and their gradients divided.

Forward: a unit is gathered before its call, and freed after it; what is computed so far
is submitted first, so a device computes while the next unit is gathered. Within a trace
the gathers of the next units are recorded before this one computes, and what the
backward pass begins with stays gathered: the outermost unit and the last one. Backward:
units come in the reverse order, each is gathered while the one before computes, and the
gradients of a unit are exchanged while the next one computes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from vkbackend import TimelinePoint

from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...autograd.running_pass import running
from ...base import trace_hooks
from ...base.device import GpuDevice
from ...base.dtype import DType
from ...base.errors import GradError
from ...eager.base_tensor import evaluate
from ...jit.pytree import tree_map
from ...tensor.tensor import Tensor
from .unit import FlatParameters, FSDPUnit

if TYPE_CHECKING:
    from ...autograd.engine import BackwardPass


AHEAD = 1
"""Freed units whose work the device may have yet to do, as another is gathered.

The host would gather all units, of which each needs its memory, before the device has
computed the first.
"""

PREFETCH_BYTES = 32 << 20
PREFETCH_SHARE = 16
"""Bytes of units that a trace gathers ahead, and that a model has for each of them.

At least the next unit is. An exchange takes a while however small it is, so several
small units are gathered ahead, as long as they are few beside the model.
"""


class Schedule:
    """Order of the units of a model.

    Parameters
    ----------
    units : sequence of FSDPUnit
        In the order of their modules; the outermost is the last, if there is one.
    ended : sequence of FSDPUnit or None
        In the order in which calls of them end. None finds it by their modules.

    Attributes
    ----------
    syncs : bool
        Whether backward passes divide gradients; else they are added up whole.
    """

    def __init__(
        self, units: Sequence[FSDPUnit], ended: Sequence[FSDPUnit] | None = None
    ) -> None:
        self.units = list(units)
        self.syncs = True
        # Of the last forward pass, by the beginnings and by the ends of calls.
        self._begun = self.units[::-1]
        self._ended = _by_ends(self._begun) if ended is None else list(ended)
        self._now_begun: list[FSDPUnit] = []
        self._now_ended: list[FSDPUnit] = []
        self._open: list[FSDPUnit] = []
        self._pass: weakref.ref[BackwardPass] | None = None
        self._waiting: tuple[FlatParameters, Tensor] | None = None
        self._visited: list[FSDPUnit] = []
        self._freed: deque[TimelinePoint] = deque()
        self._kept: FSDPUnit | None = None
        for each in self.units:
            each.schedule = self

    def __deepcopy__(self, memo: dict[int, Any]) -> Schedule:
        """Return that of copies of the units."""
        made = object.__new__(Schedule)
        memo[id(self)] = made
        # A unit that is being copied itself has no module yet.
        units = deepcopy(self.units, memo)
        copies = {id(old): new for old, new in zip(self.units, units)}
        ended = [copies[id(each)] for each in _by_ends(self.units[::-1])]
        made.__init__(units, ended)  # type: ignore[misc]  # made before
        made.syncs = self.syncs
        return made

    def _gather(self, unit: FSDPUnit, token: Tensor | None) -> None:
        if trace_hooks.listener() is None and not unit.gathered:
            while len(self._freed) > AHEAD:
                self._freed.popleft().wait()
        unit.gather(token)

    def _free(self, *flats: FlatParameters) -> None:
        for flat in flats:
            flat.free()
        device = flats[0].pieces[0].device if flats else None
        if trace_hooks.listener() is None and isinstance(device, GpuDevice):
            queue = device.gpu.compute_queue
            self._freed.append(TimelinePoint(queue, queue.submitted))

    def _prefetch(
        self, order: Sequence[FSDPUnit], unit: FSDPUnit, step: int, token: Tensor | None
    ) -> None:
        """Gather the next units in an order, once the token has been computed."""
        most = 0
        if trace_hooks.listener() is not None:
            total = sum([each.nbytes for each in self.units])
            most = min(PREFETCH_BYTES, total // PREFETCH_SHARE)
        size = 0
        following = _neighbour(order, unit, step)
        while following is not None and following not in self._open:
            following.notify()
            self._gather(following, token)
            size += following.nbytes
            if size >= most:
                break
            following = _neighbour(order, following, step)

    # Forward

    def before_forward(self, unit: FSDPUnit, given: Any) -> None:
        """Gather a unit, as its module is called with some arguments."""
        if not running.passes and not self._open:
            self._abandon()
            self._now_begun, self._now_ended = [], []
        unit.notify()
        self._now_begun.append(unit)
        self._open.append(unit)
        token = _token(given)
        self._gather(unit, token)
        unit.expose(anew=True)
        if trace_hooks.listener() is not None and not running.passes:
            self._prefetch(self._begun, unit, 1, token)

    def after_forward(self, unit: FSDPUnit, result: Any) -> Any:
        """Free a unit, and let it be gathered again before its backward pass."""
        if unit not in self._open:
            return result
        while self._open.pop() is not unit:
            pass
        taped = is_grad_enabled() and result is not None
        if taped:
            result = _watched(unit, result)
        if running.passes:
            return result
        self._now_ended.append(unit)
        unit.hide()
        outermost = not self._open
        if not taped or not self._stays(unit, outermost):
            self._submit(result)
            self._free(*unit.flats)
        if outermost:
            self._begun, self._ended = self._now_begun, self._now_ended
            kept = (unit, self._kept if taped else None)
            for each in self.units:
                if each not in kept and each.reshard is not False:
                    each.free()
            self._kept = None
        return result

    def _stays(self, unit: FSDPUnit, outermost: bool) -> bool:
        """Return whether a unit stays gathered between both passes.

        Units that the backward pass begins with would be gathered with nothing to
        compute meanwhile, and take no memory from those that come later.
        """
        if unit.reshard is not None:
            return not unit.reshard
        trace = trace_hooks.listener()
        if trace is None:
            return outermost
        if not outermost and unit is not self._begun[-1]:
            return False
        if not trace.at_end(unit.free):
            return False
        if not outermost:
            self._kept = unit
        return True

    def _submit(self, result: Any) -> None:
        """Let the device compute what was recorded, before it gathers the next unit."""
        if trace_hooks.listener() is None:
            tensors: list[Tensor] = []
            tree_map(
                result, lambda x: tensors.append(x) if isinstance(x, Tensor) else x
            )
            if tensors:
                evaluate(*tensors)

    # Backward

    def before_backward(
        self, unit: FSDPUnit, versions: Sequence[Sequence[int]], given: Any
    ) -> None:
        """Gather a unit, as gradients of its module's results are given."""
        self._enter_pass()
        now = [[each.array.version for each in flat.pieces] for flat in unit.flats]
        if now != versions:
            raise GradError(
                f"backward: the parameters of {unit.title} were changed in place after"
                " the forward pass; let the step of the optimizer come after backward"
            )
        for each in self._visited:
            if each is not unit and not _is_below(unit, each):
                for flat in each.flats:
                    if not flat.trainable:
                        flat.free()
        self._visited.append(unit)
        token = _token(given)
        self._gather(unit, token)
        unit.expose(anew=False)
        self._prefetch(self._ended, unit, -1, token)

    def after_backward(
        self,
        flat: FlatParameters,
        grads: Sequence[Tensor | None],
        selective: bool,
    ) -> list[Tensor] | None:
        """Divide the gradients of parameters, now or while the next are computed.

        Parameters
        ----------
        flat : FlatParameters
        grads : sequence of Tensor or None
            Of the whole parameters.
        selective : bool
            Whether the pass returns gradients rather than accumulating them.

        Returns
        -------
        list of Tensor or None
            With `selective` the gradients of the pieces.
        """
        self._enter_pass()
        with no_grad():
            packed = flat.packed(grads)
            if trace_hooks.listener() is None:
                evaluate(packed)
            self._divide_waiting()
            if len(running.passes) == 1:
                flat.hide()
                self._free(flat)
            if selective:
                return flat.divided(packed)
            if not self.syncs:
                flat.keep_undivided(packed)
            else:
                self._waiting = flat, flat.with_undivided(packed)
        return None

    def _divide_waiting(self) -> None:
        if self._waiting is not None:
            (flat, packed), self._waiting = self._waiting, None
            flat.accumulate(packed)

    def _enter_pass(self) -> None:
        outermost = running.passes[0]
        if self._pass is None or self._pass() is not outermost:
            self._waiting, self._visited = None, []
            self._pass = weakref.ref(outermost)
            outermost.at_end.append(self._finish)

    def _finish(self) -> None:
        self._divide_waiting()
        self._abandon()

    def _abandon(self) -> None:
        """Free all units, also after a pass that an error has ended."""
        self._waiting, self._visited, self._pass = None, [], None
        for each in self.units:
            each.hide()
            each.free()


def tensors_of(tree: Any) -> list[Tensor]:
    """Return the tensors of nested containers."""
    found: list[Tensor] = []

    def note(each: Any) -> Any:
        if isinstance(each, Tensor):
            found.append(each)
        return each

    tree_map(tree, note)
    return found


def _token(given: Any) -> Tensor | None:
    """Return a tensor of floats of some arguments, which other work can wait for."""
    found = [each for each in tensors_of(given) if each.dtype.is_float and each.numel()]
    return found[0] if found else None


def _neighbour(order: Sequence[FSDPUnit], unit: FSDPUnit, step: int) -> FSDPUnit | None:
    """Return the unit after another one, or before it."""
    at = [place for place, each in enumerate(order) if each is unit]
    if not at:
        return None
    place = (at[-1] if step > 0 else at[0]) + step
    return order[place] if 0 <= place < len(order) else None


def _by_ends(begun: Sequence[FSDPUnit]) -> list[FSDPUnit]:
    """Return units in the order of ends of calls that begin in an order."""
    open_: list[FSDPUnit] = []
    ended: list[FSDPUnit] = []
    for each in begun:
        while open_ and not _is_below(each, open_[-1]):
            ended.append(open_.pop())
        open_.append(each)
    return ended + open_[::-1]


def _is_below(unit: FSDPUnit, other: FSDPUnit) -> bool:
    return any(each is unit.module for each in other.module.modules())


class _BeforeBackward(Function):
    """Identity at the results of a module, which gathers its unit on the way back."""

    @staticmethod
    def forward(ctx: Any, unit: FSDPUnit, *results: Tensor) -> Any:
        ctx.unit = unit
        ctx.versions = [
            [each.array.version for each in flat.pieces] for flat in unit.flats
        ]
        ctx.set_materialize_grads(False)
        return tuple([each.view(each.shape) for each in results])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.unit.schedule.before_backward(ctx.unit, ctx.versions, grads)
        return None, *grads


def _watched(unit: FSDPUnit, result: Any) -> Any:
    """Return a result whose gradients let a unit be gathered."""
    tensors = [each for each in tensors_of(result) if each.requires_grad]
    if not tensors:
        return result
    passed = iter(_BeforeBackward.apply(unit, *tensors))
    return tree_map(
        result,
        lambda x: next(passed) if isinstance(x, Tensor) and x.requires_grad else x,
    )


def casting(dtype: DType) -> Callable[[Any], Any]:
    """Return a function that casts tensors of floats, and leaves the rest."""

    def cast(value: Any) -> Any:
        floats = isinstance(value, Tensor) and value.dtype.is_float
        return value.to(dtype) if floats else value

    return cast
