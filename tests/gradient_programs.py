"""Programs whose gradients are not plain, written for PyTorch: they log their losses.

Each is given the library and a device.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.default_rng(0)
SHAPES = ((8, 2), (8,), (1, 8), (1,))
WEIGHTS = [_RNG.standard_normal(shape).astype(np.float32) * 0.5 for shape in SHAPES]
POINTS = _RNG.standard_normal((16, 2)).astype(np.float32)


def network(lib: Any, device: Any) -> Any:
    """Return a network of two layers, the same with each library."""
    nn = lib.nn
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    with lib.no_grad():
        for parameter, weight in zip(model.parameters(), WEIGHTS):
            parameter.copy_(lib.tensor(weight, device=device))
    return model


def gradient_penalty(lib: Any, device: Any) -> list[float]:
    """Train the critic of a WGAN-GP."""
    critic = network(lib, device)
    optimizer = lib.optim.Adam(critic.parameters(), lr=1e-2, betas=(0.5, 0.9))
    real = lib.tensor(POINTS, device=device)
    losses = []
    for _ in range(3):
        fake = real * 0.5 + 1
        between = (0.3 * real + 0.7 * fake).requires_grad_(True)
        scores = critic(between)
        slope = lib.autograd.grad(
            outputs=scores,
            inputs=between,
            grad_outputs=lib.ones_like(scores),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )[0]
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def physics(lib: Any, device: Any) -> list[float]:
    """Fit a network to Burgers' equation."""
    model = network(lib, device)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        place = lib.tensor(POINTS, device=device, requires_grad=True)
        u = model(place)
        first = lib.autograd.grad(u.sum(), place, create_graph=True)[0]
        second = lib.autograd.grad(first[:, 0].sum(), place, create_graph=True)[0]
        residual = first[:, 1] - 0.1 * second[:, 0] + u.squeeze(1) * first[:, 0]
        loss = (residual**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def meta_learning(lib: Any, device: Any) -> list[float]:
    """Differentiate through steps of gradient descent, as MAML does."""
    model = network(lib, device)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    x = lib.tensor(POINTS, device=device)
    losses = []
    for _ in range(3):
        total = 0
        for task in (1, 2):
            fast = dict(model.named_parameters())
            for _ in range(2):
                answer = lib.func.functional_call(model, fast, (x,))
                loss = ((answer - task * x[:, :1]) ** 2).mean()
                grads = lib.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {
                    name: each - 0.1 * grad
                    for (name, each), grad in zip(fast.items(), grads)
                }
            answer = lib.func.functional_call(model, fast, (x,))
            total = total + ((answer - task * x[:, :1]) ** 2).mean()
        optimizer.zero_grad()
        total.backward()  # type: ignore[attr-defined]  # a tensor by now
        optimizer.step()
        losses.append(total.item())  # type: ignore[attr-defined]
    return losses


def straight_through(lib: Any, device: Any) -> list[float]:
    """Train through signs, and a layer that reverses gradients."""

    class Sign(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return lib.sign(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            answer = grad.clone()
            answer[x.abs() > 1] = 0
            return answer

    class Reversed(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.factor = factor
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.neg() * ctx.factor, None

    model = network(lib, device)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = lib.tensor(POINTS, device=device)
    losses = []
    for _ in range(3):
        hidden = Sign.apply(model[0](x))
        loss = (model[2](Reversed.apply(hidden, 0.5)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def private(lib: Any, device: Any) -> list[float]:
    """Clip the gradient of each sample, as differentially private training does."""
    model = network(lib, device)
    x = lib.tensor(POINTS, device=device)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        answer = lib.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return ((answer - y.unsqueeze(0)) ** 2).mean()

    per_sample = lib.func.vmap(lib.func.grad_and_value(loss), in_dims=(None, 0, 0))
    losses = []
    for _ in range(3):
        state = {name: each.detach() for name, each in model.named_parameters()}
        grads, values = per_sample(state, x, x[:, :1])
        losses.append(values.mean().item())
        norms = [each.flatten(1).norm(dim=1) for each in grads.values()]
        scale = (1.0 / (lib.stack(norms, 1).norm(dim=1) + 1e-6)).clamp(max=1.0)
        with lib.no_grad():
            for name, parameter in model.named_parameters():
                parameter -= lib.einsum("n,n...->...", scale, grads[name]) * 0.1 / 16
    return losses


def adjoint(lib: Any, device: Any) -> list[float]:
    """Train an ordinary differential equation by its adjoint, a pass within a pass."""
    model = network(lib, device)

    class Solve(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, y: Any, *parameters: Any) -> Any:
            for _ in range(4):
                y = y + 0.1 * model(y).expand_as(y)
            ctx.save_for_backward(y, *parameters)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            y, *parameters = ctx.saved_tensors
            sums = [lib.zeros_like(each) for each in parameters]
            for _ in range(4):
                with lib.enable_grad():
                    at = y.detach().requires_grad_(True)
                    slope = model(at).expand_as(at)
                    own, *others = lib.autograd.grad(slope, [at, *parameters], grad)
                y, grad = y - 0.1 * slope.detach(), grad + 0.1 * own
                sums = [each + 0.1 * other for each, other in zip(sums, others)]
            return (grad, *sums)

    optimizer = lib.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        start = lib.tensor(POINTS, device=device)
        loss = (Solve.apply(start, *model.parameters()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def steps_in_hooks(lib: Any, device: Any) -> list[float]:
    """Step each parameter as soon as its gradient is there."""
    model = network(lib, device)
    x = lib.tensor(POINTS, device=device)

    def step(parameter: Any) -> None:
        with lib.no_grad():
            parameter.sub_(0.1 * parameter.grad)
            parameter.grad = None

    handles = [
        each.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
        for each in model.parameters()
    ]
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(step)
    losses = []
    for at in range(4):
        if at == 2:
            for handle in handles:
                handle.remove()
        loss = (model(x) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
    return losses


PROGRAMS: list[Callable[[Any, Any], list[float]]] = [
    gradient_penalty,
    physics,
    meta_learning,
    straight_through,
    private,
    adjoint,
    steps_in_hooks,
]
