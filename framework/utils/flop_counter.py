"""Floating-point operations of matrix products, convolutions and attention."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from vkbackend import fork_safety

from ..autograd.running_pass import running_pass
from ..base import trace_hooks
from ..dispatch.primitive import Primitive
from ..func.tree import tree_leaves
from ..nn.module import Module
from ..nn.module_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from ..tensor.tensor import Tensor

__all__ = ["FlopCounterMode", "flop_registry"]

Formula = Callable[[Mapping[str, Any], Any], int]


def _product(call: Mapping[str, Any], out: Any) -> int:
    batch, m, k = call["a"].shape
    return 2 * int(batch) * int(m) * int(k) * int(call["b"].shape[2])


def _convolution(call: Mapping[str, Any], out: Any) -> int:
    return 2 * int(out.numel()) * int(prod(call["weight"].shape[1:]))


def _input_gradient(call: Mapping[str, Any], out: Any) -> int:
    return 2 * int(call["grad_out"].numel()) * int(prod(call["weight"].shape[1:]))


def _weight_gradient(call: Mapping[str, Any], out: Any) -> int:
    return 2 * int(call["grad_out"].numel()) * int(prod(out.shape[1:]))


def _attention(call: Mapping[str, Any], products: int, value_products: int) -> int:
    """Return products of all queries with all keys, whatever the mask leaves out."""
    batch, heads, queries, width = call["q"].shape
    keys, value_width = call["v"].shape[2:]
    each = products * width + value_products * value_width
    return int(2 * batch * heads * queries * keys * each)


def _steps(call: Mapping[str, Any], out: Any) -> int:
    steps, batch, _ = call["gates"].shape
    return 2 * int(steps) * int(batch) * int(prod(call["weight"].shape))


def _steps_back(call: Mapping[str, Any], out: Any) -> int:
    # The first step's states have theirs from a product of its own.
    steps, batch, _ = call["grad"].shape
    return 2 * (int(steps) - 1) * int(batch) * int(prod(call["weight"].shape))


flop_registry: dict[str, Formula] = {
    "bmm": _product,
    "conv2d": _convolution,
    "conv2d_input_vjp": _input_gradient,
    "conv2d_weight_vjp": _weight_gradient,
    "flash_attention": lambda call, out: _attention(call, 1, 1),
    "flash_query_grad": lambda call, out: _attention(call, 1, 0),
    "flash_key_grad": lambda call, out: _attention(call, 2, 2),
    **dict.fromkeys(("elman_states", "gru_states", "lstm_states"), _steps),
    **dict.fromkeys(("state_gradients", "cell_gradients"), _steps_back),
}
"""Formulas by op: of its arguments by name, and of what it returned."""

_NAMES = {
    "conv2d": "convolution",
    "conv2d_input_vjp": "convolution",
    "conv2d_weight_vjp": "convolution",
    "flash_attention": "scaled_dot_product_attention",
    "flash_query_grad": "scaled_dot_product_attention",
    "flash_key_grad": "scaled_dot_product_attention",
    **dict.fromkeys(("elman_states", "gru_states", "lstm_states"), "bmm"),
    **dict.fromkeys(("state_gradients", "cell_gradients"), "bmm"),
}


class _Active(threading.local):
    def __init__(self) -> None:
        self.counters: list[FlopCounterMode] = []


_active = _Active()
_plain_call: Any = Primitive.__call__
_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.Lock)
_modes = 0


def _counted_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    counters = _active.counters
    if not counters:
        return _plain_call(self, *args, **kwargs)
    before = counters[-1].get_total_flops()
    out = _plain_call(self, *args, **kwargs)
    # Under vmap an op calls itself with the whole batch, which is what counts.
    if counters[-1].get_total_flops() == before:
        for counter in counters:
            counter._count(self, args, kwargs, out)
    return out


def _watch(change: int) -> None:
    """Let calls of primitives be seen while a counter is active in some thread."""
    global _modes
    with _lock:
        _modes += change
        Primitive.__call__ = _counted_call if _modes else _plain_call  # type: ignore[method-assign]


class FlopCounterMode:
    """Block in which floating-point operations are counted, by module and op.

    Parameters
    ----------
    mods : Module or sequence of Module, optional
        Without effect, as in PyTorch: modules are found when they are called.
    depth : int, default 2
        Levels of modules in the table.
    display : bool, default True
        Whether the table is printed at the end of the block.
    custom_mapping : dict, optional
        Formulas of further ops by name, as in `flop_registry`.

    Notes
    -----
    Products, convolutions and attention are counted as in PyTorch, forward and
    backward: two operations for each multiplication. Element-wise ops and reductions
    are not. Work of a backward pass counts for the modules between whose outputs and
    inputs it is done; where an input requires no gradient, to the end of the pass.
    Functions of `fw.jit` that are replayed are not seen: count their first call, or
    the function without `fw.jit`. Nor are the steps of a recurrent layer on the host,
    which are one op there; a device counts what it computes again in the backward pass.
    Of grouped convolutions the weight's gradient counts without what the groups leave
    out, which PyTorch counts. The host's time is longer within the block.
    """

    def __init__(
        self,
        mods: Module | Sequence[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: Mapping[Any, Formula] | None = None,
    ) -> None:
        self.depth = depth
        self.display = display
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._formulas = {**flop_registry, **(custom_mapping or {})}
        self._stack = ExitStack()
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        self._forward: list[str] = []
        self._backward: list[str] = []
        self._pass: object = None

    def __enter__(self) -> FlopCounterMode:
        """Count from 0."""
        self.flop_counts = {"Global": {}}
        self._forward, self._backward, self._pass = [], [], None
        with ExitStack() as stack:
            # Recorded calls and backward passes are replayed only where none runs.
            stack.enter_context(trace_hooks.listening(None))
            for handle in (
                register_module_forward_pre_hook(self._before),
                register_module_forward_hook(self._after, always_call=True),
            ):
                stack.callback(handle.remove)
            _watch(1)
            stack.callback(_watch, -1)
            _active.counters.append(self)
            stack.callback(_active.counters.remove, self)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Print the table, where it was asked for."""
        self._stack.close()
        if self.display:
            print(self.get_table(self.depth))

    def _before(self, module: Module, args: tuple[Any, ...]) -> None:
        name = self._names.get(module)
        if name is None:
            name = type(module).__name__
            for path, each in module.named_modules():
                self._names[each] = f"{name}.{path}" if path else name
        self._forward.append(name)
        for each in tree_leaves(args):
            if isinstance(each, Tensor) and each.requires_grad:
                each.register_hook(lambda grad: self._leave(name))

    def _after(self, module: Module, args: tuple[Any, ...], result: Any) -> None:
        name = self._forward.pop()
        for each in tree_leaves(result):
            if isinstance(each, Tensor) and each.requires_grad:
                each.register_hook(lambda grad: self._reach(name))

    def _reach(self, name: str) -> None:
        self._current().append(name)

    def _leave(self, name: str) -> None:
        current = self._current()
        if name in current:
            current.remove(name)

    def _current(self) -> list[str]:
        """Return the modules through which the backward pass goes, or forward ones."""
        running = running_pass()
        if running is None:
            return self._forward
        if running is not self._pass:
            self._pass, self._backward = running, []
        return self._backward

    def _count(self, op: Any, args: Any, kwargs: Any, out: Any) -> None:
        formula = self._formulas.get(op.name)
        if formula is None:
            return
        given = dict(zip(op.names, op._given(args, kwargs), strict=False))
        flops = formula(given, out)
        key = _NAMES.get(op.name, op.name)
        if key != op.name and running_pass() is not None:
            key += "_backward"
        for name in {"Global", *self._current()}:
            counts = self.flop_counts.setdefault(name, {})
            counts[key] = counts.get(key, 0) + flops

    def get_total_flops(self) -> int:
        """Return the number of operations so far."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return the numbers of operations by module, then by op.

        Returns
        -------
        dict of str to dict
            `Global` is all of them; modules are named after the class of the
            outermost one, as `Sequential.0`.
        """
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the numbers as text.

        Parameters
        ----------
        depth : int, optional
            Levels of modules; by default the counter's.
        """
        most = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        for name in sorted(self.flop_counts, key=lambda each: (each != "Global", each)):
            level = 0 if name == "Global" else name.count(".") + 1
            if level > most:
                continue
            counts = self.flop_counts[name]
            of_module = sum(counts.values())
            rows.append((" " * level + name, *_amounts(of_module, total)))
            rows += [
                (f"{' ' * level} - {op}", *_amounts(flops, total))
                for op, flops in counts.items()
            ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]  # all texts
        return "\n".join(
            f"{name:<{widths[0]}}  {flops:>{widths[1]}}  {share:>{widths[2]}}"
            for name, flops, share in rows
        )


def _amounts(flops: int, total: int) -> tuple[str, str]:
    share = f"{flops / total:.2%}" if total else "0%"
    for power, suffix in ((12, "T"), (9, "B"), (6, "M"), (3, "K")):
        if flops >= 10**power:
            return f"{flops / 10**power:.3f}{suffix}", share
    return str(flops), share
