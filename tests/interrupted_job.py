"""Training job with every kind of in-place state, for `tests.interrupts`."""

from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device

State = dict[str, np.ndarray]

STEPS = 24
"""Steps of the longest training."""


class Job:
    """A small training with all that is changed in place: see `arrays`.

    Parameters
    ----------
    device : Device
    name : str
        "AdamW", or "SGD" with momentum and scaled losses.
    jitted : bool
    """

    def __init__(self, device: Device, name: str, jitted: bool) -> None:
        self.device, self.name, self.jitted = device, name, jitted
        fw.manual_seed(7)
        self.model = nn.Sequential(
            nn.Linear(6, 8),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Dropout(0.25),
            nn.Linear(8, 3),
        ).to(device)
        params = list(self.model.parameters())
        self.average = [each.detach().clone() for each in params]
        if name == "AdamW":
            self.optimizer: Any = optim.AdamW(params, lr=0.01)
        else:
            self.optimizer = optim.SGD(params, lr=0.05, momentum=0.9)
        self.scaler = fw.GradScaler(init_scale=256.0, enabled=name != "AdamW")
        self.fresh_step()
        rng = np.random.default_rng(3)
        self.inputs = [
            (
                fw.tensor(rng.normal(size=(5, 6)).astype(np.float32), device=device),
                fw.tensor(rng.integers(0, 3, 5).astype(np.int32), device=device),
            )
            for _ in range(STEPS)
        ]
        fw.eval()

    def fresh_step(self) -> None:
        """Forget what has been traced."""
        self.call: Any = fw.jit(self.made) if self.jitted else self.made

    def made(self, x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        """Make one step and return the loss."""
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimizer)
        optim.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with fw.no_grad():
            for mean, parameter in zip(self.average, self.model.parameters()):
                mean.lerp_(parameter, 0.1)
        return loss.detach()

    def step(self, number: int) -> float:
        """Make a step and read its loss."""
        return float(self.call(*self.inputs[number]).item())

    def arrays(self) -> State:
        """Read everything that steps change."""
        found = {name: each.numpy() for name, each in self.model.state_dict().items()}
        for number, each in enumerate(self.average):
            found[f"average {number}"] = each.numpy()
        for number, state in self.optimizer.state_dict()["state"].items():
            for name, each in state.items():
                if isinstance(each, fw.Tensor):
                    found[f"{name} {number}"] = each.numpy()
        if self.scaler.is_enabled():
            state = self.scaler.state_dict()
            found["scale"] = np.array(state["scale"])
            found["growth"] = np.array(state["_growth_tracker"])
        return found

    def gradients(self) -> list[str]:
        """Return what reading gradients says where they cannot be read."""
        said = []
        for parameter in self.model.parameters():
            try:
                if parameter.grad is not None:
                    parameter.grad.numpy()
            except RuntimeError as error:
                said.append(f"gradient: {error}")
        return said

    def checkpoint(self) -> dict[str, Any]:
        """Return copies of everything that a training goes on from."""
        optimizer = self.optimizer.state_dict()
        return {
            "model": {k: v.clone() for k, v in self.model.state_dict().items()},
            "average": [each.clone() for each in self.average],
            "optimizer": {
                **optimizer,
                "state": {
                    number: {
                        name: each.clone() if isinstance(each, fw.Tensor) else each
                        for name, each in state.items()
                    }
                    for number, state in optimizer["state"].items()
                },
            },
            "scaler": self.scaler.state_dict(),
            "random": fw.get_rng_state(),
        }

    def load(self, checkpoint: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        # Of copies, as what shares its elements cannot be replayed.
        model = {name: each.clone() for name, each in checkpoint["model"].items()}
        self.model.load_state_dict(model)
        with fw.no_grad():
            for mean, each in zip(self.average, checkpoint["average"]):
                mean.copy_(each.clone())
        del model
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.scaler.load_state_dict(checkpoint["scaler"])
        fw.set_rng_state(checkpoint["random"])
        fw.eval()


class Reference:
    """What a training holds after each step that nothing interrupts."""

    def __init__(self, device: Device, name: str, jitted: bool) -> None:
        job = Job(device, name, jitted)
        self.states = [job.arrays()]
        # The first step makes room for what it remembers.
        job.step(0)
        self.states.append(job.arrays())
        self.checkpoint = job.checkpoint()
        for number in range(1, STEPS):
            job.step(number)
            self.states.append(job.arrays())


def wrong(found: State, *allowed: State) -> list[str]:
    """Return the arrays that are equal to none of some states, to the bit."""
    return [
        name
        for name, each in found.items()
        if not any(
            name in state and each.tobytes() == state[name].tobytes()
            for state in allowed
        )
    ]
