"""State dicts that an optimizer refuses, or takes as a program made them."""

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.interruption import Interrupter
from tests.tree import FOLDERS
from vkbackend.framework import optim
from vkbackend.framework.base.errors import DTypeError, ShapeError, StateError
from vkbackend.framework.optim.optimizer import Optimizer

MAKERS: dict[str, Callable[[Any], Optimizer]] = {
    "adam": lambda params: optim.AdamW(params, lr=0.25),
    "sgd": lambda params: optim.SGD(params, lr=0.25, momentum=0.5),
}


def trained(name: str) -> tuple[Optimizer, list[fw.Tensor]]:
    """Return an optimizer after a step, and its parameters."""
    params = [fw.ones(2, requires_grad=True), fw.ones((2, 3), requires_grad=True)]
    optimizer = MAKERS[name](params)
    for parameter in params:
        parameter.sum().backward()
    optimizer.step()
    return optimizer, params


def moment(state: dict[str, Any]) -> str:
    """Return the name of a moment that a state has."""
    return next(name for name, value in state["state"][0].items() if name != "step")


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no dict": (lambda s: [s], "the state is of type list; it must be a dict"),
    "no groups": (
        lambda s: {"state": s["state"]},
        'must have a list of "param_groups"',
    ),
    "no state": (lambda s: {**s, "state": None}, 'a dict of "state"'),
    "a group": (
        lambda s: {**s, "param_groups": [3]},
        r"param_groups\[0\] is 3; it must",
    ),
    "params": (
        lambda s: s["param_groups"][0].update(params="ab"),
        'it must have numbers as "params"',
    ),
    "twice": (
        lambda s: s["param_groups"][0].update(params=[1, 1]),
        r"parameters are numbered \[1, 1\], and remembered are \[0, 1\]",
    ),
    "others": (
        lambda s: s["state"].update({7: {}}),
        r"remembered are \[0, 1, 7\]; numbers must be of one parameter each",
    ),
    "entry": (
        lambda s: s["state"].update({0: 3}),
        r"state\[0\] is of type int; it must be a dict",
    ),
    "missing": (lambda s: s["state"][0].clear(), r"state\[0\] has nothing; the"),
    "too much": (lambda s: s["state"][0].update(x=1), "x; the optimizer remembers"),
    "no tensor": (
        lambda s: s["state"][0].update({moment(s): [1.0, 2.0]}),
        "is of type list; it must be of type Tensor",
    ),
    "text": (
        lambda s: s["param_groups"][0].update(lr="0.1"),
        r"the option 'lr' is '0.1'; it must be like 0.25",
    ),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_state_is_refused(kind: str, name: str) -> None:
    optimizer, _ = trained(name)
    before = optimizer.state_dict()
    change, text = BAD[kind]
    bad = deepcopy(before)
    bad = change(bad) or bad
    with pytest.raises(StateError, match=rf"^load_state_dict: .*{text}") as raised:
        optimizer.load_state_dict(bad)
    assert str(raised.value).endswith("; nothing was loaded")
    assert_same(optimizer.state_dict(), before)


def assert_same(found: dict[str, Any], before: dict[str, Any]) -> None:
    """Check that two states are equal."""
    assert found["param_groups"] == before["param_groups"]
    assert found["state"].keys() == before["state"].keys()
    for number, entry in before["state"].items():
        for name, value in entry.items():
            other = found["state"][number][name]
            if isinstance(value, fw.Tensor):
                assert other.tolist() == value.tolist()
            else:
                assert other == value


@pytest.mark.parametrize("name", MAKERS)
def test_moments_that_do_not_fit_are_refused(name: str) -> None:
    optimizer, _ = trained(name)
    before = optimizer.state_dict()
    which = moment(before)
    for wrong, error, text in (
        (
            fw.ones((3, 2)),
            ShapeError,
            r"is of shape \(3, 2\), its parameter of \(2, 3\)",
        ),
        (fw.ones((2, 3), dtype="int32"), DTypeError, "is int32; it must be of floats"),
    ):
        bad = deepcopy(before)
        bad["state"][1][which] = wrong
        with pytest.raises(error, match=rf"state\[1\]\['{which}'\] {text}"):
            optimizer.load_state_dict(bad)
        assert_same(optimizer.state_dict(), before)


def test_options_out_of_range_and_counts_below_0() -> None:
    optimizer, _ = trained("adam")
    before = optimizer.state_dict()
    bad = deepcopy(before)
    bad["param_groups"][0]["betas"] = [0.5, 1.5]
    with pytest.raises(ValueError, match="betas are"):
        optimizer.load_state_dict(bad)
    bad = deepcopy(before)
    bad["param_groups"][0]["lr"] = -1.0
    with pytest.raises(ValueError, match=r"lr is -1\.0"):
        optimizer.load_state_dict(bad)
    bad = deepcopy(before)
    bad["state"][1]["step"] = -1
    with pytest.raises(StateError, match=r"state\[1\]\['step'\] is -1; it must be at"):
        optimizer.load_state_dict(bad)
    bad["state"][1]["step"] = 1.5
    with pytest.raises(StateError, match="is of type float; it must be of type int"):
        optimizer.load_state_dict(bad)
    assert_same(optimizer.state_dict(), before)


