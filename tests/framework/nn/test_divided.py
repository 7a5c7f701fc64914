"""Gradients of divided layers are clipped by the norm of the whole model."""

import copy
import math
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn, optim
from vkbackend.framework.communication.group import Group
from vkbackend.framework.nn.divided import group_of, is_divided, mark_divided, part_of


def model() -> Any:
    fw.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


PLAN = {"0": "column", "2": "row"}

CLIPS: dict[str, Callable[..., Any]] = {
    "optim": lambda each: optim.clip_grad_norm_(each, 0.1),
    "two": lambda each: nn.utils.clip_grad_norm_(each, 0.1),
    "three": lambda each: nn.utils.clip_grad_norm_(each, 0.1, 3.0),
    "most": lambda each: nn.utils.clip_grad_norm_(each, 0.1, math.inf),
    "least": lambda each: nn.utils.clip_grad_norm_(each, 0.1, -math.inf),
    "finite": lambda each: nn.utils.clip_grad_norm_(each, 0.1, 2.0, True),
}


@pytest.mark.parametrize("name", CLIPS)
def test_norms_are_those_of_the_whole_model(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, x = model(), fw.randn(3, 4)
    parts = [copy.deepcopy(whole) for _ in range(2)]
    whole(x).square().sum().backward()
    wanted = float(CLIPS[name](whole.parameters()))

    def work(group: Group) -> Any:
        own = nn.tensor_parallel(parts[group.rank], group, PLAN)
        own(x).square().sum().backward()
        divided = [is_divided(each) for each in own.parameters()]
        found = float(CLIPS[name](own.parameters()))
        return found, divided, [each.grad.numpy() for each in own.parameters()]

    grads = [each.grad.numpy() for each in whole.parameters()]
    for rank, (found, divided, own) in enumerate(as_threads(monkeypatch, 2).run(work)):
        assert found == pytest.approx(wanted, rel=1e-5)
        assert divided == [True, True, True, False]
        rows, columns = slice(3 * rank, 3 * rank + 3), slice(3 * rank, 3 * rank + 3)
        cut = [grads[0][rows], grads[1][rows], grads[2][:, columns], grads[3]]
        for one, other in zip(own, cut, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)


def test_parameters_that_are_assigned_are_divided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [model() for _ in range(2)]

    def work(group: Group) -> Any:
        own = nn.tensor_parallel(parts[group.rank], group, PLAN)
        state = {name: each.clone() for name, each in own.state_dict().items()}
        own.load_state_dict(state, assign=True)
        own[0].weight = nn.Parameter(own[0].weight.detach().clone())
        own(fw.ones(1, 4)).sum().backward()
        norm = float(nn.utils.clip_grad_norm_(own.parameters(), 0.1))
        return [is_divided(each) for each in own.parameters()], norm

    (first, norm), (second, other) = as_threads(monkeypatch, 2).run(work)
    assert first == second == [True, True, True, False]
    whole = model()
    whole(fw.ones(1, 4)).sum().backward()
    wanted = float(nn.utils.clip_grad_norm_(whole.parameters(), 0.1))
    assert norm == other == pytest.approx(wanted, rel=1e-5)


def test_all_ranks_leave_out_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [model() for _ in range(2)]

    def work(group: Group) -> Any:
        own = nn.tensor_parallel(parts[group.rank], group, PLAN)
        optimizer = optim.SGD(own.parameters(), 1.0)
        scaler = fw.GradScaler(device="cpu", init_scale=4.0)
        scaler.scale(own(fw.ones(1, 4)).sum()).backward()
        if group.rank == 1:
            own[0].weight.grad[0, 0] = math.inf
        before = own[2].bias.tolist()
        scaler.step(optimizer)
        scaler.update()
        return before == own[2].bias.tolist(), scaler.get_scale()

    assert as_threads(monkeypatch, 2).run(work) == [(True, 2.0)] * 2


def test_l_bfgs_takes_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps follow from products of all gradients, and of each rank were others."""
    parts = [model() for _ in range(2)]

    def work(group: Group) -> Any:
        own = nn.tensor_parallel(parts[group.rank], group, PLAN)
        optimizer = optim.LBFGS(own.parameters())

        def closure() -> fw.Tensor:
            optimizer.zero_grad()
            loss = own(fw.ones(1, 4)).square().sum()
            loss.backward()
            return loss

        before = own[2].bias.tolist()
        with pytest.raises(NotImplementedError, match=r"LBFGS\.step: a parameter of"):
            optimizer.step(closure)
        return before == own[2].bias.tolist()

    assert as_threads(monkeypatch, 2).run(work) == [True, True]


def test_one_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        layer = nn.ColumnParallelLinear(2, 2, group)
        assert group_of("it", layer.parameters()) is group
        layer(fw.ones(1, 2)).sum().backward()
        with pytest.raises(NotImplementedError, match="norm_type is 0"):
            nn.utils.clip_grad_norm_(layer.parameters(), 1.0, 0)
        before = layer.weight.grad.tolist()
        with pytest.raises(NotImplementedError, match=r"\(1, 2\) is divided among"):
            nn.utils.clip_grads_with_norm_(layer.parameters(), 0.1, fw.tensor(9.0))
        assert layer.weight.grad.tolist() == before
        other = nn.ColumnParallelLinear(2, 2, group)
        part = part_of(other.weight)
        mark_divided(other.weight, SimpleNamespace(size=2, ranks=(0,)), part)
        with pytest.raises(NotImplementedError, match="it: some parameters are divid"):
            group_of("it", [layer.weight, other.weight])
        return True

    assert all(as_threads(monkeypatch, 2).run(work))
    assert group_of("it", nn.Linear(1, 1).parameters()) is None


@pytest.mark.parametrize("name", ["LAMB", "Adafactor", "Muon"])
def test_optimizers_that_sum_a_parameter_s_elements_take_no_parts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(group: Group) -> Any:
        layer = nn.ColumnParallelLinear(4, 4, group, bias=False)
        with pytest.raises(NotImplementedError, match=f"{name}: a parameter of shape"):
            getattr(optim, name)(layer.parameters())
        return True

    assert all(as_threads(monkeypatch, 2).run(work))
    getattr(optim, name)(nn.Linear(4, 4, bias=False).parameters())


def test_sums_outlast_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        own = nn.Sequential(nn.Linear(2, 2), nn.RMSNorm(2))
        own = nn.tensor_parallel(own, group, {"0": "column", "1": "sum"})
        found = []
        for assigned in (False, False, True):
            if assigned:
                own[1].weight = nn.Parameter(own[1].weight.detach().clone())
            own.zero_grad()
            (own[1](fw.ones(1, 2)) * (group.rank + 1)).sum().backward()
            found.append(own[1].weight.grad.tolist())
        return found

    for found in as_threads(monkeypatch, 2).run(work):
        for grad in found:
            np.testing.assert_allclose(grad, [3.0, 3.0], rtol=1e-5)


MAKERS: dict[str, Callable[[Group], nn.Module]] = {
    "column": lambda group: nn.ColumnParallelLinear(4, 4, group),
    "data": lambda group: nn.DataParallel(nn.Linear(4, 4), group),
    "fsdp": lambda group: nn.FSDP(
        nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)),
        group,
        auto_wrap_policy="children",
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_copies_have_the_group_of_the_original(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(group: Group) -> Any:
        own, x = MAKERS[name](group), fw.ones(1, 4) * (1 + group.rank)
        own(x).sum().backward()
        other = copy.deepcopy(own)
        assert other.group is group
        own.zero_grad()
        other.zero_grad()
        other(x).sum().backward()
        assert all(each.grad is None for each in own.parameters())
        found = [each.grad for each in other.parameters()]
        own(x).sum().backward()
        for grad, each in zip(found, own.parameters()):
            assert grad is each.grad is None or fw.equal(grad, each.grad)
        with pytest.raises(TypeError, match="a group of processes has no pickle; save"):
            pickle.dumps(own)
        return [None if each is None else each.tolist() for each in found]

    first, second = as_threads(monkeypatch, 2).run(work)
    if name == "data":
        assert first == second


def test_a_rank_may_have_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small model that is divided it takes part in what all ranks do."""

    def work(group: Group) -> Any:
        own = nn.FSDP(nn.Linear(1, 1), group)
        own(fw.full((1, 1), 2.0)).sum().backward()
        parameters = list(own.parameters())
        optimizer = optim.SGD(parameters, lr=0.1)
        scaler = fw.GradScaler(init_scale=1.0)
        scaler.scale(fw.ones(1))
        scaler.unscale_(optimizer)
        norms = [
            nn.utils.clip_grad_norm_(parameters, 9.0, power)
            for power in (2.0, 1.0, math.inf, -math.inf)
        ]
        norms.append(optim.clip_grad_norm_(parameters, 9.0))
        scaler.step(optimizer)
        own.zero_grad()
        assert nn.utils.clip_grad_norm_(parameters, 9.0) == 0
        return sum(each.numel() for each in parameters), [float(x) for x in norms]

    results = as_threads(monkeypatch, 3).run(work)
    assert [count for count, _ in results] == [1, 0, 1]
    for _, norms in results:
        assert norms == pytest.approx([5**0.5, 3.0, 2.0, 1.0, 5**0.5])
