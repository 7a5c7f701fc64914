"""Step plans: steps that run the kernels of an earlier one on other addresses."""

import copy
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import optim
from vkbackend.framework.base.device import MAX_PENDING, GpuDevice
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.eager.base_tensor import evaluate

SHAPES = ((3, 5), (7,), (), (2, 2))


class AdamW(optim.AdamW):
    """Counts the steps that are done at length."""

    lengthy = 0

    def update_all(self, updates: Sequence[Any], group: dict[str, Any]) -> None:
        self.lengthy += 1
        super().update_all(updates, group)


class SGD(optim.SGD):
    """Counts the steps that are done at length."""

    lengthy = 0

    def update_all(self, updates: Sequence[Any], group: dict[str, Any]) -> None:
        self.lengthy += 1
        super().update_all(updates, group)


class Pair:
    """Parameters here and in PyTorch, which get the same gradients."""

    def __init__(
        self,
        gpu: GpuDevice,
        rng: np.random.Generator,
        kind: Callable[..., Any] = AdamW,
        **options: Any,
    ) -> None:
        self.gpu, self.rng = gpu, rng
        arrays = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
        self.mine = [fw.tensor(each, device=gpu, requires_grad=True) for each in arrays]
        self.others = [torch.tensor(each, requires_grad=True) for each in arrays]
        self.optimizer = kind(self.mine, lr=0.05, **options)
        peer = getattr(torch.optim, kind.__name__)
        self.peer = peer(self.others, lr=0.05, **options)

    def gradients(self, skip: Sequence[int] = ()) -> None:
        for k, (x, y) in enumerate(zip(self.mine, self.others)):
            grad = np.asarray(self.rng.normal(size=x.shape), np.float32)
            x.grad = None if k in skip else fw.tensor(grad, device=self.gpu) * 2
            y.grad = None if k in skip else torch.tensor(grad) * 2

    def step(self, times: int = 1, skip: Sequence[int] = ()) -> None:
        for _ in range(times):
            self.gradients(skip)
            self.optimizer.step()
            self.peer.step()

    def check(self) -> None:
        for x, y in zip(self.mine, self.others):
            assert_close(x, y.detach().numpy(), scale=2)


@pytest.fixture
def pair(gpu: GpuDevice, rng: np.random.Generator) -> Pair:
    """A pair that is far enough to have a step ready."""
    made = Pair(gpu, rng)
    made.step(4)
    assert made.optimizer.lengthy == 2
    return made


OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (AdamW, {}),
    (AdamW, {"weight_decay": 0}),
    (SGD, {}),
    (SGD, {"weight_decay": 0.1}),
    (SGD, {"momentum": 0.9, "dampening": 0.5}),
    (SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_most_steps_ask_for_nothing_anew(
    kind: Any, options: dict[str, Any], gpu: GpuDevice, rng: np.random.Generator
) -> None:
    made = Pair(gpu, rng, kind, **options)
    made.step(20)
    made.check()
    assert made.optimizer.lengthy <= 2


@pytest.mark.core
def test_gradients_and_step_are_one_submission(pair: Pair) -> None:
    counters, uploads = pair.gpu.gpu.counters, []
    for _ in range(8):
        pair.gradients()
        before = counters.snapshot()
        pair.optimizer.step()
        change = counters.snapshot() - before
        assert (change.submits, change.host_reads) == (1, 0)
        uploads.append(change.uploads)
    # Addresses that the pool gives a second time are uploaded with what is recorded.
    assert {*uploads} <= {0, 1}
    assert not all(uploads)
    assert pair.optimizer.lengthy == 2


def test_learning_rates_are_read_each_time(pair: Pair) -> None:
    for lr in (0.1, 0.01, 0.3):
        pair.optimizer.param_groups[0]["lr"] = lr
        pair.peer.param_groups[0]["lr"] = lr
        pair.step()
    pair.check()
    assert pair.optimizer.lengthy == 2


@pytest.mark.parametrize(
    ("name", "value"), [("betas", (0.5, 0.6)), ("weight_decay", 0.5), ("eps", 0.1)]
)
def test_changed_options_take_effect(pair: Pair, name: str, value: Any) -> None:
    pair.optimizer.param_groups[0][name] = value
    pair.peer.param_groups[0][name] = value
    pair.step(3)
    pair.check()


def test_parameters_without_gradients_are_left_alone(pair: Pair) -> None:
    for skip in ((1,), (), (0, 2), (0, 1, 2, 3), ()):
        pair.step(2, skip)
    pair.check()


def test_groups_may_be_added(
    pair: Pair, gpu: GpuDevice, rng: np.random.Generator
) -> None:
    array = rng.normal(size=6).astype(np.float32)
    pair.mine.append(fw.tensor(array, device=gpu, requires_grad=True))
    pair.others.append(torch.tensor(array, requires_grad=True))
    pair.optimizer.add_param_group({"params": pair.mine[-1], "lr": 0.5})
    pair.peer.add_param_group({"params": pair.others[-1], "lr": 0.5})
    pair.step(4)
    pair.check()


def test_parameters_may_get_other_elements(pair: Pair) -> None:
    with fw.no_grad(), torch.no_grad():
        pair.mine[0].clamp_(-0.5, 0.5)
        pair.others[0].clamp_(-0.5, 0.5)
        pair.mine[1].copy_(fw.ones(7, device=pair.gpu))
        pair.others[1].fill_(1)
    pair.step(2)
    with fw.no_grad():
        # Two storages share the elements until the step.
        pair.mine[0].copy_(pair.mine[0].alias())
    pair.step(2)
    pair.check()


def test_what_shares_elements_keeps_them(pair: Pair) -> None:
    held = [x.alias() for x in pair.mine]
    expected = [x.detach().numpy() for x in pair.mine]
    pair.step(3)
    for x, array in zip(held, expected):
        assert_close(x, array)
    pair.check()


def test_what_is_pending_reads_what_was_there(pair: Pair) -> None:
    expected = pair.mine[0].detach().numpy() * 3
    pending = pair.mine[0].detach() * 3
    pair.step()
    assert pair.optimizer.lengthy == 2
    assert_close(pending, expected)
    pair.check()


def test_a_saved_tensor_was_changed(pair: Pair) -> None:
    y = (pair.mine[0] * pair.mine[0]).sum()
    pair.step()
    assert pair.optimizer.lengthy == 2
    with pytest.raises(GradError, match="changed in place"):
        y.backward()


def test_gradients_may_be_parameters(pair: Pair) -> None:
    """One that is changed by the same step cannot be read by it elsewhere."""
    for x, y in ((pair.mine[1], pair.others[1]), (pair.mine[0], pair.others[0])):
        pair.gradients()
        x.grad, y.grad = x.detach(), y.detach().clone()
        pair.optimizer.step()
        pair.peer.step()
    pair.step(2)
    pair.check()


def test_gradients_may_share_a_tensor(gpu: GpuDevice) -> None:
    xs = [fw.ones(3, device=gpu, requires_grad=True) for _ in range(2)]
    optimizer = SGD(xs, lr=1.0)
    same = fw.ones(3, device=gpu)
    for shared in (True, True, True, False, False, True):
        for k, x in enumerate(xs):
            x.grad = same if shared else fw.full(3, k + 1.0, device=gpu)
        optimizer.step()
    assert [x.tolist()[0] for x in xs] == [-5.0, -7.0]


def test_gradients_may_be_views_of_more(gpu: GpuDevice) -> None:
    whole = fw.tensor(np.arange(12, dtype=np.float32), device=gpu)
    xs = [fw.zeros(3, device=gpu, requires_grad=True) for _ in range(2)]
    optimizer = SGD(xs, lr=1.0)
    for _ in range(5):
        whole = whole + 1
        for k, x in enumerate(xs):
            x.grad = whole[3 * k : 3 * k + 3]
        optimizer.step()
    assert [x.tolist() for x in xs] == [[-15, -20, -25], [-30, -35, -40]]
    assert optimizer.lengthy <= 2


def test_gradients_may_be_clipped(pair: Pair) -> None:
    for _ in range(3):
        pair.gradients()
        optim.clip_grad_norm_(pair.mine, 0.5)
        torch.nn.utils.clip_grad_norm_(pair.others, 0.5)
        pair.optimizer.step()
        pair.peer.step()
    pair.check()
    assert pair.optimizer.lengthy == 2


def test_a_state_is_loaded(pair: Pair) -> None:
    state, peer_state = pair.optimizer.state_dict(), pair.peer.state_dict()
    state, peer_state = copy.deepcopy(state), copy.deepcopy(peer_state)
    pair.step(3)
    pair.optimizer.load_state_dict(state)
    pair.peer.load_state_dict(peer_state)
    pair.step(3)
    pair.check()


def test_state_that_others_see_is_theirs_to_change(pair: Pair) -> None:
    seen = pair.optimizer.state[pair.mine[0]]
    pair.step(2)
    assert seen["step"] == 6
    seen["step"] = pair.peer.state[pair.others[0]]["step"] = torch.tensor(1.0)
    seen["step"] = 1
    pair.step(2)
    pair.check()
    for tensors in ((seen, pair.mine[0]), (None, pair.others[0])):
        state, x = tensors
        if state is None:
            pair.peer.state[x]["exp_avg"] = torch.ones(x.shape)
        else:
            state["exp_avg"] = fw.ones(x.shape, device=pair.gpu)
    pair.step(2)
    pair.check()


def test_replays_and_steps_take_turns(gpu: GpuDevice, rng: Any) -> None:
    # One that counts its steps changes what a replay would not.
    pair = Pair(gpu, rng, optim.AdamW)
    pair.step(4)
    x = fw.tensor(np.ones((4, 5), np.float32), device=pair.gpu)
    y = torch.ones(4, 5)

    @fw.jit
    def replayed(x: fw.Tensor) -> fw.Tensor:
        pair.optimizer.zero_grad()
        loss = (x @ pair.mine[0].mT).sum() + (pair.mine[1] * pair.mine[2]).sum()
        loss.backward()
        pair.optimizer.step()
        return loss.detach()

    for round_ in range(3):
        for _ in range(3):
            found = replayed(x)
            pair.peer.zero_grad()
            expected = (y @ pair.others[0].mT).sum()
            expected = expected + (pair.others[1] * pair.others[2]).sum()
            expected.backward()
            pair.peer.step()
            assert_close(found, expected.detach().numpy(), scale=8)
        pair.step(3 + round_, skip=(3,) if round_ else ())
    for mine, other in zip(pair.mine, pair.others):
        assert_close(mine, other.detach().numpy(), scale=8)


def test_a_copied_optimizer_goes_on_alone(pair: Pair) -> None:
    x = pair.mine[0]
    before = x.detach().numpy()
    other = copy.deepcopy(pair.optimizer)
    for parameter in other.param_groups[0]["params"]:
        parameter.grad = fw.ones_like(parameter.detach())
    other.step()
    assert_close(x, before)
    assert not np.allclose(other.param_groups[0]["params"][0].detach().numpy(), before)
    pair.step(2)
    pair.check()


def test_more_parameters_than_a_graph_holds(gpu: GpuDevice) -> None:
    count = MAX_PENDING // 3 + 20
    xs = [fw.full(3, float(n), device=gpu, requires_grad=True) for n in range(count)]
    evaluate(*xs)
    optimizer = AdamW(xs, lr=0.5, weight_decay=0.0)
    one = fw.ones(3, device=gpu)
    for _ in range(4):
        for x in xs:
            x.grad = one.clone()
        optimizer.step()
    for n in range(0, count, 40):
        assert_close(xs[n], np.full(3, n - 2.0, np.float32), scale=16)
    assert optimizer.lengthy == 2


def test_half_precision_and_other_layouts(
    gpu: GpuDevice, rng: np.random.Generator
) -> None:
    array = rng.normal(size=(4, 6)).astype(np.float16)
    x = fw.tensor(array, device=gpu, requires_grad=True)
    y = fw.tensor(array, requires_grad=True)
    mine, host = AdamW([x], lr=0.1), optim.AdamW([y], lr=0.1)
    for k in range(6):
        grad = rng.normal(size=(4, 6)).astype(np.float16)
        turned = fw.tensor(np.ascontiguousarray(grad.T), device=gpu).mT
        x.grad = turned if k % 3 else fw.tensor(grad, device=gpu)
        y.grad = fw.tensor(grad)
        mine.step()
        host.step()
    assert_close(x, y.detach().numpy(), scale=4)


def test_a_failed_graph_leaves_parameters_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.gradients()
    before = [x.array.value for x in pair.mine]

    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("no plan")

    with monkeypatch.context() as patch:
        patch.setattr("vkbackend.framework.scheduler.scheduler._plan_for", fail)
        with pytest.raises(RuntimeError, match="no plan"):
            pair.optimizer.step()
    assert [x.array.value for x in pair.mine] == before
    pair.step(2)
    state = pair.optimizer.state[pair.mine[0]]
    assert state["step"] == 6


@pytest.mark.parametrize("taken", [False, True])
def test_an_interrupted_step_counts_if_it_was_made(
    taken: bool, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.step(3)
    pair.gradients()
    before = [x.tolist() for x in pair.mine]
    submit = vkbackend.Batch.submit

    def interrupted(batch: vkbackend.Batch) -> None:
        if taken:
            submit(batch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(vkbackend.Batch, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pair.optimizer.step()
    assert ([x.tolist() for x in pair.mine] != before) is taken
    states = pair.optimizer.state_dict()["state"].values()
    counts = {state["step"] for state in states if "step" in state}
    assert counts <= {7 + taken}, counts


@pytest.mark.usefixtures("_no_collector")
def test_an_optimizer_is_freed_with_its_last_reference(pair: Pair) -> None:
    """A step that is kept ready makes no cycle, which would keep moments alive."""
    pair.step()
    moment = weakref.ref(pair.optimizer.state[pair.mine[0]]["exp_avg"])
    optimizer = weakref.ref(pair.optimizer)
    assert moment() is not None
    del pair.optimizer
    assert (optimizer(), moment()) == (None, None)


def test_gradients_are_not_kept_until_the_next_step(pair: Pair) -> None:
    pair.step()
    grads = [weakref.ref(x.grad.array.value.buffer) for x in pair.mine]
    pair.optimizer.zero_grad()
    assert [grad() for grad in grads] == [None] * len(grads)
