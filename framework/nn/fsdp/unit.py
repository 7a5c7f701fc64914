"""Units: parameters that are gathered together, and divided again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import ops
from ...autograd.engine import accumulate_leaf
from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...base import trace_hooks
from ...base.device import Device
from ...base.dtype import DType
from ...base.shape import Layout, interned
from ...eager.base_tensor import evaluate
from ...ir.lazy_graph import Array, Released, Value
from ...ops.elementwise.order import after
from ...tensor.factories import zeros
from ...tensor.tensor import Tensor
from ..divided import TensorShard, mark_divided
from ..module import Module
from ..parameter import Parameter
from .layout import FlatLayout

if TYPE_CHECKING:
    from ...communication.group import Group
    from .schedule import Schedule


@dataclass(frozen=True)
class Dtypes:
    """Dtypes of a unit's computation; None means those of the parameters.

    Parameters
    ----------
    compute : DType or None
        Of gathered parameters.
    reduce : DType or None
        Of gradients as they are added.
    output : DType or None
        Of what the module returns.
    cast_inputs : bool
        Whether floats that it is given become `compute`.
    """

    compute: DType | None = None
    reduce: DType | None = None
    output: DType | None = None
    cast_inputs: bool = False


@dataclass
class Entry:
    """A parameter of a unit.

    Parameters
    ----------
    name : str
        In the unit's module.
    shape : tuple of int
        Of the whole.
    places : list of (Module, str)
        Attributes that it is; several where modules share it.
    """

    name: str
    shape: tuple[int, ...]
    places: list[tuple[Module, str]]

    @property
    def numel(self) -> int:
        """Elements of the whole."""
        return math.prod(self.shape)

    @property
    def parameter(self) -> Parameter:
        """What the attribute is now: this rank's piece, unless it is gathered."""
        module, name = self.places[0]
        found: Parameter = module.__dict__[name]
        return found

    def put(self, tensor: Tensor) -> None:
        """Let the attributes be a tensor, unseen by guards: they are put back."""
        for module, name in self.places:
            module.__dict__[name] = tensor


