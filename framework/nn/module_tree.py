"""Module trees: what a module registers, and the walk over what is below it.

Parameters, buffers and children are plain attributes, so that reading one costs what
reading an attribute costs; the registry beside them tells names apart by their role.
"""

# Longer than most: the registry and all walks over it share what a name stands for.

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import TYPE_CHECKING, Any, NoReturn

from ..base import trace_hooks
from ..base.hooks import RemovableHandle
from ..tensor.tensor import Tensor
from .parameter import Buffer, Parameter

if TYPE_CHECKING:
    from .module import Module

PARAMETER, BUFFER, MODULE = "parameter", "buffer", "module"

_ABSENT: Any = object()

_registration_hooks: dict[str, OrderedDict[int, Callable[..., Any]]] = {}
"""Hooks of all modules' registrations, by role."""


class Registered(MutableMapping[str, Any]):
    """View of what a module has registered in one role, in the order of registration.

    Changes of it are changes of the module.

    Parameters
    ----------
    owner : Module
    role : str
        "parameter", "buffer" or "module".
    """

    def __init__(self, owner: ModuleTree, role: str) -> None:
        self._owner = owner
        self._role = role

    def _names(self) -> list[str]:
        owner = self._owner
        if trace_hooks.running:
            owner._notify_trace()
        registry = owner.__dict__.get("_registry", {})
        return [name for name, role in registry.items() if role is self._role]

    def __getitem__(self, name: str) -> Any:
        owner = self._owner
        if trace_hooks.running:
            owner._notify_trace()
        if owner.__dict__.get("_registry", {}).get(name) is not self._role:
            raise KeyError(name)
        return owner.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._owner._register(name, self._role, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        # Not the class's: a property may have the name, or `__delattr__` call this.
        self._owner._unregister(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._names())

    def __repr__(self) -> str:
        return repr(self.copy())

    # Views of a dict, which go backwards and combine, as those of PyTorch's.

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self.copy().keys()

    def values(self) -> ValuesView[Any]:
        """Return what is registered."""
        return self.copy().values()

    def items(self) -> ItemsView[str, Any]:
        """Return names and what is registered."""
        return self.copy().items()

    def copy(self) -> dict[str, Any]:
        """Return the entries as a dict."""
        return {name: self[name] for name in self._names()}


class ModuleTree:
    """Base of modules that registers parameters, buffers and children, and finds them.

    Attributes
    ----------
    training : bool
        Whether layers such as dropout behave as in training; see `train` and `eval`.
    """

    training = True

    def __init__(self) -> None:
        self.__dict__["_registry"] = {}
        self.__dict__["_non_persistent_buffers_set"] = set()
        self.__dict__["_host_buffers"] = set()

    if TYPE_CHECKING:
        _registry: dict[str, str]
        _non_persistent_buffers_set: set[str]
        _host_buffers: set[str]

    # Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        space = self.__dict__
        if space.get(name, _ABSENT) is not value:
            trace_hooks.structure_changed()
        if isinstance(value, _members):
            self._assign(name, value)
            return
        registry = space.get("_registry")
        if registry is not None and name in registry:
            if value is not None:
                self._refuse_assignment(name, registry[name], value)
            if _registration_hooks:
                value = self._replaced_by_hooks(name, registry[name], value)
        object.__setattr__(self, name, value)

    def _assign(self, name: str, value: Any) -> None:
        """Assign a tensor or a module, and register it if it has a role."""
        if isinstance(value, Parameter):
            role = PARAMETER
        elif isinstance(value, ModuleTree):
            role = MODULE
        elif isinstance(value, Buffer):
            role = BUFFER
        else:
            role = ""
        registry = self.__dict__.get("_registry")
        if registry is None:
            if role:
                self._refuse_uninitialized(role)
            object.__setattr__(self, name, value)
            return
        before = registry.get(name, "")
        if (before is PARAMETER and role is not PARAMETER) or (
            before is MODULE and role in ("", BUFFER)
        ):
            self._refuse_assignment(name, before, value)
        if role and role is not before:
            self._check_name(name, role)
            own = getattr(type(self), name, None)
            taken = own is not None and role is not MODULE
            if isinstance(own, property):
                # One that raises an error may be filled in by what it is made of.
                taken = role is MODULE or hasattr(self, name)
            taken = taken or (role is BUFFER and name in self.__dict__)
            self._check_free(name, role, taken)
            registry.pop(name, None)
            self._non_persistent_buffers_set.discard(name)
            if role is BUFFER and not value.persistent:
                self._non_persistent_buffers_set.add(name)
            registry[name] = role
            # What was a plain attribute comes in the order of its registration.
            self.__dict__.pop(name, None)
            if _registration_hooks:
                value = self._replaced_by_hooks(name, role, value)
            self.__dict__[name] = value
            return
        if _registration_hooks and before:
            value = self._replaced_by_hooks(name, before, value)
        object.__setattr__(self, name, value)

    def _replaced_by_hooks(self, name: str, role: str, value: Any) -> Any:
        """Return what hooks put in the place of a value that is registered."""
        if value is None and role is PARAMETER:
            return None
        for hook in [*_registration_hooks.get(role, {}).values()]:
            changed = hook(self, name, value)
            value = value if changed is None else changed
        return value

    def _refuse_uninitialized(self, role: str) -> NoReturn:
        name = type(self).__name__
        raise AttributeError(
            f"{name}: cannot assign a {role} before Module.__init__() call; begin"
            " __init__ with super().__init__()"
        )

    def _refuse_assignment(self, name: str, role: str, value: Any) -> NoReturn:
        wanted = {
            PARAMETER: "an nn.Parameter",
            BUFFER: "a tensor",
            MODULE: "an nn.Module",
        }
        raise TypeError(
            f"{type(self).__name__}: cannot assign a {type(value).__name__} as"
            f" {role} '{name}'; it must be {wanted[role]} or None"
        )

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__.get("_registry", ()):
            self._unregister(name)
            return
        trace_hooks.structure_changed()
        object.__delattr__(self, name)

    def _unregister(self, name: str) -> None:
        """Delete a registered attribute."""
        trace_hooks.structure_changed()
        del self.__dict__[name]
        del self.__dict__["_registry"][name]
        for each in ("_non_persistent_buffers_set", "_host_buffers"):
            self.__dict__.get(each, set()).discard(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes; a shallow copy registers apart from the original."""
        self.__dict__.update(state)
        for name, make in (
            ("_registry", dict),
            ("_non_persistent_buffers_set", set),
            ("_host_buffers", set),
        ):
            self.__dict__[name] = make(state.get(name, ()))
        registry = self.__dict__["_registry"]
        # Pickled strings are other objects; roles are compared by identity.
        self.__dict__["_registry"] = {
            name: sys.intern(role) for name, role in registry.items()
        }

    def __dir__(self) -> Iterable[str]:
        """Return the attributes that can be written with a dot."""
        return sorted({name for name in object.__dir__(self) if not name[:1].isdigit()})

    def _notify_trace(self) -> None:
        """Let the running trace guard the module's fingerprint."""
        trace = trace_hooks.listener()
        if trace is not None:
            trace.called(self)

    # Registration

    def _register(self, name: str, role: str, value: Any) -> None:
        """Register an attribute under a checked name."""
        trace_hooks.structure_changed()
        self.__dict__.pop(name, None)
        registry = self._registry
        if registry.get(name) is not role:
            registry.pop(name, None)
            registry[name] = role
        if _registration_hooks:
            value = self._replaced_by_hooks(name, role, value)
        self.__dict__[name] = value

    def _check_name(self, name: Any, role: str) -> None:
        """Raise the error for a name that cannot be one of a registered attribute."""
        kind = type(self).__name__
        if "_registry" not in self.__dict__:
            self._refuse_uninitialized(role)
        if not isinstance(name, str):
            raise TypeError(
                f"{kind}: the name of a {role} is a {type(name).__name__}; it must be"
                " a str"
            )
        if not name or "." in name:
            raise KeyError(
                f"{kind}: a {role} cannot be named '{name}'; names have a character"
                " at least, and no dot"
            )

    def _check_free(self, name: str, role: str, taken: bool) -> None:
        if taken and self._registry.get(name) is not role:
            raise KeyError(
                f"{type(self).__name__}: attribute '{name}' already exists; delete it"
                f" before a {role} takes its name"
            )

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make a parameter an attribute; None keeps its name without one.

        Raises
        ------
        TypeError
            If it is no `Parameter`.
        KeyError
            If the name has a dot, is empty, or is that of another attribute.
        ValueError
            If it was computed by recorded operations.
        """
        self._check_registration(name, PARAMETER, param, Parameter)
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"{type(self).__name__}: parameter '{name}' is not a leaf; a parameter"
                " is made from a tensor that no recorded operation computed"
            )
        self._register(name, PARAMETER, param)

    def register_buffer(
        self,
        name: str,
        tensor: Tensor | None,
        persistent: bool = True,
        *,
        on_host: bool = False,
    ) -> None:
        """Make a tensor an attribute that is no parameter but moves and is saved.

        Parameters
        ----------
        name : str
            The attribute.
        tensor : Tensor or None
            Its value.
        persistent : bool, default True
            Whether it is part of `state_dict`.
        on_host : bool, default False
            Whether it stays on the host when the module moves: for what Python reads.
            PyTorch has no such option.

        Raises
        ------
        TypeError
            If it is no tensor.
        KeyError
            If the name has a dot, is empty, or is that of another attribute.
        """
        self._check_registration(name, BUFFER, tensor, Tensor)
        self._register(name, BUFFER, tensor)
        for names, member in (
            (self._non_persistent_buffers_set, not persistent),
            (self._host_buffers, on_host),
        ):
            (names.add if member else names.discard)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Make a module an attribute, of any name without a dot; None keeps the name.

        Raises
        ------
        TypeError
            If it is no module.
        KeyError
            If the name has a dot, is empty, or is that of another attribute.
        """
        self._check_registration(name, MODULE, module, ModuleTree)
        self._register(name, MODULE, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Do what `add_module` does."""
        self.add_module(name, module)

    def _check_registration(self, name: str, role: str, value: Any, kind: type) -> None:
        self._check_name(name, role)
        if value is not None and not isinstance(value, kind):
            self._refuse_assignment(name, role, value)
        self._check_free(name, role, hasattr(self, name))

    @property
    def _parameters(self) -> Registered:
        return Registered(self, PARAMETER)

    @_parameters.setter
    def _parameters(self, entries: Mapping[str, Any]) -> None:
        self._replace(PARAMETER, entries)

    @property
    def _buffers(self) -> Registered:
        return Registered(self, BUFFER)

    @_buffers.setter
    def _buffers(self, entries: Mapping[str, Any]) -> None:
        self._replace(BUFFER, entries)

    @property
    def _modules(self) -> Registered:
        return Registered(self, MODULE)

    @_modules.setter
    def _modules(self, entries: Mapping[str, Any]) -> None:
        self._replace(MODULE, entries)

    def _replace(self, role: str, entries: Mapping[str, Any]) -> None:
        """Replace everything that is registered in a role."""
        new = dict(entries)
        view = Registered(self, role)
        view.clear()
        view.update(new)

    def _registered(self, role: str) -> Iterator[tuple[str, Any]]:
        """Yield name and value of what is registered in a role, None left out."""
        if trace_hooks.running:
            self._notify_trace()
        space = self.__dict__
        for name, each in tuple(space.get("_registry", {}).items()):
            if each is role:
                value = space.get(name)
                if value is not None:
                    yield name, value

    # The tree

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules among the attributes, each once, with their names."""
        seen = set()
        for name, child in self._registered(MODULE):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the modules among the attributes, each once."""
        for _, child in self.named_children():
            yield child

    def named_modules(
        self,
        memo: set[Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and everything below it, with paths.

        Parameters
        ----------
        memo : set of Module, optional
            Modules that have been seen, and are left out.
        prefix : str, default ""
            Path of this module.
        remove_duplicate : bool, default True
            Whether a module that has several paths comes once only.
        """
        memo = set() if memo is None else memo
        this: Any = self
        if remove_duplicate:
            if this in memo:
                return
            memo.add(this)
        yield prefix, this
        for name, child in self._registered(MODULE):
            yield from child.named_modules(memo, join(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(
        self, role: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        places: Iterable[tuple[str, Any]] = [(prefix, self)]
        if recurse:
            places = self.named_modules(
                prefix=prefix, remove_duplicate=remove_duplicate
            )
        for path, module in places:
            for name, value in module._registered(role):
                if remove_duplicate:
                    if id(value) in seen:
                        continue
                    seen.add(id(value))
                yield join(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their paths.

        Parameters
        ----------
        prefix : str, default ""
            Path of this module.
        recurse : bool, default True
            Whether those of the modules below come too.
        remove_duplicate : bool, default True
            Whether a parameter that has several paths comes once only.
        """
        return self._named_members(PARAMETER, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters here and, if `recurse`, below, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths; see `named_parameters`."""
        return self._named_members(BUFFER, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers here and, if `recurse`, below, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # By path

    def get_submodule(self, target: str) -> Module:
        """Return the module of a path with dots; the empty one is this module's.

        Raises
        ------
        AttributeError
            If the path leads nowhere, or to no module.
        """
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(
                    f"get_submodule: {type(found).__name__} has no attribute '{name}'"
                    f" on the path '{target}'"
                )
            found = getattr(found, name)
            if not isinstance(found, ModuleTree):
                raise AttributeError(
                    f"get_submodule: '{name}' on the path '{target}' is a"
                    f" {type(found).__name__}; it must be an nn.Module"
                )
        module: Module = found
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path with dots.

        Parameters
        ----------
        target : str
        module : Module
        strict : bool, default False
            Whether there must be a module at the path already.

        Raises
        ------
        ValueError
            If the path is empty, or `module` no module.
        AttributeError
            If the path leads nowhere, or through what is no module.
        """
        if not target:
            raise ValueError("set_submodule: the path is empty; name a module below")
        if not isinstance(module, ModuleTree):
            raise ValueError(
                f"set_submodule: a {type(module).__name__} was given; it must be an"
                " nn.Module"
            )
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            parent.get_submodule(name)
        if name in parent._modules or not hasattr(parent, name):
            parent._modules[name] = module
        else:
            setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of a path with dots.

        Raises
        ------
        AttributeError
            If the path leads nowhere, or to no parameter.
        """
        found = self._get_member("get_parameter", target)
        if not isinstance(found, Parameter):
            raise AttributeError(
                f"get_parameter: '{target}' is a {type(found).__name__}; it must be an"
                " nn.Parameter"
            )
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer of a path with dots.

        Raises
        ------
        AttributeError
            If the path leads nowhere, or to no buffer.
        """
        found = self._get_member("get_buffer", target)
        path, _, name = target.rpartition(".")
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(
                f"get_buffer: '{target}' is no buffer but a {type(found).__name__}"
            )
        buffer: Tensor = found
        return buffer

    def _get_member(self, where: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(
                f"{where}: {type(module).__name__} has no attribute '{name}', the end"
                f" of the path '{target}'"
            )
        return getattr(module, name)


def join(path: str, name: str) -> str:
    """Return the path of a name below another path."""
    return f"{path}.{name}" if path else name


_members = (Tensor, ModuleTree)


def _put_registration_hook(role: str, hook: Callable[..., Any]) -> RemovableHandle:
    hooks = _registration_hooks.setdefault(role, OrderedDict())
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_module_parameter_registration_hook(
    hook: Callable[..., Any],
) -> RemovableHandle:
    """Call `hook(module, name, param)` when any module registers a parameter.

    What it returns, unless None, takes the parameter's place.
    """
    return _put_registration_hook(PARAMETER, hook)


def register_module_buffer_registration_hook(
    hook: Callable[..., Any],
) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when any module registers a buffer.

    What it returns, unless None, takes the buffer's place.
    """
    return _put_registration_hook(BUFFER, hook)


def register_module_module_registration_hook(
    hook: Callable[..., Any],
) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when any module registers another one.

    What it returns, unless None, takes the other one's place.
    """
    return _put_registration_hook(MODULE, hook)
