"""`dir()` of the namespaces shows what programs use, and nothing behind it."""

import copy
import functools
import importlib
import inspect
import pickle
import pydoc
import types

import pytest

import vkbackend.framework as fw

NAMESPACES = (
    "nn nn.functional nn.utils nn.attention optim optim.lr_scheduler autograd"
    " autograd.functional utils.checkpoint amp distributions distributions.transforms"
    " func cuda random compiler testing profiler hub overrides cpu mps distributed"
    " futures library version autograd.graph nn.parallel"
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
    assert set(module.__all__) <= set(dir(module))
    for each in shown:
        value = getattr(module, each)
        assert each in MODULES or not isinstance(value, types.ModuleType)
        assert getattr(value, "__module__", None) not in ("typing", "collections.abc")


DEFINED = {
    "nn.init": "xavier_uniform_ uniform calculate_gain",
    "nn.parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
    "optim.swa_utils": "AveragedModel SWALR get_ema_multi_avg_fn update_bn",
    "distributions.constraints": "Constraint positive real cat dependent_property",
}


@pytest.mark.parametrize("name", DEFINED)
def test_modules_show_what_they_define(name: str) -> None:
    module = importlib.import_module(f"vkbackend.framework.{name}")
    shown = [each for each in dir(module) if each[:1] != "_"]
    assert {*DEFINED[name].split()} <= {*shown}
    hidden = {"Tensor", "Any", "Callable", "annotations", "np", "no_grad", "math", "P"}
    assert not hidden & {*shown}


FUNCTIONS = ("", "nn.functional", "linalg", "fft", "special", "Tensor", "optim")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_of_each_function_shows_its_parameters(name: str) -> None:
    space = functools.reduce(getattr, name.split(".") if name else [], fw)
    wrong = []
    for each in dir(space):
        value = getattr(space, each)
        if each[0] == "_" or isinstance(value, type) or not callable(value):
            continue
        text = pydoc.render_doc(value, renderer=pydoc.plaintext)
        signature = text.partition("\n\n")[2].partition("\n    ")[0]
        names = inspect.signature(value).parameters
        if not inspect.getdoc(value) or any([n not in signature for n in names]):
            wrong.append(each)
    assert not wrong


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
