"""Variational dropout, pruning masks, quantised activations by a Function, graph pooling by scatter."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class RoundSTE(Function):
    @staticmethod
    def forward(ctx, x, bits):
        ctx.save_for_backward(x)
        ctx.bits = bits
        scale = 2**bits - 1
        return torch.round(x.clamp(0, 1) * scale).div(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad = grad_output.clone() if ctx.needs_input_grad[0] else None
        grad[x < 0] = 0
        grad[x > 1] = 0
        return grad, None


class LinearARD(nn.Module):
    def __init__(self, i, o, threshold=3):
        super().__init__()
        self.W, self.log_sigma = (
            nn.Parameter(torch.Tensor(o, i)),
            nn.Parameter(torch.Tensor(o, i)),
        )
        self.bias, self.threshold = nn.Parameter(torch.Tensor(1, o)), threshold

    def forward(self, x, noise):
        log_alpha = torch.clamp(
            self.log_sigma * 2.0 - 2.0 * torch.log(1e-16 + torch.abs(self.W)), -10, 10
        )
        self.log_alpha = log_alpha
        if self.training:
            lrt_mean = F.linear(x, self.W) + self.bias
            lrt_std = torch.sqrt(
                F.linear(x * x, torch.exp(self.log_sigma * 2.0)) + 1e-8
            )
            return lrt_mean + lrt_std * noise
        return F.linear(x, self.W * (log_alpha < self.threshold).float()) + self.bias

    def kl(self):
        k1, k2, k3 = 0.63576, 1.8732, 1.48695
        kl = k1 * torch.sigmoid(k2 + k3 * self.log_alpha) - 0.5 * torch.log1p(
            torch.exp(-self.log_alpha)
        )
        return -torch.sum(kl)


def global_pool(x, batch, size):
    index = batch.view(-1, 1).expand(-1, x.size(-1))
    total = torch.zeros(size, x.size(-1), dtype=x.dtype, device=x.device).scatter_add_(
        0, index, x
    )
    count = (
        x.new_zeros(size)
        .scatter_add_(0, batch, torch.ones_like(batch, dtype=x.dtype))
        .clamp_(min=1)
    )
    high = torch.full((size, x.size(-1)), -math.inf, device=x.device).scatter_reduce(
        0, index, x, reduce="amax", include_self=False
    )
    return torch.cat([total / count.unsqueeze(-1), high], dim=1)


def top_k_nodes(score, ratio, batch):
    num_nodes = torch.zeros(
        int(batch.max()) + 1, dtype=torch.long, device=batch.device
    ).scatter_add_(0, batch, torch.ones_like(batch))
    cum = torch.cat([num_nodes.new_zeros(1), num_nodes.cumsum(dim=0)[:-1]], dim=0)
    k = (ratio * num_nodes.to(torch.float)).ceil().to(torch.long)
    perm = torch.argsort(
        score.view(-1) - batch.to(score.dtype) * 100.0, dim=-1, descending=True
    )
    mask = [
        torch.arange(k[i], dtype=torch.long, device=score.device) + cum[i]
        for i in range(len(num_nodes))
    ]
    return perm[torch.cat(mask, dim=0)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.score = nn.Linear(3, 6), nn.Parameter(torch.ones(1, 6))
        self.a, self.b = LinearARD(12, 8), LinearARD(8, 3)

    def forward(self, x, edges, batch, noise):
        h = self.embed(x)
        row, col = edges
        deg = torch.bincount(col, minlength=len(x)).to(h.dtype).clamp(min=1)
        h = F.relu(h + torch.zeros_like(h).index_add(0, col, h[row]) / deg[:, None])
        score = torch.tanh((h * self.score).sum(-1) / self.score.norm(p=2, dim=-1))
        perm = top_k_nodes(score.detach(), 0.6, batch)
        h, batch = h[perm] * score[perm].view(-1, 1), batch[perm]
        g = global_pool(h, batch, 4)
        g = RoundSTE.apply(torch.sigmoid(self.a(g, noise[0])), 4)
        return F.log_softmax(self.b(g, noise[1]), dim=-1)


def train(steps):
    model = seeded(Net())
    for m in model.modules():
        if isinstance(m, LinearARD):
            m.log_sigma.data.sub_(4)
    model.to(device)
    x, edges = (
        torch.from_numpy(normal(20, 3)).to(device),
        torch.from_numpy(integers(20, 2, 40)).to(device),
    )
    batch = torch.arange(4).repeat_interleave(5).to(device)
    y = torch.tensor([0, 1, 2, 1]).to(device)
    optimizer, results = (
        torch.optim.AdamW(model.parameters(), lr=5e-3, amsgrad=True),
        [],
    )
    for step in range(steps):
        noise = [
            torch.from_numpy(normal(4, n, seed=step + n)).to(device) for n in (8, 3)
        ]
        optimizer.zero_grad()
        loss = F.nll_loss(model(x, edges, batch, noise), y)
        kl = sum(m.kl() for m in model.children() if hasattr(m, "kl"))
        (loss + min(1.0, step / 10) * 1e-3 * kl).backward()
        optimizer.step()
        results += [loss.item(), kl.item()]
    model.eval()
    with torch.no_grad():
        out = model(x, edges, batch, noise).exp()
        flat = torch.cat([m.W.abs().flatten() for m in (model.a, model.b)])
        threshold = flat.kthvalue(int(0.3 * flat.numel())).values
        for m in (model.a, model.b):
            mask = m.W.abs() > threshold
            m.W.mul_(mask)
        sparsity = 1 - torch.count_nonzero(model.a.W) / model.a.W.nelement()
    return results + out.flatten().tolist() + [threshold.item(), sparsity.item()]
