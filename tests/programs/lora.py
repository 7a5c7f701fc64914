"""Low-rank adapters on a frozen network, merged at the end."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: int = 8):
        super().__init__()
        self.base = base
        self.base.weight.requires_grad = False
        if self.base.bias is not None:
            self.base.bias.requires_grad_(False)
        self.scaling = alpha / r
        self.lora_A = nn.Parameter(base.weight.new_zeros((r, base.in_features)))
        self.lora_B = nn.Parameter(base.weight.new_zeros((base.out_features, r)))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        update = F.linear(F.linear(x, self.lora_A), self.lora_B) * self.scaling
        return self.base(x) + update

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scaling * self.lora_B @ self.lora_A
        return self.base


def replace_linear(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child))
        else:
            replace_linear(child)


def merge_all(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, LoRALinear):
            setattr(module, name, child.merge())
        else:
            merge_all(child)


def train(steps):
    x = torch.from_numpy(normal(16, 12)).to(device)
    y = torch.from_numpy(integers(4, 16)).to(device)
    model = nn.Sequential(
        nn.Linear(12, 24),
        nn.Tanh(),
        nn.Sequential(nn.Linear(24, 24), nn.Tanh()),
        nn.Linear(24, 4),
    )
    replace_linear(model)
    seeded(model).to(device)
    frozen = model[0].base.weight.clone()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert model[0].base.weight.grad is None
    assert torch.equal(model[0].base.weight, frozen)
    before = model(x)
    merge_all(model)
    after = model(x)
    assert torch.allclose(before, after, atol=1e-5)
    assert not any("lora" in key for key in model.state_dict())
    counts = [sum(p.numel() for p in trainable), len(model.state_dict())]
    return [*losses, *map(float, counts)]