class FlatParameters:
    """Parameters of one dtype that are gathered by one collective.

    Parameters
    ----------
    group : Group
    title : str
        For messages.
    entries : sequence of Entry
        Their attributes are whole, and become this rank's pieces.
    dtypes : Dtypes

    Attributes
    ----------
    layout : FlatLayout
    pieces : list of Parameter
        This rank's, of one dimension; some may be empty.
    views : list of Tensor
        The whole parameters, as they were put on the tape last.
    gathered : bool
        Whether they are in memory.
    trainable : bool
        Whether they require gradients.
    unit : FSDPUnit
    """

    unit: FSDPUnit
    _array_device: Device

    def __init__(
        self, group: Group, title: str, entries: Sequence[Entry], dtypes: Dtypes
    ) -> None:
        self.group, self.title, self.dtypes = group, title, dtypes
        self.entries = list(entries)
        sizes = tuple(each.numel for each in self.entries)
        self.layout = FlatLayout(sizes, group.size)
        self.trainable = self.entries[0].parameter.requires_grad
        self.views: list[Tensor] = []
        self.gathered = False
        self._array: Array | None = None
        self._trace: object = None
        self._versions: list[int] = []
        # Holds the sum of gradients that are not divided yet, as a leaf does, so that
        # traces know of it.
        self.undivided = Parameter(zeros(0))
        for number, each in enumerate(self.entries):
            whole = each.parameter
            part = self.part(number)
            with no_grad():
                own = part.of(whole.detach()).clone()
            piece = Parameter(own, whole.requires_grad)
            mark_divided(piece, group, part)
            evaluate(piece)
            each.put(piece)
        self.pieces = [each.parameter for each in self.entries]

    def __deepcopy__(self, memo: dict[int, Any]) -> FlatParameters:
        """Return a copy in which nothing is gathered."""
        made = object.__new__(FlatParameters)
        memo[id(self)] = made
        passing = {"views": [], "gathered": False, "_array": None, "_trace": None}
        left = {*passing, "_array_device"}
        kept = {key: value for key, value in vars(self).items() if key not in left}
        vars(made).update(deepcopy(kept, memo) | passing)
        return made

    def part(self, number: int) -> TensorShard:
        """Return which part of a parameter this rank has."""
        low, high = self.layout.part(self.group.rank, number)
        return TensorShard(self.entries[number].shape, None, ((low, high),))

    def refresh(self) -> None:
        """Look at the attributes: others may have been assigned, or converted."""
        if self.views and self.entries[0].parameter is self.views[0]:
            return
        self.pieces = [each.parameter for each in self.entries]
        self.trainable = any(each.requires_grad for each in self.pieces)
        for number, each in enumerate(self.pieces):
            mark_divided(each, self.group, self.part(number))

    @property
    def nbytes(self) -> int:
        """Bytes of the whole parameters, as they are gathered."""
        dtype = self.dtypes.compute or self.pieces[0].dtype
        return self.layout.total * dtype.itemsize

    @property
    def up_to_date(self) -> bool:
        """Whether what was gathered is what the pieces are, and of this trace."""
        versions = [each.array.version for each in self.pieces]
        return self._trace is trace_hooks.listener() and versions == self._versions

    def gather(self, token: Tensor | None) -> None:
        """Let the whole parameters be in memory; see `FSDPUnit.gather`."""
        self.refresh()
        if self.gathered and self.up_to_date:
            return
        whole = self.whole(self.dtypes.compute, token)
        value = whole.array.value
        device = whole.device
        if self._array is None or self._array_device is not device:
            self._array, self._array_device = Array(value), device
        else:
            self._array.replace(value)
        self.gathered, self._trace = True, trace_hooks.listener()
        self._versions = [each.array.version for each in self.pieces]

    def whole(self, dtype: DType | None = None, token: Tensor | None = None) -> Tensor:
        """Return all parameters of all ranks, in one tensor of one dimension."""
        with no_grad():
            kind = dtype or self.pieces[0].dtype
            parts = [
                self._gap(count) if at is None else self.pieces[at].detach()
                for at, count in self.layout.pieces(self.group.rank)
            ]
            own = ops.cat([each.to(kind) for each in parts])
            if token is not None and trace_hooks.listener() is not None:
                own = after(own, token.detach())
            found = self.group._all_gather(own, 0, f", {self.title}")
        assert found.layout.offset == 0
        assert found.layout.is_contiguous
        return found

    def _gap(self, count: int) -> Tensor:
        like = self.pieces[0]
        return zeros(count, dtype=like.dtype, device=like.device)

    def free(self) -> None:
        """Give the memory of the whole parameters back."""
        if self._array is not None and self.gathered:
            cause = (
                f"the parameters of {self.title} are divided among ranks, and gathered"
                " only in its forward and backward passes; use them there"
            )
            old = self._array.value
            empty = Value(old.numel, old.dtype, buffer=Released(cause))
            self._array.replace(empty)
        self.gathered, self._trace = False, None

    def expose(self, anew: bool) -> None:
        """Let the modules' attributes be the whole parameters.

        Parameters
        ----------
        anew : bool
            Whether they come on the tape again, as in a forward pass.
        """
        if anew or not self.views:
            taped = self.trainable and is_grad_enabled()
            self.views = (
                list(_Gathered.apply(self, *self.pieces))
                if taped
                else self.whole_views()
            )
        for entry, view in zip(self.entries, self.views):
            entry.put(view)

    def hide(self) -> None:
        """Let the modules' attributes be this rank's pieces."""
        for entry, piece in zip(self.entries, self.pieces):
            entry.put(piece)

    def whole_views(self) -> list[Tensor]:
        """Return the parameters that were gathered, off the tape."""
        assert self._array is not None
        return [
            Tensor.make(
                self._array,
                _placed(entry.shape, start),
                self._array_device,
            )
            for entry, start in zip(self.entries, self.layout.starts)
        ]

    def packed(self, grads: Sequence[Tensor | None]) -> Tensor:
        """Return gradients of the whole parameters, side by side; 0 without one."""
        given = [each for each in grads if each is not None]
        dtype = self.dtypes.reduce or given[0].dtype
        device = given[0].device
        parts = []
        for at, count in self.layout.whole():
            grad = None if at is None else grads[at]
            if grad is None:
                parts.append(zeros(count, dtype=dtype, device=device))
                continue
            if grad.is_wrapper:
                raise NotImplementedError(
                    f"backward: a gradient of {self.title} is sparse, and ranks"
                    " exchange dense ones; let the layer have sparse=False"
                )
            parts.append(grad.detach().to(dtype).reshape(-1))
        return ops.cat(parts)

    def divided(self, packed: Tensor) -> list[Tensor]:
        """Return this rank's part of the mean of the ranks' gradients, by piece."""
        own = self.group._reduce_scatter(packed, 0, "mean", f", {self.title}")
        own = own.to(self.pieces[0].dtype)
        found: dict[int, Tensor] = {}
        start = 0
        for at, count in self.layout.pieces(self.group.rank):
            if at is not None:
                found[at] = own[start : start + count]
            start += count
        return [found.get(at, own[:0]) for at in range(len(self.pieces))]

    def keep_undivided(self, packed: Tensor) -> None:
        """Add gradients to those that are not divided yet."""
        accumulate_leaf(self.undivided, packed)

    def with_undivided(self, packed: Tensor) -> Tensor:
        """Return gradients with those that were not divided, which are forgotten."""
        before = self.undivided.grad
        if before is None:
            return packed
        self.undivided.grad = None
        total: Tensor = before + packed
        return total

    def accumulate(self, packed: Tensor) -> None:
        """Add the ranks' gradients to those of the pieces."""
        with no_grad():
            for piece, grad in zip(self.pieces, self.divided(packed)):
                # What is empty has nothing to update.
                if piece.requires_grad and piece.numel():
                    accumulate_leaf(piece, grad)


