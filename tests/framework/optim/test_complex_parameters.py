"""Complex parameters take the steps of PyTorch, and their states go both ways."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, Device
from vkbackend.framework.base.errors import DTypeError

RNG = np.random.default_rng(0)
W, X = (
    (RNG.standard_normal((2, *shape)).astype(np.float32) * [[[1]], [[1j]]]).sum(0)
    for shape in ((3, 4), (5, 3))
)
R = RNG.standard_normal(4).astype(np.float32)

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adadelta": {}, "Adagrad": {}, "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "Adamax": {}, "AdamW": {"maximize": True}, "ASGD": {}, "NAdam": {}, "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "Rprop": {},
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "LBFGS": {"max_iter": 4},
}  # fmt: skip


class Run:
    """Training of a complex and a real parameter by one of the libraries."""

    def __init__(self, name: str, t: Any, **place: Any) -> None:
        self.t, self.place = t, place
        self.w, self.r, self.x = (
            t.tensor(each, **place) for each in (W.astype("c8"), R, X.astype("c8"))
        )
        params = [self.w.requires_grad_(), self.r.requires_grad_()]
        self.optimizer = getattr(t.optim, name)(params, lr=0.02, **OPTIMIZERS[name])
        self.lbfgs = name == "LBFGS"

    def loss(self) -> Any:
        """Return the loss, with new gradients."""
        self.optimizer.zero_grad()
        error = (self.x @ self.w) * self.r - self.x[:, :1] * 1j
        loss = (error.abs() ** 2).mean() + 0.1 * (
            (self.w.real - self.w.imag) ** 2
        ).sum()
        loss.backward()
        return loss

    def step(self) -> None:
        """Take a step, of clipped gradients where the optimizer does not ask itself."""
        if self.lbfgs:
            self.optimizer.step(self.loss)
        else:
            self.loss()
            self.t.nn.utils.clip_grad_norm_([self.w, self.r], 0.5)
            self.optimizer.step()

    def steps(self, count: int) -> None:
        """Take steps."""
        for _ in range(count):
            self.step()

    def load(self, other: "Run") -> None:
        """Take the parameters and the state of another library's."""
        with self.t.no_grad():
            for one, two in ((self.w, other.w), (self.r, other.r)):
                one.copy_(self.t.tensor(two.detach().numpy()))
        found = other.optimizer.state_dict()
        state = {
            number: {name: self._own(each) for name, each in entry.items()}
            for number, entry in found["state"].items()
        }
        self.optimizer.load_state_dict({**found, "state": state})

    def _own(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor | fw.Tensor):
            return self.t.tensor(value.detach().numpy())
        if isinstance(value, list):
            return [self._own(each) for each in value]
        number = isinstance(value, int | float) and not self.lbfgs
        return self.t.tensor(float(value)) if number else value


def agree(one: Run, two: Run) -> None:
    """Compare parameters, and the dtype of their state."""
    for ours, theirs in ((one.w, two.w), (one.r, two.r)):
        wanted = theirs.detach().numpy()
        assert np.allclose(ours.detach().numpy(), wanted, 1e-5, 1e-5)
    for number, entry in one.optimizer.state_dict()["state"].items():
        known = two.optimizer.state_dict()["state"][number]
        for name, value in entry.items():
            if isinstance(value, fw.Tensor) and value.ndim:
                assert str(value.dtype).rpartition(".")[2] == str(known[name].dtype)[6:]


@pytest.mark.parametrize(
    "name",
    [each if each in ("Adam", "Rprop", "SGD") else
     pytest.param(each, marks=pytest.mark.wide) for each in OPTIMIZERS],
)  # fmt: skip
def test_steps_are_those_of_pytorch(name: str) -> None:
    ours, theirs = Run(name, fw), Run(name, torch)
    count = 3 if name == "LBFGS" else 20  # each of several evaluations
    ours.steps(count)
    theirs.steps(count)
    agree(ours, theirs)
    if name == "LBFGS":
        return
    other = Run(name, fw)
    other.load(theirs)
    theirs.load(ours)
    other.steps(3)
    theirs.steps(3)
    agree(other, theirs)


@pytest.mark.parametrize(
    "name", ["Adam", *[pytest.param(each, marks=pytest.mark.wide) for each in ("SGD",)]]
)
@pytest.mark.parametrize("replayed", [False, True])
def test_steps_on_a_device(name: str, replayed: bool, gpu: Device) -> None:
    ours, theirs = Run(name, fw, device=gpu), Run(name, torch)
    step = fw.jit(ours.step) if replayed else ours.step
    for _ in range(4):
        step()
    theirs.steps(4)
    agree(ours, theirs)


def test_scaled_gradients_and_averages(gpu: Device) -> None:
    run = Run("Adam", fw, device=gpu)
    scaler = fw.amp.GradScaler(init_scale=4.0)
    averaged = fw.zeros_like(run.w).detach()
    ema = fw.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    for scale in (4.0, float("inf"), 2.0):
        run.loss()
        before, grad = run.w.detach().numpy(), run.w.grad.numpy()
        run.w.grad.mul_(scale)
        run.r.grad.mul_(scale)
        scaler.unscale_(run.optimizer)
        if scale != float("inf"):
            assert np.allclose(run.w.grad.numpy(), grad, 1e-6)
        scaler.step(run.optimizer)
        scaler.update()
        skipped = np.array_equal(run.w.detach().numpy(), before)
        assert skipped == (scale == float("inf"))
    ema([averaged], [run.w.detach()], 1)
    assert np.allclose(averaged.numpy(), run.w.detach().numpy() / 2)


def test_what_takes_no_complex_parameters() -> None:
    z = fw.ones(2, 2, dtype=fw.complex64, device=CPU).requires_grad_()
    for kind in (fw.optim.Adafactor, fw.optim.Muon):
        with pytest.raises(DTypeError, match="a parameter is complex64"):
            kind([z], 0.1)
    x = fw.ones(2, 2, device=CPU).requires_grad_()
    (x * z).abs().sum().backward()
    optimizers = [fw.optim.SGD([each], 0.1, momentum=0.5) for each in (z, x)]
    for each in optimizers:
        each.step()
    with pytest.raises(DTypeError, match="a part would be lost"):
        optimizers[1].load_state_dict(optimizers[0].state_dict())
