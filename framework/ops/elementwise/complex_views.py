"""Views of complex numbers: their real and imaginary parts, and numbers of pairs.

A view shares its storage with its source, though its dtype is another: a change of
either in place is one of both.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.engine import grad_mode
from ...autograd.tape import show_as
from ...base import trace_hooks
from ...base.device import Device, GpuDevice, on_device_removed
from ...base.dtype import COMPLEX, complex128, float32
from ...base.errors import ShapeError
from ...base.shape import Layout, interned
from ...dispatch import batching
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.declare import derived_view
from ...dispatch.op import need_feature
from ...dispatch.view_cache import view_of
from ...ir.derived_storage import (
    DerivedArray,
    ReinterpretedValue,
    derived_array,
    in_device_memory,
)
from ...ir.lazy_graph import Array, Value
from ..movement.slice import strided_scatter
from .complex_numbers import (
    _complex_of,
    _imaginary_part,
    _real_part,
    need_complex,
    need_parts,
    numbers_of,
    pairs_of,
)

if TYPE_CHECKING:
    from ...autograd.saved_tensors import TapeRecorder
    from ...tensor.tensor import Tensor


def pair_layout(layout: Layout) -> Layout:
    """Return the layout of the pairs of real numbers that complex ones consist of."""
    shape, strides, offset = layout
    doubled = tuple(2 * stride for stride in strides)
    return Layout((*shape, 2), (*doubled, 1), 2 * offset)


class ComponentDerivation:
    """How real numbers follow from complex ones: all of them, or one of each.

    Parameters
    ----------
    part : str
        "pairs", "real" or "imag".
    device : Device
        Of the storages.
    kind : type
        Class of the tensors that it computes with.
    """

    def __init__(self, part: str, device: Device, kind: type[Any]) -> None:
        self.part, self._device, self._kind = part, device, kind

    def read(self, source: Value) -> Array:
        """Return a storage of the real numbers of complex ones."""
        buffer = source.buffer
        if isinstance(buffer, np.ndarray):
            pairs = buffer.view(source.dtype.to_real().numpy)
            taken = {"real": pairs[::2], "imag": pairs[1::2]}.get(self.part, pairs)
            flat = np.ascontiguousarray(taken)
            return Array(Value(flat.size, source.dtype.to_real(), buffer=flat))
        return self._parts(self._tensor(source))

    def reinterpreted(self, source: Value) -> ReinterpretedValue | None:
        """Return the content in the memory of a source on a device, if it is there."""
        if self.part in ("real", "imag") or not in_device_memory(source):
            return None
        return ReinterpretedValue(source, 2 * source.numel, source.dtype.to_real())

    def _parts(self, numbers: Tensor) -> Array:
        if self.part == "pairs":
            return pairs_of(numbers).array
        take = _real_part if self.part == "real" else _imaginary_part
        return take(numbers).array

    def written(self, source: Value, derived: Value) -> Array:
        """Return one of complex numbers with other real ones."""
        new = self._tensor(derived)
        if self.part == "pairs":
            return numbers_of(new.reshape(-1, 2)).array
        numbers = self._tensor(source)
        if self.part == "real":
            return _complex_of(new, _imaginary_part(numbers)).array
        return _complex_of(_real_part(numbers), new).array

    def numbers(self, layout: Layout) -> Layout:
        """Return which real numbers of the source a layout chooses."""
        if self.part == "pairs":
            return layout
        shape, strides, offset = layout
        doubled = tuple(2 * stride for stride in strides)
        return Layout(shape, doubled, 2 * offset + (self.part == "imag"))

    def _tensor(self, value: Value) -> Tensor:
        whole = Layout.contiguous((value.numel,))
        made: Tensor = self._kind.make(Array(value), whole, self._device)
        return made


class NumberDerivation(ComponentDerivation):
    """How complex numbers follow from pairs of real ones."""

    def read(self, source: Value) -> Array:
        """Return a storage of the complex numbers of pairs; one left over is none."""
        count = source.numel // 2
        buffer = source.buffer
        if isinstance(buffer, np.ndarray):
            dtype = source.dtype.to_complex()
            flat = buffer[: 2 * count].view(dtype.numpy)
            return Array(Value(count, dtype, buffer=flat))
        return numbers_of(self._tensor(source)[: 2 * count].reshape(count, 2)).array

    def reinterpreted(self, source: Value) -> ReinterpretedValue | None:
        """Return the content in the memory of a source on a device, if it is there."""
        if not in_device_memory(source):
            return None
        dtype = source.dtype.to_complex()
        return ReinterpretedValue(source, source.numel // 2, dtype)

    def written(self, source: Value, derived: Value) -> Array:
        """Return one of pairs of other numbers."""
        pairs = pairs_of(self._tensor(derived)).reshape(-1)
        if source.numel % 2:
            place = Layout.contiguous((2 * derived.numel,))
            pairs = strided_scatter(self._tensor(source), pairs, place)
        return pairs.array

    def numbers(self, layout: Layout) -> Layout:
        """Return which real numbers of the source a layout chooses."""
        return pair_layout(layout)


_derivations: dict[tuple[type[Any], Device, str], ComponentDerivation] = {}
"""Derivations by class of the tensor, device and part."""
on_device_removed(_derivations.clear)


def _derivation_for(x: Tensor, part: str) -> ComponentDerivation:
    found = _derivations.get((type(x), x.device, part))
    return found or _new_derivation(type(x), x.device, part)


def _new_derivation(kind: type[Any], device: Device, part: str) -> ComponentDerivation:
    """Return a derivation; classes that derive from plain tensors share those' own."""
    kinds: list[Any] = [each for each in kind.__mro__ if "results" in vars(each)]
    made = NumberDerivation if part == "numbers" else ComponentDerivation
    found = made(part, device, kinds[-1])
    shared = _derivations.setdefault((kinds[-1], device, part), found)
    return _derivations.setdefault((kind, device, part), shared)


