"""Scaling of losses, so that small gradients survive float16."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, overload

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import Device
from ..base.dtype import float16, float32, promote
from ..base.errors import StateError
from ..nn.divided import group_of
from ..ops import isfinite, logical_and, logical_not, stack, where
from ..tensor.factories import full
from ..tensor.inplace import restorer, transaction
from ..tensor.tensor import Tensor
from .clip_grad import common_norm, scale_each
from .foreach import assign_
from .optimizer import Optimizer
from .state_dict import is_number
from .stateful import has_failed


class GradScaler:
    """Multiplies losses by a scale, and skips steps whose gradients overflowed.

    The scale falls when a gradient is infinite or NaN, and rises after some steps in a
    row in which none was. Scale and decision are on the device: nothing is read back,
    so that steps are replayed under `jit` as any others.

    Parameters
    ----------
    device : str, default "cuda"
        Has no effect: the scale is where the losses are. A number is `init_scale`.
    init_scale : float, default 65536
        Above 0.
    growth_factor : float, default 2
        Above 1.
    backoff_factor : float, default 0.5
        Above 0 and below 1.
    growth_interval : int, default 2000
        Steps in a row without an overflow after which the scale grows.
    enabled : bool, default True
        False makes `scale` and `unscale_` do nothing, and `step` a plain one.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    What overflows is noticed by the gradients' common norm, in one dispatch for many: a
    norm beyond the dtype's range counts as an overflow too.

    A skipped step leaves parameters, moments and the number of Adam's steps as they
    were. Where the very first is skipped, SGD's dampening applies to the next already.
    The step counts in optimizers' states include skipped ones; their state dicts
    do not.

    Source: Micikevicius et al., arXiv:1710.03740; PyTorch's `torch.amp.GradScaler`.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
    >>> scaler = fw.GradScaler(init_scale=1024.0)
    >>> with fw.autocast(fw.float16):
    ...     loss = model(fw.ones((4, 2))).square().mean()
    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> scaler.get_scale()
    1024.0
    """

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if isinstance(device, int | float):
            init_scale = device
        _check("init_scale", init_scale, 0 < init_scale <= _MAX_FLOAT32, _POSITIVE)
        self._enabled = enabled
        self._growth, self._backoff, self._interval = _rule(
            growth_factor, backoff_factor, growth_interval
        )
        self._start = float(init_scale), 0
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        # Since the last update: `found_inf` of each optimizer that has been unscaled,
        # and those that have stepped.
        self._found_inf: weakref.WeakKeyDictionary[Optimizer, Tensor] = (
            weakref.WeakKeyDictionary()
        )
        self._stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has unscaled no optimizer yet: weak containers have no pickles.
        state = dict(vars(self))
        del state["_found_inf"], state["_stepped"]
        return type(self), (), state

    def is_enabled(self) -> bool:
        """Return whether losses are scaled."""
        return self._enabled

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...

    @overload
    def scale(self, outputs: Iterable[Any]) -> Any: ...

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or any tensor, times the scale; float32 if it was 16 bits.

        Parameters
        ----------
        outputs : Tensor, or iterable of them
            A list or tuple, at any depth, gives another one.

        Raises
        ------
        ValueError
            If it is something else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            scale = self._scale_on(outputs.device)
            return outputs.to(promote(outputs.dtype, scale.dtype)) * scale
        if not isinstance(outputs, Iterable):
            raise ValueError(
                f"GradScaler.scale: outputs are a {type(outputs).__name__}; they must"
                " be a tensor or an iterable of tensors"
            )
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled

    def _scale_on(self, device: Device) -> Tensor:
        """Return the scale, which is initialised on first use."""
        self._drop_failed()
        if self._scale is None or self._growth_tracker is None:
            trace_hooks.once("GradScaler makes room for its scale")
            scale, growth_tracker = self._start
            self._scale = full((), scale, dtype=float32, device=device)
            self._growth_tracker = full(
                (), float(growth_tracker), dtype=float32, device=device
            )
        return self._scale

    def _drop_failed(self) -> None:
        """Drop the scale if the step that initialised it failed."""
        if has_failed(self._scale) or has_failed(self._growth_tracker):
            self._scale = self._growth_tracker = None

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, in place.

        `step` does it, unless it has been done to clip gradients, for example.

        Raises
        ------
        StateError
            If it has been done since the last `update`, or there is no gradient.
        ValueError
            If a gradient is float16: keep parameters in float32, and use `autocast`.
        """
        if not self._enabled:
            return
        if optimizer in self._found_inf:
            raise StateError(
                "GradScaler.unscale_: the gradients are unscaled already; call update()"
                " before the next step"
            )
        groups = optimizer.param_groups
        params = [parameter for group in groups for parameter in group["params"]]
        grads = [each.grad for each in params if each.grad is not None]
        among = group_of("GradScaler.unscale_", params)
        if not grads and among is None:
            raise StateError(
                "GradScaler.unscale_: no parameter has a gradient; call"
                " scale(loss).backward() first"
            )
        for grad in grads:
            if grad.dtype is float16:
                raise ValueError(
                    "GradScaler.unscale_: a gradient is float16, which has no room for"
                    " it; keep the parameters in float32 and compute under autocast"
                )
        with no_grad():
            inverse = self._scale_on(params[0].device).reciprocal()
            scale_each(grads, inverse)
            # A rank whose parts are all empty has no gradients.
            norm = common_norm(grads) if grads else inverse
            found = logical_not(isfinite(norm))
            if among is not None:
                # All ranks take the step, or none.
                found = among.all_max(found)
            self._found_inf[optimizer] = found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscale, and let an optimizer step unless a gradient is infinite or NaN.

        Parameters
        ----------
        optimizer : Optimizer
        *args, **kwargs
            Arguments of its `step`; with "closure" only if the scaler is not enabled.

        Returns
        -------
        object
            What its `step` returns; None if it was skipped.

        Raises
        ------
        StateError
            If it has stepped since the last `update`, or a closure is given.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if kwargs:
            raise StateError(
                f"GradScaler.step: {', '.join(kwargs)} is given while scaling is"
                " enabled; call step(optimizer)"
            )
        if optimizer in self._stepped:
            raise StateError(
                "GradScaler.step: the optimizer has stepped already; call update()"
                " before the next step"
            )
        if optimizer not in self._found_inf:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        return optimizer.step_unless(self._found_inf[optimizer], *args)

    def update(self, new_scale: float | None = None) -> None:
        """Choose the next scale by what was found since the last update.

        Parameters
        ----------
        new_scale : float or None
            Take this one instead, above 0.

        Raises
        ------
        ValueError
            If the new scale is out of range.
        StateError
            If nothing was scaled, or no gradients were unscaled.
        """
        if not self._enabled:
            return
        if is_number(new_scale):
            _check("new_scale", new_scale, 0 < new_scale <= _MAX_FLOAT32, _POSITIVE)
        self._drop_failed()
        scale, growth_tracker = self._scale, self._growth_tracker
        if scale is None or growth_tracker is None:
            raise StateError(
                "GradScaler.update: nothing was scaled; call scale() first"
            )
        found = list(self._found_inf.values())
        if new_scale is None and not found:
            raise StateError(
                "GradScaler.update: no gradients were unscaled since the last update;"
                " call step() first"
            )
        with no_grad():
            if new_scale is None:
                self._adapt(scale, growth_tracker, stack(found).any())
            else:
                scale.fill_(new_scale)
        self._found_inf.clear()
        self._stepped.clear()

    def _adapt(self, scale: Tensor, growth_tracker: Tensor, overflow: Tensor) -> None:
        longer = growth_tracker + 1.0
        interval_reached = longer >= float(self._interval)
        grown = scale * self._growth
        grows = logical_and(interval_reached, isfinite(grown))
        raised = where(grows, grown, scale)
        assign_(
            growth_tracker, where(overflow, 0.0, where(interval_reached, 0.0, longer))
        )
        assign_(scale, where(overflow, scale * self._backoff, raised))

    def forget(self, optimizer: Optimizer) -> None:
        """Drop `found_inf` of an optimizer's step that has not ended."""
        self._found_inf.pop(optimizer, None)
        self._stepped.discard(optimizer)

    def get_scale(self) -> float:
        """Return the scale; waits for the device. 1 if it is not enabled."""
        if not self._enabled:
            return 1.0
        self._drop_failed()
        return self._start[0] if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows, above 1."""
        self._set_rule(new_factor, self._backoff, self._interval)

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale falls."""
        return self._backoff

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale falls, above 0 and below 1."""
        self._set_rule(self._growth, new_factor, self._interval)

    def get_growth_interval(self) -> int:
        """Return how many steps in a row without an overflow let the scale grow."""
        return self._interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many steps in a row without an overflow let the scale grow."""
        self._set_rule(self._growth, self._backoff, new_interval)

    def _set_rule(self, growth: float, backoff: float, interval: float) -> None:
        self._growth, self._backoff, self._interval = _rule(growth, backoff, interval)
        trace_hooks.structure_changed()

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and what decides the next; empty if it is not enabled."""
        if not self._enabled:
            return {}
        self._drop_failed()
        growth_tracker = (
            self._start[1]
            if self._growth_tracker is None
            else self._growth_tracker.item()
        )
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth,
            "backoff_factor": self._backoff,
            "growth_interval": self._interval,
            "_growth_tracker": int(growth_tracker),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state.

        Raises
        ------
        StateError
            If the state is empty, of a scaler that was not enabled, or is none of a
            scaler; nothing has been changed then.
        ValueError
            If a number is out of range; nothing has been changed then.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise StateError(
                "GradScaler.load_state_dict: the state is empty, of a scaler that is"
                " not enabled; load that of one that is"
            )
        names = ("scale", "growth_factor", "backoff_factor", "growth_interval")
        for name in (*names, "_growth_tracker"):
            value = state_dict.get(name) if isinstance(state_dict, Mapping) else None
            if not is_number(value):
                raise StateError(
                    f"GradScaler.load_state_dict: {name} is {value!r};"
                    " it must be a number, as state_dict() gives"
                )
        scale, growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        _check("scale", scale, 0 < scale <= _MAX_FLOAT32, _POSITIVE)
        counts = 0 <= growth_tracker <= _MAX_FLOAT32 and growth_tracker % 1 == 0
        _check(
            "_growth_tracker", growth_tracker, counts, "a whole number of at least 0"
        )
        rule = _rule(*[state_dict[name] for name in names[1:]])
        numbers = float(scale), int(growth_tracker)
        tensors = [
            each for each in (self._scale, self._growth_tracker) if each is not None
        ]
        before = self._growth, self._backoff, self._interval, self._start
        give_back = restorer(tensors)

        def take() -> None:
            self._replace_state(*rule, numbers)
            for tensor, number in zip(tensors, numbers):
                tensor.fill_(number)

        def undo() -> None:
            self._replace_state(*before)
            give_back()

        with no_grad():
            transaction(take, undo)
        # A state is of a moment between steps.
        self._found_inf.clear()
        self._stepped.clear()
        trace_hooks.structure_changed()

    def _replace_state(
        self, growth: float, backoff: float, interval: int, start: tuple[float, int]
    ) -> None:
        self._growth, self._backoff = growth, backoff
        self._interval, self._start = interval, start


_MAX_FLOAT32 = 3.4028234663852886e38
"""The largest float32: scale and streak are kept as such, and the rest meets them."""

_POSITIVE = "above 0, and a float32"


def _rule(growth: float, backoff: float, interval: float) -> tuple[float, float, int]:
    """Return growth factor, backoff factor and growth interval, which are in range."""
    _check(
        "growth_factor", growth, 1 < growth <= _MAX_FLOAT32, "above 1, and a float32"
    )
    _check("backoff_factor", backoff, 0 < backoff < 1, "above 0 and below 1")
    counts = 1 <= interval <= _MAX_FLOAT32 and interval % 1 == 0
    _check("growth_interval", interval, counts, "a whole number of at least 1")
    return float(growth), float(backoff), int(interval)


def _check(name: str, value: float, right: bool, wanted: str) -> None:
    if not right:
        raise ValueError(f"GradScaler: {name} is {value}; it must be {wanted}")
