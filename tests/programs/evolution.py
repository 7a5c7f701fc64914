"""Evolution strategies and CMA-ES on a network's vector of parameters: ranks, vmapped populations, eigenvectors, no gradients."""

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def unflatten(model, vector):
    found, at = {}, 0
    for name, p in model.named_parameters():
        found[name] = vector[at : at + p.numel()].view(p.shape)
        at += p.numel()
    return found


def centered_ranks(x):
    ranks = torch.empty_like(x)
    ranks[x.argsort()] = torch.arange(len(x), device=x.device, dtype=x.dtype)
    return ranks / (len(x) - 1) - 0.5


@torch.no_grad()
def train(steps):
    model = seeded(Policy()).to(device)
    x = torch.from_numpy(normal(10, 3)).to(device)
    y = x.prod(1, keepdim=True).sign() * 0.5 + x[:, :1]
    mean = parameters_to_vector(model.parameters())
    n, population = mean.numel(), 12

    def cost(vector):
        return (
            (functional_call(model, unflatten(model, vector), (x,)) - y).square().mean()
        )

    costs = vmap(cost)
    velocity = torch.zeros_like(mean)
    results = [float(n)]
    weights = torch.log(torch.tensor(population / 2 + 0.5)) - torch.log(
        torch.arange(1, population // 2 + 1)
    )
    weights = (weights / weights.sum()).to(device)
    mu_eff = 1 / weights.pow(2).sum().item()
    C, sigma = torch.eye(n, device=device), 0.3
    p_c, p_s = mean.new_zeros(n), mean.new_zeros(n)
    c_c, c_s, c_1 = (
        4 / (n + 4),
        (mu_eff + 2) / (n + mu_eff + 5),
        2 / ((n + 1.3) ** 2 + mu_eff),
    )
    c_mu = min(1 - c_1, 2 * (mu_eff - 2 + 1 / mu_eff) / ((n + 2) ** 2 + mu_eff))
    chi = n**0.5 * (1 - 1 / (4 * n) + 1 / (21 * n**2))
    center = mean.clone()
    for step in range(steps):
        noise = torch.from_numpy(normal(population // 2, n, seed=step)).to(device)
        noise = torch.vstack([noise, -noise])
        shaped = centered_ranks(costs(mean + 0.1 * noise))
        gradient = torch.addmv(
            0.01 * mean, noise.t(), shaped, alpha=1 / (population * 0.1)
        )
        velocity.mul_(0.9).add_(gradient, alpha=-0.05)
        mean += velocity
        results.append(cost(mean).item())

        draws = torch.from_numpy(normal(population, n, seed=50 + step)).to(device)
        root = torch.linalg.cholesky(C)
        steps_ = draws @ root.mT
        found = costs(center + sigma * steps_)
        chosen = torch.topk(found, population // 2, largest=False, sorted=True).indices
        best = steps_[chosen]
        move = weights @ best
        center = center + sigma * move
        values, vectors = torch.linalg.eigh(C)
        white = vectors @ torch.diag(values.rsqrt()) @ vectors.mT @ move
        p_s = (1 - c_s) * p_s + np.sqrt(c_s * (2 - c_s) * mu_eff) * white
        p_c.lerp_(move * np.sqrt((2 - c_c) / c_c * mu_eff), c_c)
        rank_mu = torch.einsum("k,ki,kj->ij", weights, best, best)
        C = (1 - c_1 - c_mu) * C + c_1 * torch.outer(p_c, p_c) + c_mu * rank_mu
        C = torch.triu(C) + torch.triu(C, 1).mT
        sigma *= float(torch.exp(c_s * (p_s.norm() / chi - 1)))
        results += [cost(center).item(), sigma]
    vector_to_parameters(mean, model.parameters())
    results += [(model(x) - y).square().mean().item(), torch.logdet(C).item()]
    return results
