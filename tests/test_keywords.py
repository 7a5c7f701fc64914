"""Each keyword that PyTorch's functions and classes take is taken here."""

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import vkbackend.framework as fw

torch = pytest.importorskip("torch")

EXCEPTIONS = {
    "nn.DataParallel": "a group of processes stands for the list of devices",
    "Tensor.dim_order": "there are no other memory formats to be ambiguous about",
    "torch.compile": "of the options of PyTorch's compiler those that have a meaning",
    "torch.norm": "it takes them, which its signature does not tell",
    "torch.split": "it takes them, which its signature does not tell",
    "torch.tensordot": "it takes it, which its signature does not tell",
}
"""By name: why a keyword of PyTorch's is not the name of a parameter."""

SPACES = ("", "nn", "nn.functional", "optim", "optim.lr_scheduler", "Tensor")


def parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    """Return the parameters of a function that tells them, without `self`."""
    try:
        found = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    found.pop("self", None)
    return found


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yield names, what is here and what is PyTorch's."""
    for space in SPACES:
        ours: Any = fw
        theirs: Any = torch
        for part in space.split(".") if space else ():
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        for name in dir(theirs):
            if name[:1] == "_" or not hasattr(ours, name):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one, other = getattr(ours, name), getattr(theirs, name)
            is_layer = isinstance(other, type) and issubclass(other, torch.nn.Module)
            is_wanted = is_layer if space == "nn" else callable(other)
            if not is_wanted or (space in ("", "Tensor") and isinstance(other, type)):
                continue
            yield f"{space or 'torch'}.{name}", one, other
            if is_layer:
                yield f"{space}.{name}.forward", one.forward, other.forward


def missing(ours: Any, theirs: Any) -> list[str]:
    """Return the keywords of one function that another does not take."""
    taken, wanted = parameters(ours), parameters(theirs)
    if taken is None or wanted is None:
        return []
    various = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    if any(each.kind in various for each in wanted.values()):
        return []
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        return []
    return [name for name in wanted if name not in taken]


def test_keywords_are_taken() -> None:
    found = {name: missing(ours, theirs) for name, ours, theirs in pairs()}
    lacking = {name: keywords for name, keywords in found.items() if keywords}
    assert len(found) > 1000
    assert {name: lacking[name] for name in lacking if name not in EXCEPTIONS} == {}


@pytest.mark.torch213
def test_each_exception_is_one() -> None:
    lacking = {name for name, ours, theirs in pairs() if missing(ours, theirs)}
    assert sorted(EXCEPTIONS) == sorted(set(EXCEPTIONS) & lacking)
