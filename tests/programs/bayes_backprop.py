"""Bayes by backprop: reparametrized weights, KL of two distributions, several samples."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Gaussian:
    def __init__(self, mu, rho):
        self.mu, self.rho = mu, rho

    @property
    def sigma(self):
        return torch.log1p(torch.exp(self.rho))

    def sample(self, epsilon):
        return self.mu + self.sigma * epsilon

    def log_prob(self, input):
        return (
            -math.log(math.sqrt(2 * math.pi))
            - torch.log(self.sigma)
            - ((input - self.mu) ** 2) / (2 * self.sigma**2)
        ).sum()


class ScaleMixture:
    def __init__(self, pi, sigma1, sigma2):
        self.pi = pi
        self.gaussian1, self.gaussian2 = (
            torch.distributions.Normal(0, sigma1),
            torch.distributions.Normal(0.0, sigma2),
        )

    def log_prob(self, input):
        prob1 = torch.exp(self.gaussian1.log_prob(input))
        prob2 = torch.exp(self.gaussian2.log_prob(input))
        return (torch.log(self.pi * prob1 + (1 - self.pi) * prob2)).sum()


class BayesianLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight_mu = nn.Parameter(
            torch.Tensor(out_features, in_features).uniform_(-0.2, 0.2)
        )
        self.weight_rho = nn.Parameter(
            torch.Tensor(out_features, in_features).uniform_(-5, -4)
        )
        self.weight = Gaussian(self.weight_mu, self.weight_rho)
        self.prior = ScaleMixture(0.5, 1.0, math.exp(-2))
        self.log_prior = self.log_posterior = 0

    def forward(self, input, eps):
        weight = self.weight.sample(eps)
        self.log_prior = self.prior.log_prob(weight.cpu()).to(weight.device)
        self.log_posterior = self.weight.log_prob(weight)
        return F.linear(input, weight)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = BayesianLinear(3, 8), BayesianLinear(8, 1)

    def forward(self, x, noise):
        x = F.relu6(self.l1(x, noise[0]))
        return self.l2(x, noise[1])


def train(steps):
    net = seeded(Net())
    for layer in (net.l1, net.l2):
        layer.weight_rho.data.mul_(0.1).sub_(3)
    net.to(device)
    x = torch.from_numpy(normal(16, 3)).to(device)
    y = x[:, :1] * x[:, 1:2] + x.select(1, 2).unsqueeze(-1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    results = []
    for step in range(steps):
        net.zero_grad()
        outputs, log_priors, log_posts = (
            torch.zeros(2, 16, 1, device=device),
            torch.zeros(2).to(device),
            torch.zeros(2).to(device),
        )
        for i in range(2):
            noise = [
                torch.from_numpy(normal(*m.weight_mu.shape, seed=10 * step + i)).to(
                    device
                )
                for m in (net.l1, net.l2)
            ]
            outputs[i] = net(x, noise)
            log_priors[i] = net.l1.log_prior + net.l2.log_prior
            log_posts[i] = net.l1.log_posterior + net.l2.log_posterior
        nll = -Normal(outputs.mean(0), 0.3).log_prob(y).sum()
        loss = (log_posts.mean() - log_priors.mean()) / 10 + nll
        q = Normal(net.l2.weight_mu, F.softplus(net.l2.weight_rho))
        kl = kl_divergence(
            q, Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale))
        ).sum()
        (loss + 0.01 * kl).backward()
        optimizer.step()
        results += [loss.item(), kl.item()]
    return results
