"""A generative flow network: trajectory balance on a grid, log-space bookkeeping."""

import functools

import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Categorical

from tests.programs.seeding import seeded

device = torch.device("cpu")


class HyperGrid:
    def __init__(self, dim=2, height=5):
        self.dim, self.height = dim, height
        self.n_actions = dim + 1

    def reward(self, states):
        x = (states.float() / (self.height - 1) - 0.5).abs()
        inner = torch.logical_and(x > 0.3, x < 0.4).all(-1)
        return 0.1 + 0.5 * (x > 0.25).all(dim=-1).float() + 2.0 * inner

    def encode(self, states):
        return nn.functional.one_hot(states, self.height).flatten(-2).float()

    def masks(self, states):
        forward = torch.ones(*states.shape[:-1], self.n_actions, dtype=torch.bool)
        forward = forward.to(states.device)
        forward[..., :-1] = states < self.height - 1
        return forward, states > 0


class Policy(nn.Module):
    def __init__(self, env, width=24):
        super().__init__()
        self.env = env
        self.trunk = nn.Sequential(
            nn.Linear(env.dim * env.height, width), nn.LeakyReLU(),
            nn.Linear(width, width), nn.LeakyReLU(),
        )  # fmt: skip
        self.pf, self.pb = nn.Linear(width, env.n_actions), nn.Linear(width, env.dim)
        self.logZ = nn.Parameter(torch.tensor(0.0))

    def forward(self, states):
        h = self.trunk(self.env.encode(states))
        forward, backward = self.env.masks(states)
        pf = self.pf(h).masked_fill(~forward, float("-inf"))
        pb = self.pb(h).masked_fill(backward.logical_not(), -torch.inf)
        return pf, pb


def rollout(policy, env, batch, rng):
    states = torch.zeros(batch, env.dim, dtype=torch.long, device=device)
    done = torch.zeros(batch, dtype=torch.bool, device=device)
    log_pf = torch.zeros(batch, device=device)
    log_pb = torch.zeros_like(log_pf)
    while not done.all():
        live = ~done
        pf, _ = policy(states[live])
        dist = Categorical(logits=pf)
        # Inverse transform, so that every library draws the same.
        u = torch.from_numpy(rng.random((len(pf), 1), np.float32)).to(device)
        actions = torch.searchsorted(dist.probs.detach().cumsum(-1), u).squeeze(-1)
        actions.clamp_(max=env.n_actions - 1)
        log_pf = log_pf.masked_scatter(live, log_pf[live] + dist.log_prob(actions))
        moved = torch.nonzero(live, as_tuple=True)[0]
        stops = actions == env.dim
        done[moved[stops]] = True
        moving = moved[~stops]
        if moving.numel():
            step = actions[~stops]
            states = states.index_put(
                (moving, step), torch.ones_like(step), accumulate=True
            )
            _, pb = policy(states[moving])
            chosen = pb.log_softmax(-1).gather(1, step.unsqueeze(1)).squeeze(1)
            log_pb = log_pb.index_add(0, moving, chosen)
    return states, log_pf, log_pb


@functools.lru_cache(maxsize=None)
def all_states(env):
    axis = torch.arange(env.height)
    return torch.cartesian_prod(*[axis] * env.dim)


@torch.no_grad()
def exact_distribution(policy, env):
    """Return the probability with which the policy stops at each state."""
    states = all_states(env).to(device)
    pf, _ = policy(states)
    p = pf.softmax(-1).reshape(*[env.height] * env.dim, -1)
    visits = torch.zeros(env.height, env.height, device=device)
    visits[0, 0] = 1
    for i in range(env.height):
        for j in range(env.height):
            if i:
                visits[i, j] += visits[i - 1, j] * p[i - 1, j, 0]
            if j:
                visits[i, j] += visits[i, j - 1] * p[i, j - 1, 1]
    return (visits * p[..., -1]).flatten()


def train(steps):
    env = HyperGrid()
    policy = seeded(Policy(env))
    nn.init.zeros_(policy.logZ)
    policy = policy.to(device)
    rng = np.random.default_rng(6)
    optimizer = optim.Adam(
        [
            {"params": [p for n, p in policy.named_parameters() if n != "logZ"]},
            {"params": [policy.logZ], "lr": 0.1},
        ],
        lr=5e-3,
    )
    losses = []
    for _ in range(steps):
        states, log_pf, log_pb = rollout(policy, env, 12, rng)
        log_reward = env.reward(states).log()
        balance = policy.logZ + log_pf - log_reward - log_pb
        loss = balance.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    true = env.reward(all_states(env)).to(device)
    true /= true.sum()
    found = exact_distribution(policy, env)
    assert torch.isclose(found.sum(), found.new_tensor(1.0), atol=1e-5)
    return losses + [(found - true).abs().sum().item(), policy.logZ.exp().item()]
