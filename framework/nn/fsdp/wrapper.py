"""Models that are divided among ranks, as programs make them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...autograd.grad_mode import no_grad
from ...base.dtype import DTypeLike, as_dtype
from ...jit.pytree import tree_map
from ...tensor.tensor import Tensor
from ..data_parallel import check_alike, checked_group, take_values
from ..module import Module
from ..module_tree import MODULE
from ..parameter import Parameter
from ..utils.clip_grad import clip_grad_norm_
from .schedule import Schedule, casting
from .unit import Dtypes, Entry, FSDPUnit

if TYPE_CHECKING:
    from ...communication.group import Group

__all__ = ["FSDP", "fully_shard"]

Policy = Callable[..., Any] | str | type[Module] | Iterable[type[Module]] | None

_UNIT = "_fsdp_unit"


class FSDP(Module):
    """Module whose parameters, gradients and moments are divided among ranks.

    Each rank has one of equal parts of the elements of each unit. A unit's parameters
    are gathered for its forward and its backward pass, and freed after each; gradients
    are added up in rank order, so that each rank gets its part of their mean. The next
    unit is gathered while one computes, also within `fw.jit`. Of `n` ranks each needs
    about 1 / n of the memory of parameters, gradients and moments, and that of one or
    two units.

    Parameters
    ----------
    module : Module
        The same on all ranks but for its values, of which those of rank 0 count; it is
        changed in place.
    group : Group, optional
        By default that of all processes, which `fw.distributed.init` returns.
    auto_wrap_policy : callable, class, iterable of classes, "children" or None
        Which modules within are units of their own: those of some classes, the
        children, or as a function of PyTorch's says (see
        `distributed.fsdp.wrap`). What is left is one unit.
    reshard_after_forward : bool or None, default None
        Whether parameters are freed after the forward pass. None frees all but those
        of the outermost unit, and within `fw.jit` of the last one, which the backward
        pass needs first.
    param_dtype : DType or str, optional
        Of the gathered parameters and of the computation; gradients and moments are of
        the parameters' own dtype.
    reduce_dtype : DType or str, optional
        Of gradients as they are added, by default `param_dtype`.
    buffer_dtype : DType or str, optional
        What buffers of floats become.
    ignored_modules : iterable of Module, optional
        Modules within whose parameters stay whole.
    init_sync : bool, default True
        Whether ranks compare names, shapes and dtypes, and take the values of rank 0.

    Attributes
    ----------
    module : Module
        Its parameters are this rank's pieces, of one dimension, but within calls.
    group : Group

    Raises
    ------
    DistributedError
        If another rank's module has other parameters or buffers.
    ValueError
        If a policy fits no module, or is none.

    Notes
    -----
    Make the optimizer afterwards, of `parameters()`: pieces. Those that need all
    elements of a parameter raise. `clip_grad_norm_` and `GradScaler` are of the whole
    model, and all ranks call them. `state_dict` is that of the whole module, on all
    ranks, which all call; see `state_dict_type`. All ranks must call the same units
    in the same order. A parameter that is not used has a gradient of 0 where its unit
    has one. Parameters that several units share belong to the one around all of them.
    Source: Zhao et al., arXiv:2304.11277.

    Examples
    --------
    >>> group = fw.distributed.init()
    >>> layers = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> model = nn.FSDP(layers, group, auto_wrap_policy=nn.Linear)
    >>> model(fw.ones(4, 2)).mean().backward()
    >>> [tuple(each.shape) for each in model.parameters()]
    [(6,), (3,), (3,), (1,)]
    >>> tuple(model.state_dict()["0.weight"].shape)
    (3, 2)
    """

    def __init__(
        self,
        module: Module,
        group: Group | None = None,
        *,
        auto_wrap_policy: Policy = None,
        reshard_after_forward: bool | None = None,
        param_dtype: DTypeLike | None = None,
        reduce_dtype: DTypeLike | None = None,
        buffer_dtype: DTypeLike | None = None,
        ignored_modules: Iterable[Module] | None = None,
        init_sync: bool = True,
    ) -> None:
        super().__init__()
        self.module = module
        self.group = checked_group(type(self).__name__, group)
        if init_sync and self.group.size > 1:
            tensors = [*module.named_parameters(), *module.named_buffers()]
            divided = {id(each) for unit in _units(module) for each in _pieces(unit)}
            tensors = [each for each in tensors if id(each[1]) not in divided]
            check_alike(type(self).__name__, self.group, tensors)
            take_values(self.group, [each for _, each in tensors])
        if buffer_dtype is not None:
            with no_grad():
                for each in module.modules():
                    _cast_buffers(each, casting(as_dtype(buffer_dtype)))
        dtypes = Dtypes(
            None if param_dtype is None else as_dtype(param_dtype),
            None if reduce_dtype is None else as_dtype(reduce_dtype),
            cast_inputs=True,
        )
        ignored = {id(x) for each in ignored_modules or () for x in each.modules()}
        for each in chosen_modules(module, auto_wrap_policy):
            # What others share belongs to the unit around them all.
            within = {id(x) for x in each.modules()}
            shared = {
                id(entry.parameter)
                for entry in _entries(module, ignored)
                if not all(id(owner) in within for owner, _ in entry.places)
            }
            _divide(each, self.group, reshard_after_forward, ignored, shared, dtypes)
        _divide(module, self.group, reshard_after_forward, ignored, set(), dtypes)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        return self.module(*inputs, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the module, where there is none of its own."""
        module = self.__dict__.get("module")
        if module is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(module, name)

    def __getitem__(self, key: Any) -> Any:
        """Return a part of the module."""
        return self.module[key]  # type: ignore[index]  # where it has any

    @property
    def _schedule(self) -> Schedule:
        unit: FSDPUnit = getattr(self.module, _UNIT)
        return unit.schedule

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a block whose backward passes do not exchange gradients.

        They are added up whole, of the size of the whole model, until the next pass
        outside of it divides their sums.
        """
        schedule = self._schedule
        before, schedule.syncs = schedule.syncs, False
        try:
            yield
        finally:
            schedule.syncs = before

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, also those of `no_sync`."""
        super().zero_grad(set_to_none)
        for unit in self._schedule.units:
            for flat in unit.flats:
                flat.undivided.grad = None

    @contextmanager
    def summon_full_params(self, writeback: bool = True) -> Iterator[None]:
        """Return a block in which the module's parameters are whole.

        Parameters
        ----------
        writeback : bool, default True
            Whether what is changed in place there is kept: each rank keeps its part.
        """
        with summoned(self._schedule.units, writeback):
            yield

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients so that the norm of those of all ranks has a bound.

        Parameters
        ----------
        max_norm : float
        norm_type : float, default 2
            Order of the norm.

        Returns
        -------
        Tensor
            The norm before.
        """
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    # States

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state of the module, under its own names; all ranks call it.

        Parameters
        ----------
        *args, **kwargs
            Those of `Module.state_dict`.

        Returns
        -------
        OrderedDict of str to Tensor
            Whole tensors, or within `state_dict_type("sharded")` this rank's pieces.
        """
        return self.module.state_dict(*args, **kwargs)

    def _load(self, given: Any, prefix: str, *args: Any) -> None:
        self.module._load(given, prefix, *args)

    @contextmanager
    def state_dict_type(self, kind: str) -> Iterator[None]:
        """Return a block in which states are whole or of this rank.

        Parameters
        ----------
        kind : {"full", "sharded"}

        Raises
        ------
        ValueError
            If it is another one.
        """
        with state_kind(self.module, kind):
            yield


def fully_shard(
    module: Module,
    group: Group | None = None,
    *,
    reshard_after_forward: bool | None = None,
    ignored_modules: Iterable[Module] | None = None,
    dtypes: Dtypes | None = None,
) -> Module:
    """Divide the parameters of a module among ranks, in place; see `FSDP`.

    Parameters
    ----------
    module : Module
        Of which those within that are units already stay such: divide the inner ones
        first. Values are those of each rank: they must be alike.
    group : Group, optional
        By default that of all processes.
    reshard_after_forward : bool, optional
    ignored_modules : iterable of Module, optional
        Modules within whose parameters stay whole.
    dtypes : Dtypes, optional

    Returns
    -------
    Module
        `module`.

    Raises
    ------
    ValueError
        If it is a unit already, or shares a parameter with one that is not within.
    """
    group = checked_group("fully_shard", group)
    ignored = {id(x) for each in ignored_modules or () for x in each.modules()}
    _divide(module, group, reshard_after_forward, ignored, set(), dtypes or Dtypes())
    return module


_wholes: dict[int, weakref.ref[Parameter]] = {}
"""Parameters whose elements were divided, which other modules must not have."""


def _divide(
    module: Module,
    group: Group,
    reshard: bool | None,
    ignored: set[int],
    shared: set[int],
    dtypes: Dtypes,
) -> None:
    """Make a module a unit, without the parameters of some ids."""
    if getattr(module, _UNIT, None) is not None:
        raise ValueError(
            f"fully_shard: the {type(module).__name__} is divided already; divide each"
            " module once, the inner ones first"
        )
    inner = _units(module)
    taken = {id(each) for unit in inner for each in _pieces(unit)} | shared
    entries = [
        each for each in _entries(module, ignored) if id(each.parameter) not in taken
    ]
    for each in entries:
        whole = each.parameter
        known = _wholes.get(id(whole))
        if known is not None and known() is whole:
            raise ValueError(
                f"fully_shard: {each.name} is shared with a module that was divided"
                " before; divide a module around both, or give FSDP the policy"
            )
        _note_whole(whole)
    # All ranks make the same units, and so give them the same numbers.
    number = _made[group] = _made.get(group, -1) + 1
    title = f"unit {number} ({type(module).__name__})"
    unit = FSDPUnit(module, title, group, entries, dtypes, reshard)
    object.__setattr__(module, _UNIT, unit)
    Schedule([*inner, unit])
    module.register_forward_pre_hook(_before, prepend=True, with_kwargs=True)
    module.register_forward_hook(_after, always_call=True)
    module.register_state_dict_post_hook(_write_state)
    module.register_load_state_dict_pre_hook(_read_state)


