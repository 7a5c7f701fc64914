"""`dir()` of the namespaces shows what programs use, and nothing behind it."""

import copy
import importlib
import pickle
import types

import pytest

import vkbackend.framework as fw

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


def test_objects_say_what_they_are() -> None:
    layer = fw.nn.Linear(1, 1)
    optimizer = fw.optim.SGD(layer.parameters(), lr=0.5)
    constraints = fw.distributions.constraints
    texts = {
        fw.optim.lr_scheduler.StepLR(optimizer, 2): "StepLR(last_epoch=0, lr=[0.5])",
        fw.utils.data.DataLoader([1, 2], 2): "DataLoader(list, batch_size=2)",
        fw.distributions.Categorical(logits=fw.zeros(3)): (
            "Categorical(logits: torch.Size([3]))"
        ),
        constraints.independent(constraints.positive, 1): (
            "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)"
        ),
        constraints.cat([constraints.real]): "Cat()",
    }
    assert [repr(each) for each in texts] == list(texts.values())
    # Python 3.12 prints an OrderedDict as a dict.
    assert repr(layer.state_dict()).startswith(
        ("OrderedDict([('weight', tensor(", "OrderedDict({'weight': tensor(")
    )
    scaler = fw.amp.GradScaler("cpu", init_scale=8.0)
    optimizer.zero_grad()
    scaler.scale(layer(fw.ones(1, 1)).sum()).backward()
    scaler.unscale_(optimizer)
    for made in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert made.get_scale() == 8.0
        made.unscale_(optimizer)
