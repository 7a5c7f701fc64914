"""Hooks on saved tensors: what nodes keep instead of them, as copies on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.errors import GradError
from ..base.scoped_setting import ScopedSetting, ScopeFrame, SettingScope
from ..eager.base_tensor import TensorCore
from ..ir.lazy_graph import Array
from . import saved_tensors
from .grad_mode import no_grad
from .tape import Edge, GradNode, Saved

PackHook = Callable[[Any], Any]

pack_hooks = ScopedSetting(None)
"""The innermost pair of hooks, (pack, unpack), or None."""

_collector: ScopedSetting = ScopedSetting(None)

_counted: set[ScopeFrame] = set()
_refusal: ScopedSetting = ScopedSetting(None)


class _CountedScope(SettingScope):
    """Block in which nodes are made by `_packing_node`, in every thread."""

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Have nodes made by `_packing_node`."""
        _counted.add(scope_frame)
        saved_tensors.make_node = _packing_node

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Have nodes made as usual once no thread is in a block."""
        _counted.discard(scope_frame)
        if not _counted:
            saved_tensors.make_node = GradNode


def collecting_nodes(collect: Callable[[GradNode], object] | None) -> SettingScope:
    """Return a block in which this thread's nodes of ops are passed on when made."""
    return _CountedScope(_collector, collect)


class saved_tensors_hooks(_CountedScope):  # noqa: N801 - PyTorch's name
    """Block in which nodes keep what `pack_hook` makes of the tensors they save.

    Parameters
    ----------
    pack_hook : callable
        From a tensor to any object: a leaf itself, or the elements of another tensor.
    unpack_hook : callable
        From that to a tensor of the same shape, dtype and device, when it is needed.

    Raises
    ------
    TypeError
        If a hook is not callable.
    GradError
        When it is entered within `disable_saved_tensors_hooks`.

    Notes
    -----
    Of nested blocks the innermost counts. Backward passes over such nodes are not
    replayed from the cache of passes.

    Examples
    --------
    >>> kept = []
    >>> with saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
    ...     y = fw.ones(2, requires_grad=True).exp()
    >>> len(kept)
    1
    """

    def __init__(self, pack_hook: PackHook, unpack_hook: PackHook) -> None:
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(
                    f"saved_tensors_hooks: {name} is a {type(hook).__name__}; it must"
                    " be a function of what is saved"
                )
        super().__init__(pack_hooks, (pack_hook, unpack_hook))

    def _recreate_cm(self) -> saved_tensors_hooks:
        return type(self)(*self._value)

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Have nodes made by `_packing_node`."""
        message = _refusal.top.value
        if message is not None:
            raise GradError(message)
        super().on_enter(scope_frame)


def _packing_node(*arguments: Any) -> GradNode:
    """Return a node that keeps packed tensors, in a thread that is in a block."""
    node = GradNode(*arguments)
    hooks = pack_hooks.top.value
    if hooks is not None:
        node.kind = None
        packed: Any = _PackedSaved(node, *hooks)
        node.saved = packed
    collect = _collector.top.value
    if collect is not None:
        collect(node)
    return node


class _PackedSaved:
    """What a node saved, packed; in the place of its dict."""

    def __init__(self, node: GradNode, pack: PackHook, unpack: PackHook) -> None:
        self._unpack = unpack
        saved = node.saved
        assert saved is not None
        self._saved = saved
        self._packed: dict[str, Any] = {}
        for name, value in saved.items():
            if type(value) is Saved:
                self._packed[name] = packed_by(pack, _given(value, node.edges))
                # The edge stays; the elements are the hook's.
                saved[name] = value.edge

    def items(self) -> Iterator[tuple[str, Any]]:
        for name, value in self._saved.items():
            if name in self._packed:
                yield name, self._unpacked(self._packed[name], value)
            else:
                yield name, value

    def values(self) -> Iterator[Any]:
        for _, value in self.items():
            yield value

    def _unpacked(self, packed: Any, edge: int | None) -> Saved:
        with no_grad():
            tensor = unpacked(self._unpack, packed)
        array = tensor.array
        kept = array, tensor.layout, tensor.device, tensor.results
        return Saved(*kept, array.version, edge)


def _given(saved: Saved, edges: tuple[Edge | None, ...]) -> Any:
    """Return what a pack hook is given: a leaf, or an alias that requires a gradient.

    No tensor on the tape, as a hook that keeps its output's would keep the node.
    """
    edge = None
    if saved.edge is not None and saved.edge >= 0:
        edge = edges[saved.edge]
        if edge is None:
            return saved.tensor()
        if isinstance(edge.target, TensorCore):
            return edge.target
    tensor = saved.tensor()
    tensor.needs_grad = tensor.dtype.is_differentiable
    return tensor


def packed_by(pack: PackHook, tensor: Any) -> Any:
    """Return what a hook makes of a tensor, which it may not change."""
    version = tensor.array.version
    with no_grad():
        packed = pack(tensor)
    if tensor.array.version != version:
        raise GradError(
            "saved_tensors_hooks: the pack hook changed its argument in place; it must"
            " change a copy"
        )
    return packed


def unpacked(unpack: PackHook, packed: Any) -> Any:
    """Return the tensor that a hook makes of what another one packed."""
    tensor = unpack(packed)
    if not isinstance(tensor, TensorCore):
        raise TypeError(
            f"saved_tensors_hooks: the unpack hook returned a {type(tensor).__name__};"
            " it must return a tensor"
        )
    return tensor


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Block in which saved tensors are kept on the host, and moved back when needed.

    Parameters
    ----------
    pin_memory : bool, default False
        Accepted; staging memory of devices is always visible to the host.
    device_type : str, default "cuda"
        Accepted; tensors of every device are moved.

    Notes
    -----
    Each saved tensor is read from the device, which waits for it.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_to_host, _from_host)
        self._options = pin_memory, device_type

    def _recreate_cm(self) -> save_on_cpu:
        return save_on_cpu(*self._options)


def _to_host(tensor: Any) -> Any:
    return tensor.device, tensor.detach().cpu()


def _from_host(packed: Any) -> Any:
    device, tensor = packed
    return tensor.to(device)


def _snapshot(tensor: Any) -> Any:
    shared = Array.sharing(tensor.array)
    return type(tensor).make(shared, tensor.layout, tensor.device)


class _Snapshots(saved_tensors_hooks):
    """Block in which saved tensors may be changed in place afterwards."""

    def __init__(self) -> None:
        super().__init__(_snapshot, lambda tensor: tensor)

    def _recreate_cm(self) -> _Snapshots:
        return _Snapshots()

    def clear(self) -> None:
        """Do nothing: each node has its own snapshots, and frees them."""


def allow_mutation_on_saved_tensors() -> saved_tensors_hooks:
    """Return a block in which saved tensors may be changed in place afterwards.

    Backward passes use the elements that were saved. Nothing is copied: a change in
    place makes a new value, and the saved one stays.
    """
    return _Snapshots()


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse `saved_tensors_hooks` within a block, with an error message.

    Parameters
    ----------
    error_message : str
        Text of the error that `saved_tensors_hooks` raises in the block.

    Raises
    ------
    GradError
        When it is entered within such hooks.
    """
    if pack_hooks.top.value is not None:
        raise GradError(error_message)
    with SettingScope(_refusal, error_message):
        yield