_made: weakref.WeakKeyDictionary[Group, int] = weakref.WeakKeyDictionary()
"""Number of the last unit of each group."""


def _note_whole(parameter: Parameter) -> None:
    key = id(parameter)
    _wholes[key] = weakref.ref(parameter, lambda _: _wholes.pop(key, None))


def _before(module: Module, args: Any, kwargs: Any) -> Any:
    unit: FSDPUnit = getattr(module, _UNIT)
    unit.schedule.before_forward(unit, (args, kwargs))
    dtype = unit.dtypes.compute
    if dtype is None or not unit.dtypes.cast_inputs:
        return None
    return tree_map(args, casting(dtype)), tree_map(kwargs, casting(dtype))


def _after(module: Module, args: Any, result: Any) -> Any:
    unit: FSDPUnit = getattr(module, _UNIT)
    result = unit.schedule.after_forward(unit, result)
    dtype = unit.dtypes.output
    return result if dtype is None else tree_map(result, casting(dtype))


def _units(module: Module) -> list[FSDPUnit]:
    """Return the units of a module and of those below it, the inner ones first."""
    found = [each.__dict__.get(_UNIT) for each in module.modules()]
    return [each for each in found if each is not None][::-1]


def _pieces(unit: FSDPUnit) -> list[Parameter]:
    return [each for flat in unit.flats for each in flat.pieces]


def _entries(module: Module, ignored: set[int]) -> list[Entry]:
    """Return the parameters of a module, each with all places where it is."""
    found: dict[int, Entry] = {}
    for path, owner in module.named_modules():
        if id(owner) in ignored:
            continue
        for name, each in owner.named_parameters(recurse=False):
            full = f"{path}.{name}" if path else name
            entry = found.setdefault(id(each), Entry(full, tuple(each.shape), []))
            entry.places.append((owner, name))
    return list(found.values())


def _cast_buffers(module: Module, cast: Callable[[Any], Any]) -> None:
    for name, each in module.named_buffers(recurse=False):
        setattr(module, name, cast(each))


def chosen_modules(module: Module, policy: Policy) -> list[Module]:
    """Return the modules within another one that a policy makes units, inner first.

    Parameters
    ----------
    module : Module
    policy : callable, class, iterable of classes, "children" or None
        See `FSDP`.

    Raises
    ------
    ValueError
        If it is a text that is not known, or fits no module.
    """
    if policy is None:
        return []
    if isinstance(policy, str):
        if policy != "children":
            raise ValueError(
                f"FSDP: auto_wrap_policy is {policy!r}; it must be 'children', classes,"
                " or a function"
            )
        return [
            each for each in module.children() if any(True for _ in each.parameters())
        ]
    if isinstance(policy, type) and issubclass(policy, Module):
        policy = (policy,)
    if not callable(policy) and not hasattr(policy, "_lambda_fn"):
        kinds = tuple(policy)
        listed = [each for each in module.modules() if isinstance(each, kinds)]
        found = [each for each in listed[::-1] if each is not module]
    else:
        found = []
        _wrapped(module, _protocol(policy), module, found)
    if not found:
        raise ValueError(
            f"FSDP: auto_wrap_policy fits no module within {type(module).__name__};"
            " give one that does, or None for one unit"
        )
    return found


