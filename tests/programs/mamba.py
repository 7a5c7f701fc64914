"""A selective scan as in Mamba: softplus steps, a loop over time, depthwise convolution."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class MambaBlock(nn.Module):
    def __init__(self, d_model, d_inner, d_state, dt_rank, d_conv=3):
        super().__init__()
        self.d_inner, self.d_state, self.dt_rank = d_inner, d_state, dt_rank
        self.in_proj = nn.Linear(d_model, d_inner * 2, bias=False)
        self.conv1d = nn.Conv1d(
            d_inner,
            d_inner,
            bias=True,
            kernel_size=d_conv,
            groups=d_inner,
            padding=d_conv - 1,
        )
        self.x_proj = nn.Linear(d_inner, dt_rank + d_state * 2, bias=False)
        self.dt_proj = nn.Linear(dt_rank, d_inner, bias=True)
        A = (
            torch.arange(1, d_state + 1, dtype=torch.float32)
            .repeat(d_inner, 1)
            .contiguous()
        )
        self.A_log = nn.Parameter(torch.log(A))
        self.A_log._no_weight_decay = True
        self.D = nn.Parameter(torch.ones(d_inner))
        self.out_proj = nn.Linear(d_inner, d_model, bias=False)
        with torch.no_grad():
            dt = torch.exp(
                torch.linspace(0, 1, d_inner) * (math.log(0.1) - math.log(0.001))
                + math.log(0.001)
            ).clamp(min=1e-4)
            inv_dt = dt + torch.log(-torch.expm1(-dt))
            self.dt_proj.bias.copy_(inv_dt)
        self.dt_proj.bias._no_reinit = True

    def forward(self, x):
        (b, length, d) = x.shape
        x_and_res = self.in_proj(x)
        (x, res) = x_and_res.split(split_size=[self.d_inner, self.d_inner], dim=-1)
        x = self.conv1d(x.transpose(1, 2))[..., :length].transpose(1, 2)
        x = F.silu(x)
        A = -torch.exp(self.A_log.float())
        delta, B, C = self.x_proj(x).split(
            [self.dt_rank, self.d_state, self.d_state], dim=-1
        )
        delta = F.softplus(self.dt_proj(delta))
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, x)
        h = torch.zeros((b, self.d_inner, self.d_state), device=deltaA.device)
        ys = []
        for i in range(length):
            h = deltaA[:, i] * h + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, i, :]))
        y = torch.stack(ys, dim=1)
        y = y + x * self.D
        return self.out_proj(y * F.silu(res))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(
            [
                nn.ModuleDict({"norm": RMSNorm(8), "mixer": MambaBlock(8, 12, 4, 2)})
                for _ in range(2)
            ]
        )
        self.norm_f = RMSNorm(8)
        self.lm_head = nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer["mixer"](layer["norm"](x))
        return self.lm_head(self.norm_f(x))


def train(steps):
    model = LM()
    kept = {
        n: p.detach().clone()
        for n, p in model.named_parameters()
        if "A_log" in n or n.endswith("dt_proj.bias")
    }
    seeded(model)
    model.load_state_dict(kept, strict=False)
    model.to(device)
    decay = [
        p
        for p in model.parameters()
        if p.dim() >= 2 and not getattr(p, "_no_weight_decay", False)
    ]
    no_decay = [
        p
        for p in model.parameters()
        if p.dim() < 2 or getattr(p, "_no_weight_decay", False)
    ]
    optimizer = torch.optim.AdamW(
        [{"params": decay}, {"params": no_decay, "weight_decay": 0.0}], lr=3e-3
    )
    ids = torch.from_numpy(integers(11, 2, 13)).to(device)
    results = [float(len(decay)), float(len(no_decay))]
    for _ in range(steps):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(
            logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1), ignore_index=3
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        results.append(loss.item())
    return results