class _Gathered(Function):
    """The whole parameters, of this rank's pieces; they have been gathered."""

    @staticmethod
    def forward(ctx: Any, flat: FlatParameters, *pieces: Tensor) -> Any:
        ctx.flat = flat
        ctx.set_materialize_grads(False)
        return tuple(flat.whole_views())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        flat: FlatParameters = ctx.flat
        if is_grad_enabled():
            raise NotImplementedError(
                f"backward: create_graph is True, and the gradients of {flat.title} are"
                " not differentiable again; let it be False"
            )
        unit = flat.unit
        found = unit.schedule.after_backward(flat, grads, ctx.selective)
        return None, *(found or (None,) * len(flat.pieces))


def _placed(shape: tuple[int, ...], start: int) -> Layout:
    plain = Layout.contiguous(shape)
    return interned(Layout(plain.shape, plain.strides, start))


class FSDPUnit:
    """Modules whose parameters are gathered and freed together.

    Parameters
    ----------
    module : Module
        Its parameters, but those of other units below it, are divided.
    title : str
        For messages: which unit it is.
    group : Group
    entries : sequence of Entry
    dtypes : Dtypes
    reshard : bool or None
        Whether memory is given back after a forward pass; None unless it is the
        outermost unit.

    Attributes
    ----------
    flats : list of FlatParameters
        One for each dtype, and for parameters with and without gradients.
    schedule : Schedule
        Of all units of a model.
    states_are_whole : bool
        Whether states have whole parameters, rather than this rank's pieces.
    """

    schedule: Schedule
    states_are_whole = True

    def __init__(
        self,
        module: Module,
        title: str,
        group: Group,
        entries: Sequence[Entry],
        dtypes: Dtypes,
        reshard: bool | None,
    ) -> None:
        self.module, self.title, self.group = module, title, group
        self.dtypes, self.reshard = dtypes, reshard
        kinds: dict[Any, list[Entry]] = {}
        for each in entries:
            own = each.parameter
            key = own.dtype, own.requires_grad, own.device
            kinds.setdefault(key, []).append(each)
        self.flats = []
        for at, found in enumerate(kinds.values()):
            name = title if len(kinds) == 1 else f"{title} (part {at})"
            floats = found[0].parameter.dtype.is_float
            made = FlatParameters(group, name, found, dtypes if floats else Dtypes())
            made.unit = self
            self.flats.append(made)

    @property
    def entries(self) -> Iterator[tuple[FlatParameters, int, Entry]]:
        """All parameters, with where they are."""
        for flat in self.flats:
            for number, entry in enumerate(flat.entries):
                yield flat, number, entry

    @property
    def nbytes(self) -> int:
        """Bytes of the whole parameters, as they are gathered."""
        return sum([each.nbytes for each in self.flats])

    @property
    def gathered(self) -> bool:
        """Whether all are in memory."""
        return all(each.gathered for each in self.flats)

    def gather(self, token: Tensor | None = None) -> None:
        """Let the whole parameters be in memory.

        Parameters
        ----------
        token : Tensor, optional
            What a trace computes first, as it would gather all units at its beginning.
        """
        for each in self.flats:
            each.gather(token)

    def expose(self, anew: bool) -> None:
        """Let attributes be the whole parameters; see `FlatParameters.expose`."""
        for each in self.flats:
            each.expose(anew)

    def hide(self) -> None:
        """Let attributes be this rank's pieces."""
        for each in self.flats:
            each.hide()

    def free(self) -> None:
        """Give the memory of the whole parameters back."""
        for each in self.flats:
            each.free()

    def notify(self) -> None:
        """Let a running trace guard the modules as they are outside of calls."""
        if trace_hooks.listener() is not None:
            for _, _, entry in self.entries:
                for module, _ in entry.places:
                    module._notify_trace()
