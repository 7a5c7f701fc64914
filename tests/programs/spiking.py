"""A spiking network: leaky neurons with surrogate gradients, rate and latency codes."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class FastSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, membrane, slope=25.0):
        ctx.save_for_backward(membrane)
        ctx.slope = slope
        return (membrane > 0).to(membrane.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (membrane,) = ctx.saved_tensors
        grad = grad_output / (ctx.slope * membrane.abs() + 1.0).pow(2)
        return grad, None


class Leaky(nn.Module):
    def __init__(self, size, beta=0.9, threshold=1.0, learn_beta=True):
        super().__init__()
        beta = torch.as_tensor(beta).expand(size).clone()
        if learn_beta:
            self.beta = nn.Parameter(beta)
        else:
            self.register_buffer("beta", beta, persistent=False)
        self.register_buffer("threshold", torch.tensor(threshold))
        self.reset()

    def reset(self):
        self.mem = None

    def forward(self, current):
        if self.mem is None:
            self.mem = torch.zeros_like(current)
        reset = (self.mem.detach() > self.threshold).float()
        self.mem = self.beta.clamp(0, 1) * self.mem + current - reset * self.threshold
        return FastSigmoid.apply(self.mem - self.threshold), self.mem

    def extra_repr(self):
        return f"threshold={self.threshold.item():g}"


class Net(nn.Module):
    def __init__(self, inputs, hidden, classes, steps):
        super().__init__()
        self.steps = steps
        self.fc1, self.lif1 = nn.Linear(inputs, hidden), Leaky(hidden)
        self.fc2, self.lif2 = nn.Linear(hidden, classes, bias=False), Leaky(classes)

    def forward(self, spikes):
        for module in self.modules():
            if hasattr(module, "reset"):
                module.reset()
        out, membranes, active = [], [], 0
        for x in spikes.unbind(dim=0):
            hidden, _ = self.lif1(self.fc1(x))
            spike, mem = self.lif2(self.fc2(hidden))
            active += hidden.sum()
            out += [spike]
            membranes.append(mem)
        return torch.stack(out), torch.stack(membranes), active / hidden.numel()


def latency(x, steps, tau=5.0):
    """Encode brightness as the time of a single spike."""
    time = (tau * torch.log(x / (x - 0.01).clamp_min(1e-6))).clamp_(0, steps - 1)
    time = torch.round(time).long()
    return torch.zeros(steps, *x.shape).scatter_(0, time.unsqueeze(0), 1.0)


def train(steps):
    x = torch.from_numpy(normal(32, 12)).sigmoid() * 0.9 + 0.05
    y = torch.as_tensor(integers(4, 32))
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=False)
    net = seeded(Net(12, 20, 4, 6))
    for leaky in (net.lif1, net.lif2):
        nn.init.constant_(leaky.beta, 0.85)
    net = net.to(device)
    optimizer = torch.optim.Adamax(net.parameters(), lr=5e-3, betas=(0.9, 0.999))
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.98)
    losses, step = [], 0
    while step < steps:
        for images, targets in loader:
            spikes = latency(images, net.steps).to(device)
            targets = targets.to(device)
            out, membranes, rate = net(spikes)
            loss = sum(F.cross_entropy(mem, targets) for mem in membranes) / net.steps
            count = F.mse_loss(out.sum(0), F.one_hot(targets, 4) * 3.0)
            loss = loss + 0.1 * count + 0.01 * (rate - 0.2) ** 2
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            step += 1
        schedule.step()
    with torch.inference_mode():
        out, *_ = net(latency(x, net.steps).to(device))
    accuracy = (out.sum(dim=0).argmax(1) == y.to(device)).float().mean()
    return losses + [accuracy.item(), net.lif1.beta.min().item()]