@functools.lru_cache(maxsize=1024)
def _layout_in_memory(layout: Layout, part: str) -> Layout:
    """Return the layout of a view of what is in memory: of pairs, or of numbers."""
    if part == "numbers":
        shape, strides, offset = layout
        halved = tuple(stride // 2 for stride in strides[:-1])
        return interned(Layout(shape[:-1], halved, offset // 2))
    pairs = pair_layout(layout)
    if part == "pairs":
        return interned(pairs)
    shape, strides, offset = pairs
    return interned(Layout(shape[:-1], strides[:-1], offset + (part == "imag")))


@derived_view(dtypes=COMPLEX)
def _component_view(x: Tensor, part: str) -> Tensor:
    """Return a view of the parts of complex numbers, or of the numbers of pairs.

    Parameters
    ----------
    x : Tensor
        Complex numbers; or pairs of real ones, for "numbers", which no caller checks
        but its own.
    part : str
        "pairs", "real", "imag" or "numbers".
    """


@_component_view.storage
def _component_view_storage(x: Tensor, part: str) -> tuple[Array, Layout]:
    array, chosen = x.array, _layout_in_memory(x.layout, part)
    if type(array) is DerivedArray:
        return array.source, chosen
    if part in ("real", "imag"):
        value = array.value
        if value.node is not None or value.buffer is None or trace_hooks.running:
            # Computed for itself, as one part of what is lazy is half of the pairs.
            return derived_array(array, _derivation_for(x, part)), x.layout
        part = "pairs"
    return derived_array(array, _derivation_for(x, part)), chosen


@_component_view.vjp
def _component_view_vjp(grad: Tensor, part: str) -> Tensor:
    if part == "numbers":
        return pairs_of(grad if grad.dtype.is_complex else _complex_of(grad, grad * 0))
    if part == "pairs":
        return numbers_of(grad)
    return grad if part == "real" else _complex_of(grad * 0.0, grad)


def _view(x: Tensor, part: str) -> Tensor:
    """Return a view of numbers in memory at once, of others by `_component_view`."""
    array = x.array
    taped = x.needs_grad
    if not (
        (taped and not grad_mode.top.value)
        or x.grad_index < 0
        or x.is_wrapper
        or type(array) is DerivedArray
        or batching.has_rules
        or trace_hooks.running
    ):
        value = array.value
        if value.node is None and value.buffer is not None:
            found: Tensor = view_of(x, _layout_in_memory(x.layout, part), True)
            key = type(x), x.device, "numbers" if part == "numbers" else "pairs"
            derivation = _derivations.get(key) or _new_derivation(*key)
            found.array = derived_array(array, derivation)
            if taped:
                _recorder().record((x, part), (x,), (found,), (x.spec,))
            return found
    return _component_view(x, part)


@functools.cache
def _recorder() -> TapeRecorder:
    """Return what records the tape entries of `_component_view`."""
    return _component_view.tape_recorder(("x",))


def view_as_real(input: Tensor) -> Tensor:
    """Return a view of each number's real and imaginary part, in a new last dimension.

    Parameters
    ----------
    input : Tensor, shape (...), complex

    Returns
    -------
    Tensor, shape (..., 2), float32 or float64

    Raises
    ------
    DTypeError
        If `input` is not complex.
    """
    if not input.array.value.dtype.is_complex:
        need_complex("view_as_real", input)
    return _view(input, "pairs")


@autocast_float32_on_host
def view_as_complex(input: Tensor) -> Tensor:
    """Return a view of the numbers whose parts the last dimension holds.

    Parameters
    ----------
    input : Tensor, shape (..., 2), float32 or float64

    Returns
    -------
    Tensor, shape (...), complex64 or complex128

    Raises
    ------
    DTypeError
        If `input` is neither float32 nor float64, or its device has no such numbers.
    ShapeError
        If the last dimension is not of size 2, or the parts of a number are not beside
        each other in the storage, or a number does not begin at an even place of it.
    """
    array, layout = input.array, input.layout
    if array.value.dtype is not float32:
        need_parts("view_as_complex", input)
        if isinstance(input.device, GpuDevice):
            need_feature("view_as_complex", complex128, input.device)
    apart = type(array) is DerivedArray and array.derivation.part != "pairs"
    _need_pairs(layout, apart)
    out = _view(input, "numbers")
    if out.grad_node is not None:
        show_as(out, "ViewAsComplexBackward0", input)
    return out


@functools.lru_cache(maxsize=1024)
def _need_pairs(layout: Layout, apart: bool) -> None:
    """Raise `ShapeError` unless a layout is of pairs, beside each other.

    `apart` are real numbers of which the storage has but one of each pair.
    """
    shape, strides, offset = layout
    if not shape or shape[-1] != 2:
        raise ShapeError(
            f"view_as_complex: the shape is {tuple(shape)}; the last size must be 2"
        )
    if 0 not in shape and (
        apart
        or strides[-1] != 1
        or offset % 2
        or any([each % 2 for each in strides[:-1]])
    ):
        raise ShapeError(
            f"view_as_complex: the strides are {strides} and the offset is {offset};"
            " the last stride must be 1, all others even; use x.contiguous()"
        )


def real(input: Tensor) -> Tensor:
    """Return a view of the real part of each element; of a real tensor itself.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    """
    return _view(input, "real") if input.array.value.dtype.is_complex else input


def imag(input: Tensor) -> Tensor:
    """Return a view of the imaginary part of each element.

    Parameters
    ----------
    input : Tensor, complex
        Any shape.

    Raises
    ------
    DTypeError
        If `input` is not complex.
    """
    if not input.array.value.dtype.is_complex:
        need_complex("imag", input)
    return _view(input, "imag")
