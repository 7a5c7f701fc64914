"""Anomaly detection: which op's rule made a gradient NaN, and where it was called."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from ..base.errors import GradError
from . import tape
from .partial_grad import dense
from .running_pass import check_gradients


class _Calls:
    """Numbers of nodes, which note where each node was recorded."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers
        self.stacks: dict[int, list[traceback.FrameSummary]] = {}

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        number = next(self.numbers)
        # Without this method, the node's constructor and the recorder of the op.
        self.stacks[number] = traceback.extract_stack()[:-3]
        return number


class _State:
    enabled = False
    check_nan = True
    calls: _Calls | None = None


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on."""
    return _State.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether gradients are checked for NaN while anomaly detection is on."""
    return _State.check_nan


def _set(mode: bool, check_nan: bool) -> None:
    _State.enabled, _State.check_nan = mode, check_nan
    if mode and _State.calls is None:
        _State.calls = _Calls(tape._sequence)
        tape._sequence = _State.calls
        check_gradients.append(_check)
    elif not mode and _State.calls is not None:
        tape._sequence = _State.calls.numbers
        _State.calls = None
        check_gradients.clear()


def _check(node: tape.GradNode, answers: tuple[Any, ...]) -> None:
    """Raise `GradError` if a rule made a gradient NaN."""
    if not _State.check_nan:
        return
    for at, answer in enumerate(answers):
        if answer is None or node.edges[at] is None:
            continue
        found = dense(answer).detach()
        if bool((found != found).any()):
            _warn_of_call(node)
            raise GradError(
                f"backward: {node.name()} returned NaN in the gradient of its"
                f" input {at}; the warning above names the call that recorded it"
            )


def _warn_of_call(node: tape.GradNode) -> None:
    calls = _State.calls
    stack = None if calls is None else calls.stacks.get(node.sequence)
    if stack is None:
        warnings.warn(
            f"backward: {node.name()} was recorded before anomaly detection was on;"
            " run the forward pass inside of detect_anomaly()",
            stacklevel=2,
        )
        return
    text = "".join(traceback.format_list(stack))
    warnings.warn(
        f"backward: error in {node.name()}, called here:\n{text}", stacklevel=2
    )


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """Block in which backward passes stop at the first rule that makes NaN.

    The error names the op; a warning before it shows where the forward pass called it,
    if that was inside of a block, too.

    Parameters
    ----------
    check_nan : bool, default True
        Whether gradients are checked; each check reads one from the device.

    Notes
    -----
    For debugging: every op is slower, and every backward pass waits for the device.

    Entering warns of that; `set_detect_anomaly` does not.

    Examples
    --------
    >>> with fw.autograd.set_detect_anomaly(True):
    ...     x = fw.tensor([2.0], requires_grad=True)
    ...     (x * x).sum().backward()
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._before = _State.enabled, _State.check_nan
        self.check_nan = check_nan
        warnings.warn(
            "detect_anomaly: every op notes where it is called, and every backward pass"
            " waits for the device; use it for debugging only",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = _State.enabled, _State.check_nan
        _set(True, self.check_nan)

    def __exit__(self, *raised: object) -> None:
        _set(*self._before)


class set_detect_anomaly:  # noqa: N801 - PyTorch's name
    """Switch anomaly detection on or off: from then on, or for a block.

    Parameters
    ----------
    mode : bool
        Whether it is on.
    check_nan : bool, default True
        As in `detect_anomaly`.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _State.enabled, _State.check_nan
        _set(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _set(*self._before)
