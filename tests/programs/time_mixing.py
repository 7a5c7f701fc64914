"""RWKV-like time mixing with a numerically stable recurrent WKV as a custom autograd Function for the ReLU^2."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class SquaredReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        r = torch.relu(x)
        ctx.save_for_backward(r)
        return r * r

    @staticmethod
    def backward(ctx, grad_output):
        (r,) = ctx.saved_tensors
        return grad_output * 2 * r


class TimeMix(nn.Module):
    def __init__(self, n_embd, layer_id, n_layer):
        super().__init__()
        with torch.no_grad():
            ratio = layer_id / max(n_layer - 1, 1)
            decay = torch.ones(n_embd)
            for h in range(n_embd):
                decay[h] = -5 + 8 * (h / (n_embd - 1)) ** (0.7 + 1.3 * ratio)
            zigzag = torch.tensor([(i + 1) % 3 - 1 for i in range(n_embd)]) * 0.5
            x = torch.ones(1, 1, n_embd)
            for i in range(n_embd):
                x[0, 0, i] = i / n_embd
        self.time_decay = nn.Parameter(decay)
        self.time_first = nn.Parameter(
            torch.ones(n_embd) * torch.log(torch.tensor(0.3)) + zigzag
        )
        self.time_mix_k = nn.Parameter(torch.pow(x, 1 - ratio * 0.5))
        self.time_mix_v = nn.Parameter(torch.pow(x, 1 - ratio * 0.5) + 0.3 * ratio)
        self.time_mix_r = nn.Parameter(torch.pow(x, 0.5 * (1 - ratio * 0.5)))
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.key, self.value, self.receptance, self.output = (
            nn.Linear(n_embd, n_embd, bias=False) for _ in range(4)
        )

    def forward(self, x):
        B, T, C = x.size()
        xx = self.time_shift(x)
        xk = x * self.time_mix_k + xx * (1 - self.time_mix_k)
        xv = torch.lerp(xx, x, self.time_mix_v)
        xr = x * self.time_mix_r + xx * (1 - self.time_mix_r)
        k, v, r = self.key(xk), self.value(xv), torch.sigmoid(self.receptance(xr))
        w = -torch.exp(self.time_decay)
        aa = bb = torch.zeros(B, C, device=x.device)
        pp = torch.full((B, C), -1e38, device=x.device)
        torch.empty(B, T, C, device=x.device)
        ys = []
        for t in range(T):
            kt, vt = k[:, t], v[:, t]
            ww = self.time_first + kt
            p = torch.maximum(pp, ww)
            e1, e2 = torch.exp(pp - p), torch.exp(ww - p)
            ys.append((e1 * aa + e2 * vt) / (e1 * bb + e2))
            ww = pp + w
            p = torch.maximum(ww, kt)
            e1, e2 = torch.exp(ww - p), torch.exp(kt - p)
            aa, bb, pp = e1 * aa + e2 * vt, e1 * bb + e2, p
        return self.output(r * torch.stack(ys, 1))


class ChannelMix(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.key, self.value, self.receptance = (
            nn.Linear(n, 3 * n, bias=False),
            nn.Linear(3 * n, n, bias=False),
            nn.Linear(n, n, bias=False),
        )

    def forward(self, x):
        k = SquaredReLU.apply(self.key(x))
        return self.receptance(x).sigmoid() * self.value(k)


class RWKV(nn.Module):
    def __init__(self, vocab=18, n=12, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, n)
        self.ln0 = nn.LayerNorm(n)
        self.att = nn.ModuleList(TimeMix(n, i, layers) for i in range(layers))
        self.ffn = nn.ModuleList(ChannelMix(n) for _ in range(layers))
        self.ln1 = nn.ModuleList(nn.LayerNorm(n) for _ in range(layers))
        self.ln2 = nn.ModuleList(nn.LayerNorm(n) for _ in range(layers))
        self.head = nn.Linear(n, vocab, bias=False)

    def forward(self, idx):
        x = self.ln0(self.emb(idx))
        for a, f, l1, l2 in zip(self.att, self.ffn, self.ln1, self.ln2):
            x = x + a(l1(x))
            x = x + f(l2(x))
        return self.head(x)


class L2Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, loss, y):
        ctx.save_for_backward(y)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        y = ctx.saved_tensors[0]
        factor = 1e-4 / (y.shape[0] * y.shape[1])
        maxx, ids = torch.max(y, -1, keepdim=True)
        gy = torch.zeros_like(y)
        gy.scatter_(-1, ids, maxx * factor)
        return (grad_output, gy)


def train(steps):
    model = RWKV()
    keep = {n: p.data.clone() for n, p in model.named_parameters() if "time_" in n}
    seeded(model)
    for n, p in model.named_parameters():
        if n in keep:
            p.data = keep[n]
    model.to(device)
    lr_1x, lr_2x = set(), set()
    for n, p in model.named_parameters():
        (lr_2x if "time_decay" in n else lr_1x).add(n)
    d = dict(model.named_parameters())
    opt = torch.optim.Adam(
        [
            {"params": [d[n] for n in sorted(lr_1x)], "lr": 3e-3, "my_lr_scale": 1.0},
            {"params": [d[n] for n in sorted(lr_2x)], "lr": 6e-3, "my_lr_scale": 2.0},
        ],
        betas=(0.9, 0.99),
        eps=1e-8,
    )
    losses = []
    for i in range(steps):
        x = torch.from_numpy(integers(18, 3, 9, seed=i)).to(device)
        y = model(x[:, :-1])
        loss = F.cross_entropy(y.reshape(-1, y.size(-1)), x[:, 1:].flatten())
        loss = L2Wrap.apply(loss, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses
