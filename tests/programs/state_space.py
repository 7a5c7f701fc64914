"""A diagonal state space model with complex kernels, FFT convolutions, and per-group learning rates by an attribute."""

import math
import torch
import torch.nn as nn
from tests.programs.seeding import integers, normal

device = torch.device("cpu")


class DropoutNd(nn.Module):
    def __init__(self, p=0.5, tie=True, transposed=True):
        super().__init__()
        if p < 0 or p >= 1:
            raise ValueError(
                "dropout probability has to be in [0, 1), but got {}".format(p)
            )
        self.p, self.tie, self.transposed = p, tie, transposed
        self.binomial = torch.distributions.binomial.Binomial(probs=1 - self.p)

    def forward(self, X):
        if self.training and self.p > 0:
            mask_shape = X.shape[:2] + (1,) * (X.ndim - 2) if self.tie else X.shape
            mask = torch.rand(*mask_shape, device=X.device) < 1.0 - self.p
            return X * mask * (1.0 / (1 - self.p))
        return X


class S4DKernel(nn.Module):
    def __init__(self, d_model, N=8, dt_min=0.01, dt_max=0.1, lr=None):
        super().__init__()
        H = d_model
        log_dt = torch.from_numpy(normal(H, seed=5)).sigmoid() * (
            math.log(dt_max) - math.log(dt_min)
        ) + math.log(dt_min)
        C = torch.view_as_complex(torch.from_numpy(normal(H, N // 2, 2, seed=6)))
        self.C = nn.Parameter(torch.view_as_real(C))
        self.register("log_dt", log_dt, lr)
        log_A_real = torch.log(0.5 * torch.ones(H, N // 2))
        A_imag = math.pi * torch.arange(N // 2).float().expand(H, N // 2).clone()
        self.register("log_A_real", log_A_real, lr)
        self.register("A_imag", A_imag, lr)

    def forward(self, L):
        dt = torch.exp(self.log_dt)
        C = torch.view_as_complex(self.C)
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(L, device=A.device)
        C = C * (torch.exp(dtA) - 1.0) / A
        return 2 * torch.einsum("hn, hnl -> hl", C, torch.exp(K)).real

    def register(self, name, tensor, lr=None):
        if lr == 0.0:
            self.register_buffer(name, tensor)
        else:
            self.register_parameter(name, nn.Parameter(tensor))
            optim = {"weight_decay": 0.0}
            if lr is not None:
                optim["lr"] = lr
            setattr(getattr(self, name), "_optim", optim)


class S4D(nn.Module):
    def __init__(self, d_model, d_state=8, dropout=0.0, transposed=True, **kernel_args):
        super().__init__()
        self.h = d_model
        self.transposed = transposed
        self.D = nn.Parameter(torch.from_numpy(normal(self.h, seed=7)))
        self.kernel = S4DKernel(self.h, N=d_state, **kernel_args)
        self.activation = nn.GELU()
        self.dropout = DropoutNd(dropout) if dropout > 0.0 else nn.Identity()
        self.output_linear = nn.Sequential(
            nn.Conv1d(self.h, 2 * self.h, kernel_size=1), nn.GLU(dim=-2)
        )

    def forward(self, u, **kwargs):
        if not self.transposed:
            u = u.transpose(-1, -2)
        L = u.size(-1)
        k = self.kernel(L=L)
        k_f = torch.fft.rfft(k, n=2 * L)
        u_f = torch.fft.rfft(u, n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L]
        y = y + u * self.D.unsqueeze(-1)
        y = self.dropout(self.activation(y))
        y = self.output_linear(y)
        if not self.transposed:
            y = y.transpose(-1, -2)
        return y, None


class S4Model(nn.Module):
    def __init__(self, d_input, d_output=4, d_model=6, n_layers=2, prenorm=False):
        super().__init__()
        self.prenorm = prenorm
        self.encoder = nn.Linear(d_input, d_model)
        self.s4_layers, self.norms, self.dropouts = (
            nn.ModuleList(),
            nn.ModuleList(),
            nn.ModuleList(),
        )
        for _ in range(n_layers):
            self.s4_layers.append(
                S4D(d_model, dropout=0.1, transposed=True, lr=min(0.001, 0.01))
            )
            self.norms.append(nn.LayerNorm(d_model))
            self.dropouts.append(nn.Dropout1d(0.1))
        self.decoder = nn.Linear(d_model, d_output)

    def forward(self, x):
        x = self.encoder(x).transpose(-1, -2)
        for layer, norm, dropout in zip(self.s4_layers, self.norms, self.dropouts):
            z = x
            if self.prenorm:
                z = norm(z.transpose(-1, -2)).transpose(-1, -2)
            z, _ = layer(z)
            z = dropout(z)
            x = z + x
            if not self.prenorm:
                x = norm(x.transpose(-1, -2)).transpose(-1, -2)
        return self.decoder(x.transpose(-1, -2).mean(dim=1))


def setup_optimizer(model, lr, weight_decay, epochs):
    all_parameters = list(model.parameters())
    params = [p for p in all_parameters if not hasattr(p, "_optim")]
    optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=weight_decay)
    hps = [getattr(p, "_optim") for p in all_parameters if hasattr(p, "_optim")]
    hps = [
        dict(s)
        for s in sorted(list(dict.fromkeys(frozenset(hp.items()) for hp in hps)))
    ]
    for hp in hps:
        params = [p for p in all_parameters if getattr(p, "_optim", None) == hp]
        optimizer.add_param_group({"params": params, **hp})
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    return optimizer, scheduler


def train(steps):
    model = S4Model(3)
    for name, p in model.named_parameters():
        if "kernel" not in name and p.dim() > 1:
            with torch.no_grad():
                p.copy_(torch.from_numpy(normal(*p.shape, seed=len(name)))).div_(
                    math.sqrt(p[0].numel())
                )
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    model = model.to(device)
    model.eval()
    opt, sched = setup_optimizer(model, 0.01, 0.05, steps)
    x = torch.tensor(normal(5, 12, 3)).to(device)
    y = torch.tensor(integers(4, 5)).to(device)
    out = [len(opt.param_groups)]
    criterion = nn.CrossEntropyLoss()
    for _ in range(steps):
        opt.zero_grad()
        logits = model(x)
        loss = criterion(logits, y)
        loss.backward()
        opt.step()
        sched.step()
        _, predicted = logits.max(1)
        out += [
            loss.item(),
            predicted.eq(y).sum().item(),
            *[g["lr"] for g in opt.param_groups],
        ]
    return out
