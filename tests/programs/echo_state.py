"""An echo state network: spectral radii by complex eigenvalues, ridge regression by least squares, then a readout by RLS and Adagrad."""

import torch
from torch import nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Reservoir(nn.Module):
    def __init__(self, inputs, size, radius=0.9, leak=0.3, density=0.4):
        super().__init__()
        W = torch.from_numpy(normal(size, size))
        W = W * (torch.from_numpy(normal(size, size, seed=8)) > 0.25)
        W *= radius / torch.linalg.eigvals(W).abs().max()
        self.register_buffer("W", W)
        self.register_buffer(
            "W_in", torch.from_numpy(normal(size, inputs, seed=9)) * 0.5
        )
        self.register_buffer("state", torch.zeros(size), persistent=False)
        self.leak = leak

    @torch.no_grad()
    def forward(self, u):
        states = []
        for row in u.unbind(0):
            pre = torch.addmv(self.W_in @ row, self.W, self.state)
            self.state.mul_(1 - self.leak).add_(pre.tanh_(), alpha=self.leak)
            states.append(self.state.clone())
        return torch.stack(states)


def narma(n):
    u = torch.from_numpy(normal(n)).abs().mul(0.25).clamp_(max=0.5)
    y = torch.zeros_like(u)
    for t in range(4, n):
        y[t] = (
            0.3 * y[t - 1]
            + 0.05 * y[t - 1] * y[t - 4 : t].sum()
            + 1.5 * u[t - 4] * u[t - 1]
            + 0.1
        )
    return u[:, None], y


def train(steps):
    u, y = narma(80)
    reservoir = Reservoir(1, 16).to(device)
    results = [
        torch.linalg.eigvals(reservoir.W).abs().max().item(),
        torch.linalg.cond(reservoir.W).log10().item(),
    ]
    X = reservoir(u.to(device))[20:]
    Y = y.to(device)[20:, None]
    X = torch.hstack([X, torch.ones(len(X), 1, device=device)])
    ridge = 1e-2 * torch.eye(X.size(1), device=device)
    W = torch.linalg.solve(X.mT @ X + ridge, X.mT @ Y)
    stacked = torch.vstack([X, ridge.sqrt()])
    other = torch.linalg.lstsq(
        stacked, torch.vstack([Y, Y.new_zeros(len(ridge), 1)])
    ).solution
    results += [
        (X @ W - Y).square().mean().item(),
        (X @ other - Y).square().mean().item(),
    ]
    P, w = 10 * torch.eye(X.size(1), device=device), torch.zeros_like(W)
    for x, t in zip(X.split(1), Y):
        g = P @ x.mT / (0.99 + x @ P @ x.mT)
        w = w + g * (t - x @ w)
        P = (P - g @ x @ P) / 0.99
    results.append((X @ w - Y).square().mean().item())
    readout = seeded(nn.Linear(X.size(1), 1)).to(device)
    optimizer = torch.optim.Adagrad(
        readout.parameters(), lr=0.05, lr_decay=0.01, initial_accumulator_value=0.1
    )
    for _ in range(steps):
        loss = nn.functional.mse_loss(readout(X), Y) + 1e-3 * readout.weight.abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    U, S, Vh = torch.linalg.svd(X - X.mean(0), full_matrices=False)
    share = S.square().cumsum(0) / S.square().sum()
    results += [
        share[:3].sum().item(),
        float((share < 0.99).sum()),
        ((U * S) @ Vh).abs().mean().item(),
    ]
    spectrum = torch.fft.rfft(X[:, 0]).abs()
    results += [spectrum.argmax().item() * 1.0, spectrum[1:5].sum().item()]
    autocorrelation = nn.functional.conv1d(Y.T[None], Y.T[None, :, 5:-5]).flatten()
    return [*results, autocorrelation.mean().item()]
