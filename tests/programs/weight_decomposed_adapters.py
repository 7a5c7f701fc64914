"""DoRA and IA3 on a frozen network by parametrizations and hooks, prefixes by a pre-hook, fake quantized weights."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class DoRA(nn.Module):
    def __init__(self, weight, rank=2, alpha=4.0):
        super().__init__()
        self.scale = alpha / rank
        self.lora_A = nn.Parameter(torch.empty(rank, weight.shape[1]))
        self.lora_B = nn.Parameter(torch.zeros(weight.shape[0], rank))
        self.m = nn.Parameter(weight.detach().norm(p=2, dim=1, keepdim=True))

    def forward(self, weight):
        adapted = weight + self.scale * (self.lora_B @ self.lora_A)
        norm = torch.linalg.vector_norm(adapted, dim=1, keepdim=True).detach()
        return self.m * adapted / norm


class FakeQuantized(nn.Module):
    def __init__(self, bits=4):
        super().__init__()
        self.low, self.high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.register_buffer("zero_point", torch.zeros(8, dtype=torch.int32))

    def forward(self, weight):
        scale = weight.detach().abs().amax(1).clamp_min(1e-8) / self.high
        zeros = (
            self.zero_point[: len(scale)]
            if len(scale) <= 8
            else scale.new_zeros(len(scale)).int()
        )
        return torch.fake_quantize_per_channel_affine(
            weight, scale, zeros, 0, self.low, self.high
        )


class Block(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.up, self.down = nn.Linear(dim, 16), nn.Linear(16, dim)

    def forward(self, x, prefix=None):
        y = self.norm(x)
        context = (
            y if prefix is None else torch.cat([prefix.expand(len(y), -1, -1), y], 1)
        )
        y, _ = self.attention(y, context, context, need_weights=False)
        x = x + y
        return x + self.down(F.relu6(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 9)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(steps):
    model = seeded(Model()).requires_grad_(False)
    frozen = {k: v.clone() for k, v in model.state_dict().items()}
    for block in model.blocks:
        for layer in (block.up, block.down):
            parametrize.register_parametrization(layer, "weight", DoRA(layer.weight))
    prefixes = nn.ParameterList(
        [nn.Parameter(torch.zeros(1, 2, 8)) for _ in model.blocks]
    )
    scales = nn.ParameterDict({str(k): nn.Parameter(torch.ones(16)) for k in range(2)})
    parametrize.register_parametrization(
        model.head, "weight", FakeQuantized(), unsafe=True
    )
    trained = nn.ModuleList([m for m in model.modules() if isinstance(m, DoRA)])
    with torch.no_grad():
        for k, each in enumerate(trained):
            made = torch.from_numpy(
                integers(7, *each.lora_A.shape, seed=k).astype("f4") - 3
            )
            each.lora_A.copy_(made / math.sqrt(each.lora_A.size(1)))
        for k, each in enumerate(prefixes):
            each.add_(0.1 * (k + 1))
    model.head.parametrizations.weight.original.requires_grad_(True)
    model.to(device), prefixes.to(device), scales.to(device)
    handles = []
    for k, block in enumerate(model.blocks):
        handles.append(
            block.register_forward_pre_hook(
                lambda _, args, kwargs, k=k: (args, {**kwargs, "prefix": prefixes[k]}),
                with_kwargs=True,
            )
        )
        handles.append(
            block.up.register_forward_hook(
                lambda _, args, out, k=k: out * scales[str(k)]
            )
        )
    learnt = [
        p for p in [*model.parameters(), *prefixes, *scales.values()] if p.requires_grad
    ]
    optimizer = torch.optim.AdamW(learnt, lr=5e-3)
    tokens = torch.from_numpy(integers(9, 4, 7)).to(device)
    x = torch.linspace(-2, 2, 9, device=device, requires_grad=True)
    coarse = torch.fake_quantize_per_tensor_affine(x, 0.3, 2, 0, 7)
    coarse.square().sum().backward()
    results = [float(len(learnt)), coarse.sum().item(), x.grad.sum().item()]
    for _ in range(steps):
        with parametrize.cached():
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    model.eval()
    before = model(tokens)
    for block in model.blocks:
        for layer in (block.up, block.down):
            parametrize.remove_parametrizations(
                layer, "weight", leave_parametrized=True
            )
    results.append(float(torch.allclose(model(tokens), before, atol=1e-6)))
    for handle in handles:
        handle.remove()
    same = [
        torch.equal(v.cpu(), frozen[k])
        for k, v in model.state_dict().items()
        if k in frozen
    ]
    results += [float(sum(same)), float(len(same)), model(tokens).mean().item()]
    return results