def test_moments_take_the_dtype_of_their_parameter() -> None:
    optimizer, params = trained("adam")
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"] = state["state"][0]["exp_avg"].double()
    optimizer.load_state_dict(state)
    assert optimizer.state[params[0]]["exp_avg"].dtype is fw.float32
    optimizer.step()


class Custom(Optimizer):
    """Does not say what it remembers."""


def test_an_optimizer_that_does_not_say_takes_what_it_is_given() -> None:
    x = fw.ones(2, requires_grad=True)
    optimizer = Custom([x], {"lr": 0.1})
    state = {"calls": 3, "mean": fw.tensor(2.0), "names": ["a"]}
    groups = [{"lr": 0.2, "params": [0]}]
    optimizer.load_state_dict({"state": {0: state}, "param_groups": groups})
    assert optimizer.state[x]["mean"].item() == 2.0
    assert optimizer.state[x]["names"] == ["a"]
    assert optimizer.param_groups[0]["lr"] == 0.2


@pytest.mark.parametrize("kinds", [(np.float32, float), (float, np.float32)])
def test_numbers_of_numpy_are_like_those_of_python(kinds: tuple[type, type]) -> None:
    saved, loading = (
        optim.SGD([fw.ones(2, requires_grad=True)], lr=kind(rate), momentum=0.5)
        for kind, rate in zip(kinds, (0.25, 0.5))
    )
    loading.load_state_dict(saved.state_dict())
    assert loading.param_groups[0]["lr"] == 0.25
    state = saved.state_dict()
    state["param_groups"][0]["lr"] = np.True_
    with pytest.raises(StateError, match="the option 'lr' is"):
        loading.load_state_dict(state)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_all_of_the_old_or_all_of_the_new() -> None:
    optimizer, _ = trained("sgd")
    old = optimizer.state_dict()
    new = deepcopy(old)
    new["param_groups"][0].update(lr=0.5, momentum=0.75)
    for entry in new["state"].values():
        entry["momentum_buffer"].fill_(7.0)
    seen = set()
    for step in range(1, 2000, 3):
        optimizer.load_state_dict(old)
        one = Interrupter(step, str(FOLDERS["vkbackend.framework"] / "optim"))
        one.run(lambda: optimizer.load_state_dict(new))
        is_new = optimizer.param_groups[0]["lr"] == 0.5
        assert_same(optimizer.state_dict(), new if is_new else old)
        seen.add(is_new)
        if not one.where:
            break
    assert is_new
    assert seen == {True, False}
    optimizer.step()


class Remembering(Optimizer):
    """Asks for the state of parameters that have none yet, as PyTorch's programs do."""

    def step(self, closure: Any = None) -> Any:
        with fw.no_grad():
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                if len(state) == 0:
                    state["sum"] = fw.zeros_like(parameter)
                state["sum"].add_(parameter.grad)
                parameter.sub_(state["sum"])


def test_state_is_there_when_it_is_asked_for() -> None:
    x = fw.ones(2, requires_grad=True)
    optimizer = Remembering([x], {})
    x.sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert x.tolist() == [-2, -2]
    other = optim.Adam([x])
    assert other.state[x] == {}
    other.step()
    assert set(other.state[x]) >= {"exp_avg", "exp_avg_sq"}


OF_PYTORCH = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS",
    "Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
]  # fmt: skip


