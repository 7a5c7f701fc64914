"""Trust region policy optimization: Fisher products, conjugate gradients, line search."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.programs.seeding import seeded

device = torch.device("cpu")


class PointMass:
    """Particles that are pushed towards the origin, in NumPy."""

    def __init__(self, count, rng):
        self.state = rng.standard_normal((count, 4)).astype(np.float32)

    def step(self, action):
        action = np.clip(action, -1, 1)
        self.state[:, 2:] = 0.9 * self.state[:, 2:] + 0.2 * action
        self.state[:, :2] += self.state[:, 2:] * 0.5
        cost = (self.state[:, :2] ** 2).sum(-1) + 0.05 * (action**2).sum(-1)
        return self.state.copy(), -cost


class RunningStat(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("var", torch.ones(size, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    def update(self, x):
        x = x.double()
        var, mean = torch.var_mean(x, dim=0, unbiased=False)
        delta, total = mean - self.mean, self.count + len(x)
        m2 = self.var * self.count + var * len(x)
        m2 += delta.square() * self.count * len(x) / total
        self.mean += delta * len(x) / total
        self.var.copy_(m2 / total)
        self.count.fill_(total.item())

    def forward(self, x):
        return ((x - self.mean) / (self.var + 1e-8).sqrt()).float().clamp(-5, 5)


class Actor(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.norm = RunningStat(observations)
        self.net = nn.Sequential(
            nn.Linear(observations, 16), nn.Tanh(), nn.Linear(16, actions)
        )
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))

    def forward(self, x):
        mean = self.net(self.norm(x))
        return Independent(Normal(mean, self.log_std.exp().expand_as(mean)), 1)


def conjugate_gradient(product, b, iterations=8, tolerance=1e-10):
    x, r = torch.zeros_like(b), b.clone()
    p, rdotr = r.clone(), torch.dot(r, r)
    for _ in range(iterations):
        z = product(p)
        alpha = rdotr / p.dot(z)
        x.add_(p, alpha=alpha.item())
        r.sub_(alpha * z)
        new = r.dot(r)
        p = r + new / rdotr * p
        rdotr = new
        if rdotr < tolerance:
            break
    return x


def advantages(rewards, values, gamma=0.95, lam=0.9):
    deltas = rewards + gamma * values[1:] - values[:-1]
    out, running = torch.empty_like(deltas), torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        running = deltas[t] + gamma * lam * running
        out[t] = running
    return out, out + values[:-1]


def flat(grads, like):
    return torch.cat(
        [
            torch.zeros_like(p).view(-1) if g is None else g.contiguous().view(-1)
            for g, p in zip(grads, like)
        ]
    )


def update(actor, states, actions, adv, max_kl=0.01, damping=0.1):
    params = list(actor.parameters())
    with torch.no_grad():
        old = actor(states)
        old = Independent(Normal(old.base_dist.loc, old.base_dist.scale), 1)
        old_logp = old.log_prob(actions)

    def surrogate():
        ratio = torch.exp(actor(states).log_prob(actions) - old_logp)
        return (ratio * adv).mean()

    loss = surrogate()
    grad = flat(torch.autograd.grad(loss, params), params).detach()
    kl = kl_divergence(old, actor(states)).mean()
    kl_grad = flat(torch.autograd.grad(kl, params, create_graph=True), params)

    def fisher(v):
        hvp = torch.autograd.grad(
            kl_grad @ v, params, retain_graph=True, allow_unused=True
        )
        return flat(hvp, params) + damping * v

    direction = conjugate_gradient(fisher, grad)
    scale = torch.sqrt(2 * max_kl / (direction @ fisher(direction)))
    before, start = loss.item(), parameters_to_vector(params).detach().clone()
    for k in range(6):
        vector_to_parameters(start + 0.5**k * scale * direction, params)
        with torch.no_grad():
            after = surrogate().item()
            divergence = kl_divergence(old, actor(states)).mean().item()
        if after > before and divergence <= 1.5 * max_kl:
            return after - before, divergence
    vector_to_parameters(start, params)
    return 0.0, 0.0


def train(steps):
    rng = np.random.default_rng(9)
    actor, critic = seeded(Actor(4, 2)), seeded(nn.Linear(4 * 2, 1), seed=1)
    actor, critic = actor.to(device), critic.to(device)
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.05)
    results = []
    for _ in range(steps // 4):
        env = PointMass(12, rng)
        states, actions, rewards = [], [], []
        state = env.state.copy()
        for _ in range(6):
            x = torch.as_tensor(state, device=device)
            with torch.no_grad():
                policy = actor(x)
                noise = torch.as_tensor(rng.standard_normal((12, 2)), dtype=torch.float)
                action = policy.mean + policy.stddev * noise.to(device)
            states.append(x)
            actions.append(action)
            state, reward = env.step(action.cpu().numpy())
            rewards.append(torch.from_numpy(reward).to(device) * 0.1)
        states.append(torch.from_numpy(state).to(device))
        states, rewards = torch.stack(states), torch.stack(rewards)
        features = torch.cat([states, (states / 2).square().log1p()], dim=-1)
        with torch.no_grad():
            adv, returns = advantages(rewards, critic(features).squeeze(-1))
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)

        def closure():
            optimizer.zero_grad()
            error = critic(features[:-1]).squeeze(-1) - returns
            loss = error.pow(2).mean() + 1e-2 * sum(
                p.pow(2).sum() for p in critic.parameters()
            )
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        batch = states[:-1].flatten(0, 1), torch.cat(actions), adv.flatten()
        gain, kl = update(actor, *batch)
        actor.norm.update(batch[0])
        results += [loss.item(), gain, kl, rewards.mean().item()]
    return results
