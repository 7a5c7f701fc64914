"""Gradient reversal, elastic weight consolidation with Fisher information, MMD, center loss with two optimizers, Iterable data with workers."""

import itertools
from collections import defaultdict
import numpy as np
import torch
from torch import nn, autograd, optim
from torch.autograd import Variable
from torch.nn import functional as F
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    IterableDataset,
    TensorDataset,
    get_worker_info,
    default_collate,
)
from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class GradientReversal(autograd.Function):
    @staticmethod
    def forward(ctx, x, lambda_):
        ctx.lambda_ = lambda_
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grads):
        dx = -grads.new_tensor(ctx.lambda_) * grads
        return dx, None


class Stream(IterableDataset):
    def __init__(self, start, end):
        super().__init__()
        self.start, self.end = start, end

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            a, b = self.start, self.end
        else:
            per = int(np.ceil((self.end - self.start) / float(info.num_workers)))
            a = self.start + info.id * per
            b = min(a + per, self.end)
        for i in range(a, b):
            yield {"x": normal(4, seed=i), "y": i % 3, "meta": (f"s{i}", float(i))}


class CenterLoss(nn.Module):
    def __init__(self, num_classes=3, feat_dim=5):
        super().__init__()
        self.num_classes, self.feat_dim = num_classes, feat_dim
        self.centers = nn.Parameter(torch.from_numpy(normal(num_classes, feat_dim)))

    def forward(self, x, labels):
        b = x.size(0)
        distmat = (
            torch.pow(x, 2).sum(dim=1, keepdim=True).expand(b, self.num_classes)
            + torch.pow(self.centers, 2)
            .sum(dim=1, keepdim=True)
            .expand(self.num_classes, b)
            .t()
        )
        distmat.addmm_(x, self.centers.t(), beta=1, alpha=-2)
        classes = torch.arange(self.num_classes).long().to(x.device)
        mask = (
            labels.unsqueeze(1)
            .expand(b, self.num_classes)
            .eq(classes.expand(b, self.num_classes))
        )
        return (distmat * mask.float()).clamp(min=1e-12, max=1e12).sum() / b


def mmd(source, target, kernel_mul=2.0, kernel_num=3):
    n = int(source.size()[0]) + int(target.size()[0])
    total = torch.cat([source, target], dim=0)
    t0 = total.unsqueeze(0).expand(
        int(total.size(0)), int(total.size(0)), int(total.size(1))
    )
    t1 = total.unsqueeze(1).expand(
        int(total.size(0)), int(total.size(0)), int(total.size(1))
    )
    l2 = ((t0 - t1) ** 2).sum(2)
    bandwidth = torch.sum(l2.data) / (n**2 - n)
    bandwidth /= kernel_mul ** (kernel_num // 2)
    kernels = sum(
        [
            torch.exp(-l2 / b)
            for b in [bandwidth * (kernel_mul**i) for i in range(kernel_num)]
        ]
    )
    b = int(source.size()[0])
    return torch.mean(
        kernels[:b, :b] + kernels[b:, b:] - kernels[:b, b:] - kernels[b:, :b]
    )


class EWC:
    def __init__(self, model, head, loader):
        self.params = {
            n: p
            for n, p in itertools.chain(
                model.named_parameters(prefix="m"), head.named_parameters(prefix="h")
            )
            if p.requires_grad
        }
        self._means = {n: p.data.clone() for n, p in self.params.items()}
        self.fisher = {n: torch.zeros_like(p) for n, p in self.params.items()}
        model.eval()
        for batch in loader:
            loglik = F.log_softmax(head(model(batch["x"].to(device))), 1)[
                range(len(batch["y"])), batch["y"].data
            ]
            parts = zip(
                *[
                    autograd.grad(l, self.params.values(), retain_graph=i < len(loglik))
                    for i, l in enumerate(loglik, 1)
                ]
            )
            for n, g in zip(self.params, [torch.stack(gs) for gs in parts]):
                self.fisher[n] += (g**2).mean(0)
        model.train()

    def penalty(self):
        return sum(
            (self.fisher[n] * (p - self._means[n]) ** 2).sum()
            for n, p in self.params.items()
        )


def train(steps):
    loader = DataLoader(Stream(0, 12), batch_size=3, num_workers=2)
    batches = sorted((b for b in loader), key=lambda b: b["meta"][1][0].item())
    net = seeded(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5))).to(device)
    head, disc = (
        seeded(nn.Linear(5, 3)).to(device),
        seeded(nn.Sequential(nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 1))).to(device),
    )
    center = CenterLoss().to(device)
    opt = optim.Adam(
        itertools.chain(net.parameters(), head.parameters(), disc.parameters()),
        lr=1e-2,
        amsgrad=True,
    )
    opt_c = optim.SGD(center.parameters(), lr=0.5)
    target = itertools.cycle(
        DataLoader(
            ConcatDataset(
                [
                    TensorDataset(torch.from_numpy(normal(4, 4, seed=s)) + 1)
                    for s in (1, 2)
                ]
            ),
            batch_size=3,
            drop_last=True,
        )
    )
    out = [len(batches), float(sum(len(b["meta"][0]) for b in batches))]
    ewc = EWC(net, head, batches)
    it = iter(itertools.cycle(batches))
    meters = defaultdict(list)
    for step in range(steps):
        batch = next(it)
        x, y = Variable(batch["x"]).to(device), batch["y"].to(device)
        (xt,) = next(target)
        xt = xt.to(device)
        p = step / steps
        lam = 2.0 / (1.0 + np.exp(-10 * p)) - 1
        fs, ft = net(x), net(xt)
        dom = disc(GradientReversal.apply(torch.cat((fs, ft)), lam)).squeeze(-1)
        dl = F.binary_cross_entropy_with_logits(
            dom, torch.cat([torch.ones(len(x)), torch.zeros(len(xt))]).to(device)
        )
        parts = {
            "cls": F.cross_entropy(head(fs), y),
            "dom": dl,
            "mmd": mmd(fs, ft),
            "center": 0.01 * center(fs, y),
            "ewc": 10 * ewc.penalty(),
        }
        loss = torch.stack(list(parts.values())).sum()
        opt.zero_grad(), opt_c.zero_grad()
        loss.backward()
        for param in center.parameters():
            param.grad.data *= 1.0 / 0.01
        opt.step(), opt_c.step()
        for k, v in parts.items():
            meters[k].append(v.item())
        out.append(loss.item())
    return (
        out
        + [np.mean(v) for v in meters.values()]
        + [default_collate([{"a": 1}, {"a": 2}])["a"].sum().item()]
    )