def converted(state: Any, tensor: type, make: Callable[[Any], Any]) -> Any:
    """Return a state with its tensors made by another library."""
    if isinstance(state, tensor):
        return make(state.detach().numpy())  # type: ignore[attr-defined]
    if isinstance(state, dict):
        return {key: converted(each, tensor, make) for key, each in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(converted(each, tensor, make) for each in state)
    return state


def advance(optimizer: Any, params: list[Any], make: Callable[[Any], Any]) -> None:
    """Make 50 steps: by random gradients, or of a quadratic by its closure."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        if type(optimizer).__name__ == "LBFGS":

            def closure() -> Any:
                optimizer.zero_grad()
                scale = make(np.linspace(1.0, 2.0, 5, dtype=np.float32))
                loss = sum(((each - 1.0) ** 2 * scale).sum() for each in params)
                loss.backward()  # type: ignore[union-attr]
                return loss

            optimizer.step(closure)
            continue
        for each in params:
            each.grad = make(rng.normal(size=tuple(each.shape)).astype(np.float32))
        optimizer.step()


# Where the loss is maximised, or sits at a change of sign, PyTorch in float32 is as far
# from PyTorch in float64: gradients that do not depend on the parameters are the test.
# Muon's directions are of bfloat16: the last bit of its momentum, which a fused
# multiply-add rounds once, and the order of a sum in a product decide a tie there.
@pytest.mark.wide
@pytest.mark.parametrize("name", OF_PYTORCH)
def test_states_of_pytorch_continue_both_ways(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("expecttest")
    monkeypatch.setattr(sys, "path", [*sys.path])
    from torch.testing._internal.common_optimizers import optim_db

    (info,) = (each for each in optim_db if each.optim_cls.__name__ == name)
    shapes = [(4, 5), (3, 5)] if name == "Muon" else [(4, 5), (5,)]
    for given in info.optim_inputs_func("cpu"):
        atol = 1e-5
        if name == "Muon":
            # Two last bits of a direction below 2.
            atol = 2 * 2**-7 * float(given.kwargs.get("lr", 1e-3))
        arrays = [rng.normal(size=each).astype(np.float32) for each in shapes]

        def theirs(
            arrays: list[Any] = arrays, options: Any = given.kwargs
        ) -> tuple[Any, list[Any]]:
            params = [torch.tensor(each, requires_grad=True) for each in arrays]
            return info.optim_cls(params, **deepcopy(options)), params

        first, source = theirs()
        advance(first, source, torch.tensor)
        ours = [fw.tensor(x.detach().numpy(), requires_grad=True) for x in source]
        options = converted(given.kwargs, torch.Tensor, fw.tensor)
        found = getattr(optim, name)(ours, **options)
        state = deepcopy(first.state_dict())
        found.load_state_dict(converted(state, torch.Tensor, fw.tensor))
        advance(found, ours, fw.tensor)
        advance(first, source, torch.tensor)
        second, back = theirs([x.detach().numpy() for x in ours])
        second.load_state_dict(converted(found.state_dict(), fw.Tensor, torch.tensor))
        for x, y in zip(ours, source):
            np.testing.assert_allclose(
                x.detach().numpy(), y.detach().numpy(), 1e-5, atol, err_msg=given.desc
            )
        advance(found, ours, fw.tensor)
        advance(second, back, torch.tensor)
        for x, y in zip(ours, back):
            np.testing.assert_allclose(
                x.detach().numpy(), y.detach().numpy(), 1e-5, atol, err_msg=given.desc
            )


# --- optimizers of programs


def foreign_optimizer(library: Any) -> Any:
    """Return an optimizer that counts for all parameters, and has odd options."""

    class Counting(library.optim.Optimizer):  # type: ignore[misc]  # of either library
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": None, "eps": (0.1, 1.0)})
            self.state["count"] = 0
            self.state["scale"] = library.ones(2)

        def step(self, closure: Any = None) -> None:
            self.state["count"] += 1
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["first"] = True
                        state["moments"] = [library.zeros_like(p), 3]
                        state["nested"] = {"mean": p.detach().clone()}
                    state["moments"][0].add_(p.grad)
                    with library.no_grad():
                        p.sub_(state["moments"][0] * 0.1)

    parameter = library.tensor([1.0, 2.0], requires_grad=True)
    return Counting([parameter]), parameter


def run_foreign(library: Any) -> list[Any]:
    optimizer, parameter = foreign_optimizer(library)
    seen = []
    for _ in range(2):
        optimizer.zero_grad()
        (parameter**2).sum().backward()
        optimizer.step()
    state = optimizer.state_dict()
    kept = deepcopy(state)
    other, _ = foreign_optimizer(library)
    other.load_state_dict(kept)
    for each in (state["state"], other.state_dict()["state"]):
        entry = each[0]
        seen += [each["count"], each["scale"].tolist(), entry["first"]]
        seen += [entry["moments"][0].tolist(), entry["moments"][1]]
        seen += [entry["nested"]["mean"].tolist(), type(entry["moments"]).__name__]
    return [*seen, parameter.tolist()]


def test_state_beside_that_of_parameters() -> None:
    assert run_foreign(fw) == run_foreign(torch)


def test_loaded_tensors_are_copies() -> None:
    optimizer, parameter = foreign_optimizer(fw)
    parameter.sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    other, _ = foreign_optimizer(fw)
    other.load_state_dict(state)
    mean = next(iter(other._parameter_states()))[1]["nested"]["mean"]
    mean.zero_()
    assert state["state"][0]["nested"]["mean"].tolist() == [1.0, 2.0]


def test_a_number_of_no_parameter_is_refused() -> None:
    optimizer, _ = foreign_optimizer(fw)
    state = optimizer.state_dict()
    state["state"][7] = {}
    with pytest.raises(StateError, match="numbers must be of one parameter each"):
        optimizer.load_state_dict(state)


def test_options_of_ours_are_numbers() -> None:
    with pytest.raises(TypeError):
        fw.optim.SGD([fw.ones(1, requires_grad=True)], lr=None)


@pytest.mark.parametrize("library", [torch, fw])
def test_a_class_adds_options_that_a_state_lacks(library: Any) -> None:
    class Scaled(library.optim.SGD):  # type: ignore[misc, name-defined]  # of either library
        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("scale", 2.0)

    x = library.nn.Parameter(library.ones(1))
    optimizer = Scaled([x], lr=0.5, momentum=0.9)
    x.sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["scale"] == 2.0
    assert [*optimizer.state] == [x]
    copied = deepcopy(optimizer)
    assert copied.param_groups[0]["scale"] == 2.0
    assert len(copied.state) == 1
