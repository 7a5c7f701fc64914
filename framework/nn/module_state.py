"""Module states: `state_dict`, and loading one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..base.errors import StateError
from ..base.hooks import RemovableHandle
from ..tensor.tensor import Tensor
from . import module_hooks
from .module_tree import BUFFER, MODULE, PARAMETER, ModuleTree
from .state_dict import IncompatibleKeys, Loading, check_mapping

EXTRA_STATE = "_extra_state"


class StateDict(OrderedDict[str, Any]):
    """State of a module: tensors by path, and the versions of the modules.

    Attributes
    ----------
    _metadata : OrderedDict
        `{"version": number}` by path of each module.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._metadata: OrderedDict[str, Any] = OrderedDict()

    def __repr__(self) -> str:
        return repr(OrderedDict(self))


class ModuleState(ModuleTree):
    """Base of modules that makes states and loads them."""

    _version: int = 1

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Return parameters and persistent buffers by path.

        Parameters
        ----------
        destination : mapping of str to Tensor, optional
            What the state is written into; None makes a new one.
        prefix : str, default ""
            Begin of all keys.
        keep_vars : bool, default False
            Whether the parameters themselves are returned, not tensors off the tape.

        Returns
        -------
        OrderedDict of str to Tensor
            The tensors share the module's storage: they follow its training.
        """
        for name, value in zip(("destination", "prefix", "keep_vars"), args):
            if name == "destination":
                destination = value
            elif name == "prefix":
                prefix = value
            else:
                keep_vars = value
        if destination is None:
            destination = StateDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        hooks = module_hooks.hooks_or_none(self)
        for hook in tuple(hooks.state_pre.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._registered(MODULE):
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )
        for hook in tuple(hooks.state_post.values()):
            answer = hook(self, destination, prefix, metadata)
            if answer is not None and getattr(hook, "_may_replace", False):
                destination = answer
        return destination

    def _save_to_state_dict(
        self, destination: Any, prefix: str, keep_vars: bool
    ) -> None:
        """Write the module's own part of a state; subclasses may override it."""
        for name, tensor in self._persistent():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        kind: Any = type(self)
        if kind.get_extra_state is not ModuleState.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _persistent(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._registered(PARAMETER)
        for name, tensor in self._registered(BUFFER):
            if name not in self._non_persistent_buffers_set:
                yield name, tensor

    def get_extra_state(self) -> Any:
        """Return what is saved beside the tensors; a subclass may override it."""
        raise RuntimeError(
            f"{type(self).__name__}.get_extra_state: it is not defined; a module with"
            " an extra state overrides it"
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned; override it beside that."""
        raise RuntimeError(
            f"{type(self).__name__}.set_extra_state: it is not defined, but a state"
            " with an extra state is loaded; override it, as get_extra_state is"
        )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors into the parameters and buffers of the same path.

        Parameters
        ----------
        state_dict : mapping of str to Tensor, ndarray or PyTorch tensor
            On any device; the dtype becomes the module's, as by `copy_`.
        strict : bool, default True
            Whether the paths must be the same on both sides.
        assign : bool, default False
            Whether the given tensors take the places of the module's, in their own
            dtype and on their own device, rather than being copied into them.

        Returns
        -------
        IncompatibleKeys
            `missing_keys` and `unexpected_keys`; both empty if `strict`.

        Raises
        ------
        StateError
            If `strict` and paths differ, or a value is no tensor or of another shape,
            strict or not; nothing has been changed then.
        TypeError
            If the state is no mapping.
        """
        where = f"load_state_dict: the state does not fit {type(self).__name__}"
        check_mapping(where, state_dict)
        given = OrderedDict(
            (key, value) for key, value in state_dict.items() if isinstance(key, str)
        )
        metadata = getattr(state_dict, "_metadata", None) or {}
        missing: list[str] = []
        unexpected = [str(key) for key in state_dict if not isinstance(key, str)]
        answer = IncompatibleKeys(missing, unexpected)
        loading = Loading()
        self._load(given, "", metadata, assign, answer, loading)

        def check() -> None:
            if strict and (missing or unexpected):
                raise StateError(
                    f"{where}: missing keys: {', '.join(missing) or 'none'};"
                    f" unexpected keys: {', '.join(unexpected) or 'none'};"
                    " strict=False ignores both"
                )

        if not loading.actions and not loading:
            check()
        loading.finish(where, check)
        return answer

    def _load(
        self,
        given: Any,
        prefix: str,
        metadata: Mapping[str, Any],
        assign: bool,
        answer: IncompatibleKeys,
        loading: Loading,
    ) -> None:
        """Plan what this module and those below take of a state."""
        own_metadata = dict(metadata.get(prefix[:-1], {}))
        if assign:
            own_metadata["assign_to_params_buffers"] = True
        self._load_from_state_dict(
            given,
            prefix,
            own_metadata,
            True,
            answer.missing_keys,
            answer.unexpected_keys,
            loading,
        )
        for name, child in self._registered(MODULE):
            path = f"{prefix}{name}."
            part = OrderedDict(
                (key, value) for key, value in given.items() if key.startswith(path)
            )
            child._load(part, path, metadata, assign, answer, loading)
        for hook in tuple(module_hooks.hooks_or_none(self).load_post.values()):
            loading.actions.append(_Bound(_call_post_hook, hook, self, answer))

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the module's own part of a state; subclasses may override it.

        What is taken is copied once the whole state has been found to fit.
        """
        for hook in tuple(module_hooks.hooks_or_none(self).load_pre.values()):
            hook(
                self,
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        loading = error_msgs if isinstance(error_msgs, Loading) else Loading()
        own = [name for name, _ in self._persistent()]
        for name in own:
            key = prefix + name
            if key in state_dict:
                loading.take(self, name, key, state_dict[key], assign)
            elif strict:
                missing_keys.append(key)
        own.append(self._load_extra(state_dict, prefix, strict, missing_keys, loading))
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and self._is_unexpected(
                    key.removeprefix(prefix), own
                ):
                    unexpected_keys.append(key)
        if loading is not error_msgs:
            error_msgs.extend(loading)
            loading.finish(f"load_state_dict: {type(self).__name__}", lambda: None)

    def _load_extra(
        self,
        state_dict: Any,
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        loading: Loading,
    ) -> str:
        """Plan that the extra state is restored; return its key if there is one."""
        kind: Any = type(self)
        key = prefix + EXTRA_STATE
        if kind.set_extra_state is ModuleState.set_extra_state:
            return ""
        if key in state_dict:
            loading.actions.append(_Bound(kind.set_extra_state, self, state_dict[key]))
        elif strict:
            missing_keys.append(key)
        return EXTRA_STATE

    def _is_unexpected(self, rest: str, own: list[str]) -> bool:
        """Return whether the rest of a key names nothing here."""
        first, dot, _ = rest.partition(".")
        if dot:
            return self._registry.get(first) is not MODULE
        return first not in own

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any]
    ) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`.

        It may change the state in place.
        """
        this: Any = self
        return module_hooks.put(this, "state_post", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register a hook whose result, if any, takes the place of the state."""

        def replacing(*args: Any) -> Any:
            return hook(*args)

        replacing._may_replace = True  # type: ignore[attr-defined]  # the mark
        this: Any = self
        return module_hooks.put(this, "state_post", replacing)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`."""
        this: Any = self
        return module_hooks.put(this, "state_pre", hook)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any]
    ) -> RemovableHandle:
        """Call a hook before the module takes its part of a state.

        Its arguments are the module, the state, which it may change, prefix, metadata,
        strict, and the lists of missing keys, unexpected keys and errors.
        """
        this: Any = self
        return module_hooks.put(this, "load_pre", hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Register a hook that is given the module only if `with_module`."""
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return self.register_load_state_dict_pre_hook(lambda module, *rest: hook(*rest))

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any]
    ) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after a state has been loaded.

        It may change the lists of keys in place: what it takes out is no error. A
        result other than None is an AssertionError.
        """
        this: Any = self
        return module_hooks.put(this, "load_post", hook)


def _call_post_hook(hook: Callable[..., Any], module: Any, answer: object) -> None:
    if hook(module, answer) is not None:
        raise AssertionError(
            f"load_state_dict: a post-hook of {type(module).__name__} returned a value;"
            " change the lists of keys in place and return None"
        )


class _Bound:
    """A call that is made once a state has been loaded."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._function = function
        self._args = args

    def __call__(self) -> None:
        self._function(*self._args)
