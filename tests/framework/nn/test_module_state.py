"""States of modules that have a part of their own in them."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn


def net(space: Any, library: Any) -> Any:
    """Return a module with an extra state, a version and a renamed key."""

    class Inner(space.Module):  # type: ignore[misc]
        _version = 3

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", library.zeros(2))
            self.steps = 0

        def get_extra_state(self) -> dict[str, int]:
            return {"steps": self.steps}

        def set_extra_state(self, state: dict[str, int]) -> None:
            self.steps = state["steps"]

        def _load_from_state_dict(
            self, state: Any, prefix: str, metadata: Any, *rest: Any
        ) -> None:
            self.version = metadata.get("version")
            if prefix + "old" in state:
                state[prefix + "mean"] = state.pop(prefix + "old")
            super()._load_from_state_dict(state, prefix, metadata, *rest)

    class Net(space.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

    return Net()


def test_extra_states_and_overrides_are_pytorchs() -> None:
    answers = []
    for space, library in ((nn, fw), (torch.nn, torch)):
        one, other = net(space, library), net(space, library)
        one.inner.steps = 7
        state = one.state_dict()
        other.load_state_dict(state)
        found: list[Any] = [list(state), other.inner.steps, other.inner.version]
        found.append({key: dict(value) for key, value in state._metadata.items()})
        old = {"inner.old": library.ones(2), "inner._extra_state": {"steps": 1}}
        other.load_state_dict(old)
        found += [other.inner.mean.tolist(), other.inner.steps]
        missing = other.load_state_dict({"inner.x": 1, "y.z": 2, "y": 3}, strict=False)
        found += [missing.missing_keys, missing.unexpected_keys]
        answers.append(found)
    assert answers[0] == answers[1]


def test_arguments_of_state_dict() -> None:
    layer = nn.Linear(1, 1)
    made: dict[str, Any] = {}
    assert layer.state_dict(destination=made, prefix="a.", keep_vars=True) is made
    assert made["a.weight"] is layer.weight
    with pytest.raises(RuntimeError, match=r"get_extra_state: it is not defined"):
        layer.get_extra_state()
