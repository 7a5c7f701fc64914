"""A reversible network: activations computed again from outputs in a Function's backward pass, which calls backward itself."""

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class ReversibleBlock(nn.Module):
    def __init__(self, f, g):
        super().__init__()
        self.f, self.g = f, g

    def forward(self, x):
        x1, x2 = torch.chunk(x, 2, dim=-1)
        with torch.no_grad():
            y1 = x1 + self.f(x2)
            y2 = x2 + self.g(y1)
        return torch.cat([y1, y2], dim=-1)

    def backward_pass(self, y, dy):
        y1, y2 = torch.chunk(y, 2, dim=-1)
        del y
        dy1, dy2 = torch.chunk(dy, 2, dim=-1)
        del dy
        with torch.enable_grad():
            y1.requires_grad = True
            gy1 = self.g(y1)
            torch.autograd.backward(gy1, dy2)
        with torch.no_grad():
            x2 = y2 - gy1
            del y2, gy1
            dx1 = dy1 + y1.grad
            del dy1
            y1.grad = None
        with torch.enable_grad():
            x2.requires_grad = True
            fx2 = self.f(x2)
            torch.autograd.backward(fx2, dx1, retain_graph=True)
        with torch.no_grad():
            x1 = y1 - fx2
            dx2 = dy2 + x2.grad
            x2.grad = None
            x = torch.cat([x1, x2.detach()], dim=-1)
            dx = torch.cat([dx1, dx2], dim=-1)
        return x, dx


class _ReversibleFunction(Function):
    @staticmethod
    def forward(ctx, x, blocks):
        for block in blocks:
            x = block(x)
        ctx.y = x.detach()
        ctx.blocks = blocks
        counter = torch.tensor(float(len(blocks)), device=x.device)
        ctx.mark_non_differentiable(counter)
        ctx.set_materialize_grads(False)
        return x, counter

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, unused):
        assert unused is None
        y = ctx.y
        for block in ctx.blocks[::-1]:
            y, dy = block.backward_pass(y, dy)
        return dy, None


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.GroupNorm(1, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        y = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.down(nn.functional.mish(self.up(y)))


class Mixer(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.mix = nn.Linear(length, length)

    def forward(self, x):
        return torch.tanh(self.mix(x.transpose(-1, -2))).mT


class RevNet(nn.Module):
    def __init__(self, length=5, dim=6, depth=3):
        super().__init__()
        self.embed = nn.Embedding(7, dim)
        self.blocks = nn.ModuleList(
            [ReversibleBlock(Mixer(length), FeedForward(dim)) for _ in range(depth)]
        )
        self.out = nn.Linear(dim, 7)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = torch.cat((x, x), dim=-1)
        x, self.count = _ReversibleFunction.apply(x, self.blocks)
        return self.out(torch.stack(x.chunk(2, dim=-1)).mean(dim=0))


def train(steps):
    model = seeded(RevNet()).to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3, momentum_decay=4e-3)
    tokens = torch.from_numpy(integers(7, 4, 6)).to(device)
    noise = torch.from_numpy(normal(4, 5, 12)).to(device)
    results = []
    for _ in range(steps):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), tokens[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.get_total_norm(
            [p.grad for p in model.parameters()], norm_type=1.0
        )
        optimizer.step()
        results += [loss.item(), norm.item(), model.count.item()]
    y = noise
    for block in model.blocks:
        y = block(y)
    for block in list(model.blocks)[::-1]:
        y, _ = block.backward_pass(y, torch.zeros_like(y))
    results.append(float((y - noise).abs().max() < 1e-4))
    return results
