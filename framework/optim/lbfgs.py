"""L-BFGS, with a line search that meets the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

from ..autograd.grad_mode import enable_grad, no_grad
from ..base import trace_hooks
from ..nn.divided import refuse_divided
from ..ops import cat, view_as_real
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer, Params
from .state_dict import StateSpec

LEAST_CURVATURE = 1e-10
"""Below it a pair of step and change of gradient is not kept."""

SUFFICIENT, CURVATURE = 1e-4, 0.9
"""Constants of the strong Wolfe conditions."""

MOST_TRIALS = 25
"""Of a line search."""


class Trial(NamedTuple):
    """Trial of a line search: step length, loss, gradient, and slope along it."""

    length: float
    loss: float
    grad: Tensor
    slope: float


def _real(x: Tensor) -> Tensor:
    """Return a tensor, a complex one as the view of its parts."""
    return view_as_real(x) if x.dtype.is_complex else x


class LBFGS(Optimizer):
    """Limited-memory Broyden-Fletcher-Goldfarb-Shanno method.

    Its decisions are made on the host: each iteration reads some numbers from the
    device, and a step cannot be replayed.

    Parameters
    ----------
    params : iterable of Tensor
        One group.
    lr : float, default 1
        Step length, of the line search the first.
    max_iter : int, default 20
        Iterations of a step.
    max_eval : int, optional
        Evaluations of the closure in a step; 5 / 4 of `max_iter` if not given.
    tolerance_grad : float, default 1e-7
        Ends a step where no element of the gradient is larger.
    tolerance_change : float, default 1e-9
        Ends a step where loss or parameters change less.
    history_size : int, default 100
        Pairs that the inverse Hessian is estimated from.
    line_search_fn : str, optional
        "strong_wolfe", or None to take steps of length `lr`.

    Raises
    ------
    ValueError
        If there are several groups, or `line_search_fn` is another.

    Notes
    -----
    Source: Nocedal and Wright, Numerical Optimization, 2006, algorithms 3.5, 3.6, 7.4.
    """

    remembered: ClassVar[StateSpec | None] = None

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                f"LBFGS: there are {len(self.param_groups)} groups; it takes one"
            )
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGS: line_search_fn is {group['line_search_fn']!r}; it must be"
                ' "strong_wolfe" or None'
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` iterations, and return the first loss.

        Parameters
        ----------
        closure : callable
            Drops the gradients, computes the loss and its gradients, and returns the
            loss.

        Raises
        ------
        TypeError
            If there is no closure.
        NotImplementedError
            If a parameter is divided among ranks; nothing has been changed then.
        """
        if closure is None:
            raise TypeError(
                "LBFGS.step: closure is missing; it is called several times"
            )
        trace_hooks.once("L-BFGS decides on the host")
        with no_grad():
            loss = self._iterate(closure)
        return loss

    # Parameters as one vector

    def _flat_grad(self) -> Tensor:
        # After the closure, which says of assigned parameters that they are parts.
        refuse_divided("LBFGS.step", self._params, "another optimizer")
        parts = [
            _real(each * 0 if each.grad is None else each.grad).reshape(-1)
            for each in self._params
        ]
        return cat(parts, 0)

    def _move(self, length: float, direction: Tensor) -> None:
        start = 0
        for each in map(_real, self._params):
            part = direction[start : start + each.numel()].reshape(each.shape)
            each.add_(part, alpha=length)
            start += each.numel()

    def _evaluate(
        self, closure: Callable[[], Any], direction: Tensor, length: float
    ) -> Trial:
        """Return the trial of a step length, with the parameters where they were."""
        before = [each.clone() for each in self._params]
        self._move(length, direction)
        with enable_grad():
            loss = float(closure())
        grad = self._flat_grad()
        for each, old in zip(self._params, before):
            each.copy_(old)
        return Trial(length, loss, grad, grad.dot(direction).item())

    # Iterations

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self._state.setdefault(self._params[0], {"func_evals": 0, "n_iter": 0})
        with enable_grad():
            first = closure()
        loss, evaluations, iterations = float(first), 1, 0
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return first
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = grad, loss
            before = loss
            length = float(group["lr"])
            if state["n_iter"] == 1:
                length *= min(1.0, 1.0 / grad.abs().sum().item())
            slope = grad.dot(direction).item()
            state["d"], state["t"] = direction, length
            if slope > -group["tolerance_change"]:
                break
            made = 0
            if group["line_search_fn"]:
                start = Trial(0.0, loss, grad, slope)
                found, made = search(
                    partial(self._evaluate, closure, direction),
                    start,
                    length,
                    direction.abs().max().item(),
                )
                length, loss, grad, _ = found
                self._move(length, direction)
            else:
                self._move(length, direction)
                if iterations != group["max_iter"]:
                    with enable_grad():
                        loss = float(closure())
                    grad, made = self._flat_grad(), 1
            state["t"] = length
            evaluations += made
            state["func_evals"] += made
            if (
                iterations == group["max_iter"]
                or evaluations >= group["max_eval"]
                or grad.abs().max().item() <= group["tolerance_grad"]
                or (direction * length).abs().max().item() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _direction(self, state: dict[str, Any], grad: Tensor, most: int) -> Tensor:
        """Return minus the estimated inverse Hessian times the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -grad
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = change.dot(step).item()
        if curvature > LEAST_CURVATURE:
            if len(changes) == most:
                for each in (changes, steps, inverses):
                    each.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change).item()
        q, shares = -grad, [0.0] * len(changes)
        for k in reversed(range(len(changes))):
            shares[k] = steps[k].dot(q).item() * inverses[k]
            q = q - changes[k] * shares[k]
        direction: Tensor = q * state["H_diag"]
        for k in range(len(changes)):
            back = changes[k].dot(direction).item() * inverses[k]
            direction = direction + steps[k] * (shares[k] - back)
        return direction


def search(
    evaluate: Callable[[float], Trial],
    start: Trial,
    length: float,
    reach: float,
    tolerance: float = 1e-9,
) -> tuple[Trial, int]:
    """Return a trial that meets the strong Wolfe conditions, and how many were made.

    Parameters
    ----------
    evaluate : callable
        Returns the trial of a step length.
    start : Trial
        Of length 0.
    length : float
        Of the first trial.
    reach : float
        Largest element of the direction.
    tolerance : float, default 1e-9
        Smallest change of an element that is worth a trial.
    """
    bracket, count, made = _bracket(evaluate, start, length)
    if len(bracket) == 1:
        return bracket[0], made
    low, high = sorted(bracket, key=lambda trial: trial.loss)
    narrow = False
    while count < MOST_TRIALS and abs(high.length - low.length) * reach >= tolerance:
        least, most = sorted((low.length, high.length))
        length = cubic_minimum(low, high, least, most)
        edge = 0.1 * (most - least)
        if min(most - length, length - least) < edge:
            # Near an end twice in a row, or at it: away from it.
            if narrow or length >= most or length <= least:
                near_end = abs(length - most) < abs(length - least)
                length = most - edge if near_end else least + edge
                narrow = False
            else:
                narrow = True
        else:
            narrow = False
        trial = evaluate(length)
        made, count = made + 1, count + 1
        if _too_high(trial, start) or trial.loss >= low.loss:
            high = trial
            if high.loss < low.loss:
                low, high = high, low
        elif abs(trial.slope) <= -CURVATURE * start.slope:
            return trial, made
        else:
            if trial.slope * (high.length - low.length) >= 0:
                high = low
            low = trial
    return low, made


def _too_high(trial: Trial, start: Trial) -> bool:
    bound = start.loss + SUFFICIENT * trial.length * start.slope
    return not trial.loss <= bound


def _bracket(
    evaluate: Callable[[float], Trial], start: Trial, length: float
) -> tuple[list[Trial], int, int]:
    """Return two trials around a good one, or that alone; rounds and trials made."""
    before, trial = start, evaluate(length)
    made, count = 1, 0
    while count < MOST_TRIALS:
        if _too_high(trial, start) or (count > 1 and trial.loss >= before.loss):
            return [before, trial], count, made
        if abs(trial.slope) <= -CURVATURE * start.slope:
            return [trial], count, made
        if trial.slope >= 0:
            return [before, trial], count, made
        least = trial.length + 0.01 * (trial.length - before.length)
        most = trial.length * 10
        length = cubic_minimum(before, trial, least, most)
        before, trial = trial, evaluate(length)
        made, count = made + 1, count + 1
    return [start, trial], count, made


def cubic_minimum(first: Trial, second: Trial, least: float, most: float) -> float:
    """Return where the cubic through two trials is lowest, within bounds."""
    if first.length > second.length:
        first, second = second, first
    apart = second.length - first.length
    middle = (least + most) / 2
    if apart == 0:
        return middle
    a = (
        first.slope
        + second.slope
        - 3 * (first.loss - second.loss) / (first.length - second.length)
    )
    square = a * a - first.slope * second.slope
    if not square >= 0:
        return middle
    root = math.sqrt(square)
    below = second.slope - first.slope + 2 * root
    if below == 0:
        return middle
    place = second.length - apart * ((second.slope + root - a) / below)
    return min(max(place, least), most)