def _protocol(policy: Any) -> Callable[..., Any]:
    """Return a policy as a function of PyTorch's three arguments."""
    choose = getattr(policy, "_lambda_fn", None)
    if choose is None:
        found: Callable[..., Any] = policy
        return found
    return lambda module, recurse, nonwrapped_numel: recurse or choose(module)


def _wrapped(
    module: Module, policy: Callable[..., Any], root: Module, found: list[Module]
) -> int:
    """Collect what a policy makes units; return how many elements these have."""
    count = sum(each.numel() for each in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=count):
        return 0
    inner = sum(_wrapped(each, policy, root, found) for each in module.children())
    left = count - inner
    if module is not root and policy(
        module=module, recurse=False, nonwrapped_numel=left
    ):
        found.append(module)
        return count
    return inner


# States


def _write_state(
    module: Module, state: Any, prefix: str, metadata: Mapping[str, Any]
) -> None:
    """Put whole parameters in the places of pieces in a state."""
    unit: FSDPUnit = getattr(module, _UNIT)
    if not unit.states_are_whole:
        return
    for flat in unit.flats:
        flat.refresh()
        whole = flat.whole()
        names = _state_names(unit)
        for entry, start in zip(flat.entries, flat.layout.starts):
            size = entry.numel
            value = whole[start : start + size].reshape(entry.shape)
            for name in names[id(entry)]:
                if prefix + name in state:
                    state[prefix + name] = value.clone()


def _read_state(module: Module, state: Any, prefix: str, *unused: Any) -> None:
    """Put pieces in the places of whole parameters in a state that is loaded."""
    unit: FSDPUnit = getattr(module, _UNIT)
    names = _state_names(unit)
    for flat, number, entry in unit.entries:
        part = flat.part(number)
        for name in names[id(entry)]:
            given = state.get(prefix + name)
            shape = getattr(given, "shape", None)
            if shape is not None and tuple(shape) == entry.shape:
                state[prefix + name] = part.of(given)


def _state_names(unit: FSDPUnit) -> dict[int, list[str]]:
    """Return the names of a unit's parameters in a state of its module."""
    paths: dict[int, list[str]] = {}
    for path, module in _state_paths(unit.module):
        paths.setdefault(id(module), []).append(path)
    return {
        id(entry): [
            path + name
            for module, name in entry.places
            for path in paths.get(id(module), [])
        ]
        for _, _, entry in unit.entries
    }


def _state_paths(module: Module, prefix: str = "") -> Iterator[tuple[str, Module]]:
    """Yield the begin of names of each module in a state, where `FSDP` has none."""
    yield prefix, module
    for name, child in module._registered(MODULE):
        own = prefix if isinstance(module, FSDP) else f"{prefix}{name}."
        yield from _state_paths(child, own)


@contextmanager
def state_kind(module: Module, kind: str) -> Iterator[None]:
    """Return a block in which states of a module's units are "full" or "sharded"."""
    if kind not in ("full", "sharded"):
        raise ValueError(
            f"state_dict_type: {kind!r} is no kind; it must be 'full' or 'sharded'"
        )
    units = _units(module)
    before = [each.states_are_whole for each in units]
    for each in units:
        each.states_are_whole = kind == "full"
    try:
        yield
    finally:
        for each, was in zip(units, before):
            each.states_are_whole = was


@contextmanager
def summoned(units: Iterable[FSDPUnit], writeback: bool) -> Iterator[None]:
    """Return a block in which the parameters of units are whole; see `FSDP`."""
    listed = list(units)
    with no_grad():
        for each in listed:
            each.gather()
            each.expose(anew=True)
    try:
        yield
    finally:
        with no_grad():
            for unit in listed:
                wholes = [[v.detach() for v in flat.views] for flat in unit.flats]
                unit.hide()
                if writeback:
                    for flat, views in zip(unit.flats, wholes):
                        for number, whole in enumerate(views):
                            own = flat.part(number).of(whole)
                            flat.pieces[number].copy_(own)
                unit.free()
