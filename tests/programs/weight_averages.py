"""Averages of weights: SWA, SWAG samples, and an ensemble under vmap."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class MLP(nn.Module):
    def __init__(self, features=5, hidden=12, classes=3, norm=True):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.bn = nn.BatchNorm1d(hidden) if norm else nn.Identity()
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc2(F.elu(self.bn(self.fc1(x))))


class SWAG:
    """First and second moments of weights, and a few deviations (low rank)."""

    def __init__(self, model, rank=3):
        self.mean = {k: torch.zeros_like(p) for k, p in model.named_parameters()}
        self.square = copy.deepcopy(self.mean)
        self.columns = {k: [] for k in self.mean}
        self.count, self.rank = 0, rank

    @torch.no_grad()
    def collect(self, model):
        for k, p in model.named_parameters():
            self.mean[k].mul_(self.count / (self.count + 1)).add_(p / (self.count + 1))
            self.square[k] = torch.lerp(self.square[k], p**2, 1 / (self.count + 1))
            self.columns[k] = [*self.columns[k], p - self.mean[k]][-self.rank :]
        self.count += 1

    def sample(self, noise):
        found, at = {}, 0
        for k, mean in self.mean.items():
            spread = (self.square[k] - mean**2).clamp_(min=1e-8).sqrt()
            z1 = noise[at : at + mean.numel()].view_as(mean)
            at += mean.numel()
            columns = torch.stack(self.columns[k], dim=-1)
            low = columns @ noise[-columns.size(-1) :]
            low /= (columns.shape[-1] - 1) ** 0.5
            found[k] = mean + (spread * z1 + low) / 2**0.5
        return found


def swa(x, y, steps):
    model = seeded(MLP()).to(device)
    averaged = AveragedModel(model)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)
    swag = SWAG(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    swa_schedule = SWALR(
        optimizer, anneal_strategy="linear", anneal_epochs=3, swa_lr=0.05
    )
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        if step >= steps // 2:
            averaged.update_parameters(model)
            swag.collect(model)
            swa_schedule.step()
        else:
            schedule.step()
        losses.append(loss.item())
    batches = [(x[k : k + 8], y[k : k + 8]) for k in range(0, len(x), 8)]
    update_bn(batches, averaged, device=device)
    averaged.eval()
    ema.eval()
    model.eval()
    count = sum(p.numel() for p in model.parameters())
    predictions = []
    for seed in range(3):
        noise = torch.from_numpy(normal(count + 3, seed=seed)).to(device)
        out = functional_call(model, swag.sample(noise), (x,))
        predictions.append(out.softmax(-1).detach())
    mixed = torch.stack(predictions).mean(0)
    entropy = torch.special.entr(mixed).sum(-1).mean()
    with torch.no_grad():
        ends = [F.cross_entropy(each(x), y).item() for each in (averaged, ema)]
    return losses + ends + [entropy.item(), int(averaged.n_averaged)]


def ensemble(x, y, steps, size=3):
    models = [seeded(MLP(norm=False), seed=k).to(device) for k in range(size)]
    params, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def loss_of(params, buffers, x, y):
        out = functional_call(base, (params, buffers), (x,))
        return F.cross_entropy(out, y)

    step = vmap(grad(loss_of), in_dims=(0, 0, None, None))
    evaluate = vmap(loss_of, in_dims=(0, 0, None, None))
    losses = []
    for _ in range(steps // 2):
        grads = step(params, buffers, x, y)
        params = {k: (p - 0.2 * grads[k]).detach() for k, p in params.items()}
        losses += [evaluate(params, buffers, x, y).mean().item()]
    each = vmap(grad(loss_of), in_dims=(None, None, 0, 0))
    one = {k: p[0] for k, p in params.items()}
    grads = each(one, buffers, x[:, None], y[:, None])
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
    return losses + [norms.max().item(), norms.median().item()]


def train(steps):
    x = torch.from_numpy(normal(24, 5)).to(device)
    y = torch.from_numpy(integers(3, 24)).to(device)
    return swa(x, y, steps) + ensemble(x, y, steps)
