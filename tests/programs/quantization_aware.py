"""Quantization-aware training: observers, straight-through rounding, folded norms."""

import copy
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import fuse_conv_bn_eval, parametrize

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward((x >= low) & (x <= high))
        return x.round().clamp(low, high)

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad.masked_fill(~inside, 0), None, None


class MovingAverageObserver(nn.Module):
    def __init__(self, momentum=0.1, bits=8):
        super().__init__()
        self.momentum, self.high = momentum, 2**bits - 1
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))
        self.register_buffer("enabled", torch.tensor([1], dtype=torch.uint8))

    def forward(self, x):
        if self.training and self.enabled[0] == 1:
            low, high = torch.aminmax(x.detach())
            if self.min_val == float("inf"):
                self.min_val.copy_(low)
                self.max_val.copy_(high)
            else:
                self.min_val += self.momentum * (low - self.min_val)
                self.max_val += self.momentum * (high - self.max_val)
        low = torch.min(self.min_val, torch.zeros_like(self.min_val))
        high = torch.max(self.max_val, torch.zeros_like(self.max_val))
        scale = torch.clamp((high - low) / float(self.high), min=1e-8)
        zero = (-low / scale).round().clamp(0, self.high).to(torch.int32)
        q = RoundSTE.apply(x / scale + zero, 0, self.high)
        return (q - zero) * scale


class PerChannel(nn.Module):
    """Parametrization: weights rounded to int8 with a scale for each output."""

    def __init__(self, bits=8):
        super().__init__()
        self.top = 2 ** (bits - 1) - 1

    def forward(self, weight):
        rows = weight.detach().abs().flatten(1).amax(1)
        scale = rows.clamp_min(1e-8).div(self.top)
        scale = scale.view(-1, *[1] * (weight.dim() - 1))
        return RoundSTE.apply(weight / scale, -self.top - 1, self.top) * scale


def swap(model, types):
    """Put an observer behind each module of some types."""
    for name, child in list(model.named_children()):
        swap(child, types)
        if isinstance(child, types):
            pair = OrderedDict(
                [("module", child), ("observer", MovingAverageObserver())]
            )
            setattr(model, name, nn.Sequential(pair))
    return model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU6(),
            nn.Conv2d(6, 6, 3, stride=2, groups=3), nn.Hardswish(),
        )  # fmt: skip
        self.classifier = nn.Linear(6, 3)
        self.skip_add = nn.Identity()

    def forward(self, x):
        x = self.features(x)
        x = self.skip_add(x + F.hardtanh(x))
        return self.classifier(x.mean([2, 3]))


def quantized_state(model):
    """Return int8 weights and their scales, as one would store them."""
    found = {}
    for name, module in model.named_modules():
        if parametrize.is_parametrized(module, "weight"):
            weight = module.weight.detach()
            scale = weight.abs().flatten(1).max(dim=1).values / 127
            shaped = scale.reshape([-1] + [1] * (weight.ndim - 1))
            codes = torch.div(weight, shaped).round().to(torch.int8)
            assert torch.allclose(codes * shaped, weight, atol=1e-6)
            found[name] = codes, scale
    return found


def train(steps):
    x = torch.from_numpy(normal(16, 2, 6, 6)).to(device)
    y = torch.from_numpy(integers(3, 16)).to(device)
    model = seeded(Net()).to(device)
    losses = []
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, nesterov=True
    )
    for _ in range(steps // 4):
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    teacher = copy.deepcopy(model)
    with torch.no_grad():
        before = teacher(x)
    model.features[0] = fuse_conv_bn_eval(model.features[0], model.features[1])
    model.features[1] = nn.Identity()
    assert torch.allclose(model(x), before, atol=1e-5)
    swap(model, (nn.ReLU6, nn.Hardswish))
    for module in model.modules():
        if type(module) in (nn.Conv2d, nn.Linear):
            parametrize.register_parametrization(module, "weight", PerChannel())
    model.train().to(device)
    optimizer = torch.optim.SGD(
        (p for p in model.parameters() if p.requires_grad), lr=0.02, momentum=0.9
    )
    while len(losses) < steps:
        out = model(x)
        hard = F.cross_entropy(out, y)
        soft = F.kl_div(
            F.log_softmax(out / 2, dim=-1), F.log_softmax(before / 2, dim=-1),
            log_target=True, reduction="batchmean",
        )  # fmt: skip
        loss = hard + soft
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.apply(
        lambda m: m.enabled.fill_(0) if isinstance(m, MovingAverageObserver) else None
    )
    model.eval()
    with torch.inference_mode():
        accuracy = (model(x).argmax(-1) == y).float().mean()
    stored = quantized_state(model)
    size = sum(codes.nelement() * codes.element_size() for codes, _ in stored.values())
    parametrize.remove_parametrizations(model.classifier, "weight")
    keys = [k for k in model.state_dict() if k.startswith("classifier")]
    return losses + [
        accuracy.item(),
        size,
        len(keys),
        model.classifier.weight.sum().item(),
    ]
