"""Many tasks: surgery on conflicting gradients, learnt weights, rare words, bags."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Shared(nn.Module):
    def __init__(self, words=40, width=10):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, width, mode="sum", padding_idx=0)
        self.weights = nn.Embedding(words, 1)
        self.body = nn.Sequential(
            nn.Linear(width + 3, 16), nn.CELU(0.9), nn.Dropout(0.0)
        )
        self.word = nn.AdaptiveLogSoftmaxWithLoss(16, words, [8, 20], div_value=2.0)
        self.score, self.rank = nn.Linear(16, 1), nn.Bilinear(16, 16, 1)
        self.log_vars = nn.Parameter(torch.zeros(3))

    def encode(self, tokens, offsets, dense):
        weights = self.weights(tokens).squeeze(1).sigmoid()
        bag = self.bag(tokens, offsets, per_sample_weights=weights)
        return self.body(torch.column_stack([bag, dense]))

    def shared_parameters(self):
        yield from self.bag.parameters()
        yield from self.body.parameters()


def surgery(grads, rng):
    """Project each task's gradient off those that it conflicts with."""
    flat = [torch.cat([g.flatten() for g in task]) for task in grads]
    projected = [g.clone() for g in flat]
    for mine in projected:
        others = flat[:]
        rng.shuffle(others)
        for other in others:
            inner = torch.dot(mine, other)
            if inner < 0:
                mine.sub_(other, alpha=(inner / other.norm() ** 2).item())
    total = torch.stack(projected).sum(0)
    sizes = [g.numel() for g in grads[0]]
    return [p.view_as(g) for p, g in zip(total.split(sizes), grads[0])]


def ragged(rng, count):
    lengths = rng.integers(1, 6, count)
    tokens = rng.integers(0, 40, lengths.sum())
    offsets = np.concatenate([[0], lengths.cumsum()[:-1]])
    return torch.from_numpy(tokens), torch.from_numpy(offsets)


def train(steps):
    np_rng, rng = np.random.default_rng(12), random.Random(3)
    tokens, offsets = (t.to(device) for t in ragged(np_rng, 16))
    dense = torch.from_numpy(normal(16, 3)).to(device)
    word = torch.from_numpy(integers(40, 16)).to(device)
    score = dense.sum(1, keepdim=True).tanh()
    sign = torch.where(score[::2] > score[1::2], 1.0, -1.0).ravel()
    model = seeded(Shared()).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, lr_decay=1e-3)
    shared = list(model.shared_parameters())
    losses = []
    for step in range(steps):
        h = model.encode(tokens, offsets, dense)
        output, word_loss = model.word(h, word)
        score_loss = F.gaussian_nll_loss(
            model.score(h), score, torch.full_like(score, 0.5), full=True
        )
        difference = model.rank(h[::2], h[1::2]).squeeze(-1)
        rank_loss = F.soft_margin_loss(difference, sign)
        tasks = [word_loss, score_loss, rank_loss]
        tasks = [
            torch.exp(-s) * task + s for s, task in zip(model.log_vars.unbind(), tasks)
        ]
        grads = [torch.autograd.grad(task, shared, retain_graph=True) for task in tasks]
        optimizer.zero_grad()
        sum(tasks).backward()
        for p, g in zip(shared, surgery(grads, rng)):
            p.grad.copy_(g)
        optimizer.step()
        losses += [sum(tasks).item()]
    found = model.word.predict(h.detach())
    logs = model.word.log_prob(h.detach())
    assert torch.allclose(logs.exp().sum(1), torch.ones(16, device=device), atol=1e-4)
    return losses + [(found == word).float().mean().item(), output.mean().item()]
