"""`dir()` of the namespaces shows what programs use, and nothing behind it."""

import importlib
import types

import pytest

NAMESPACES = (
    "nn nn.functional nn.utils nn.attention optim optim.lr_scheduler autograd"
    " autograd.functional utils.checkpoint amp distributions distributions.transforms"
    " func cuda random compiler testing profiler hub overrides cpu mps distributed"
).split()
MODULES = set(
    "attention functional init modules parallel parameter parametrizations parametrize"
    " prune rnn lr_scheduler swa_utils function graph grad_mode constraints kl"
    " transforms amp stateless constraint_registry utils".split()
)


@pytest.mark.parametrize("name", NAMESPACES)
def test_namespaces_show_public_names(name: str) -> None:
    module = importlib.import_module(f"vkbackend.framework.{name}")
    shown = [each for each in dir(module) if each[:1] != "_"]
    assert set(module.__all__) <= set(shown)
    for each in shown:
        value = getattr(module, each)
        assert each in MODULES or not isinstance(value, types.ModuleType)
        assert getattr(value, "__module__", None) not in ("typing", "collections.abc")
