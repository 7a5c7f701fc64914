"""Optimizers that users write: Muon, Shampoo, Adafactor, Sophia; parameter routing and states."""

import copy
import io
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.optimizer import Optimizer, required

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


@torch.no_grad()
def zeropower_via_newtonschulz5(G, steps=5, eps=1e-7):
    assert len(G.shape) == 2
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G.float()
    X /= X.norm() + eps
    if G.size(0) > G.size(1):
        X = X.T
    for _ in range(steps):
        A = X @ X.T
        B = b * A + c * A @ A
        X = a * X + B @ X
    if G.size(0) > G.size(1):
        X = X.T
    return X.to(G.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, nesterov=True, ns_steps=5):
        defaults = dict(lr=lr, momentum=momentum, nesterov=nesterov, ns_steps=ns_steps)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(g)
                buf = state["momentum_buffer"]
                buf.lerp_(g, 1 - group["momentum"])
                g = g.lerp_(buf, group["momentum"]) if group["nesterov"] else buf
                u = zeropower_via_newtonschulz5(
                    g.view(len(g), -1), steps=group["ns_steps"]
                )
                p.add_(
                    u.view(g.shape),
                    alpha=-group["lr"] * max(1, p.size(-2) / p.size(-1)) ** 0.5,
                )
        return loss


def _matrix_power(matrix, power):
    u, s, v = torch.svd(matrix)
    return u @ s.pow_(power).diag() @ v.t()


class Shampoo(Optimizer):
    def __init__(
        self,
        params,
        lr=required,
        momentum=0.0,
        weight_decay=0.0,
        epsilon=1e-3,
        update_freq=1,
    ):
        if not isinstance(lr, (int, float)) or lr <= 0.0:
            raise ValueError("Invalid learning rate: {}".format(lr))
        defaults = dict(
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            epsilon=epsilon,
            update_freq=update_freq,
        )
        super(Shampoo, self).__init__(params, defaults)

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                order, original_size, state = (
                    grad.ndimension(),
                    grad.size(),
                    self.state[p],
                )
                if len(state) == 0:
                    state["step"] = 0
                    if group["momentum"] > 0:
                        state["momentum_buffer"] = grad.clone()
                    for dim_id, dim in enumerate(grad.size()):
                        state[f"precond_{dim_id}"] = group["epsilon"] * torch.eye(
                            dim, out=grad.new(dim, dim)
                        )
                        state[f"inv_precond_{dim_id}"] = grad.new(dim, dim).zero_()
                if group["momentum"] > 0:
                    grad.mul_(1 - group["momentum"]).add_(
                        state["momentum_buffer"], alpha=group["momentum"]
                    )
                if group["weight_decay"] > 0:
                    grad.add_(p.data, alpha=group["weight_decay"])
                for dim_id, dim in enumerate(grad.size()):
                    precond, inv_precond = (
                        state[f"precond_{dim_id}"],
                        state[f"inv_precond_{dim_id}"],
                    )
                    grad = grad.transpose_(0, dim_id).contiguous()
                    transposed_size = grad.size()
                    grad = grad.view(dim, -1)
                    grad_t = grad.t()
                    precond.add_(grad @ grad_t)
                    if state["step"] % group["update_freq"] == 0:
                        inv_precond.copy_(_matrix_power(precond, -1 / order))
                    if dim_id == order - 1:
                        grad = grad_t @ inv_precond
                        grad = grad.view(original_size)
                    else:
                        grad = inv_precond @ grad
                        grad = grad.view(transposed_size)
                state["step"] += 1
                state["momentum_buffer"] = grad
                p.data.add_(grad, alpha=-group["lr"])
        return loss


class Adafactor(Optimizer):
    def __init__(
        self,
        params,
        lr=None,
        eps=(1e-30, 1e-3),
        clip_threshold=1.0,
        decay_rate=-0.8,
        scale_parameter=True,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                eps=eps,
                clip_threshold=clip_threshold,
                decay_rate=decay_rate,
                scale_parameter=scale_parameter,
            ),
        )

    @staticmethod
    def _rms(tensor):
        return tensor.norm(2) / (tensor.numel() ** 0.5)

    @staticmethod
    def _approx_sq_grad(exp_avg_sq_row, exp_avg_sq_col):
        r_factor = (
            (exp_avg_sq_row / exp_avg_sq_row.mean(dim=-1, keepdim=True))
            .rsqrt_()
            .unsqueeze(-1)
        )
        c_factor = exp_avg_sq_col.unsqueeze(-2).rsqrt()
        return torch.mul(r_factor, c_factor)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                if grad.dtype in {torch.float16, torch.bfloat16}:
                    grad = grad.float()
                if grad.is_sparse:
                    raise RuntimeError("Adafactor does not support sparse gradients.")
                state, shape, factored = self.state[p], grad.shape, len(grad.shape) >= 2
                if len(state) == 0:
                    state["step"] = 0
                    if factored:
                        state["exp_avg_sq_row"] = torch.zeros(shape[:-1]).to(grad)
                        state["exp_avg_sq_col"] = torch.zeros(
                            shape[:-2] + shape[-1:]
                        ).to(grad)
                    else:
                        state["exp_avg_sq"] = torch.zeros_like(grad)
                    state["RMS"] = 0
                state["step"] += 1
                state["RMS"] = self._rms(p)
                lr = min(1e-2, 1.0 / math.sqrt(state["step"]))
                if group["scale_parameter"]:
                    lr = max(group["eps"][1], state["RMS"].item()) * lr
                beta2t = 1.0 - math.pow(state["step"], group["decay_rate"])
                update = (grad**2) + group["eps"][0]
                if factored:
                    row, col = state["exp_avg_sq_row"], state["exp_avg_sq_col"]
                    row.mul_(beta2t).add_(update.mean(dim=-1), alpha=(1.0 - beta2t))
                    col.mul_(beta2t).add_(update.mean(dim=-2), alpha=(1.0 - beta2t))
                    update = self._approx_sq_grad(row, col)
                    update.mul_(grad)
                else:
                    state["exp_avg_sq"].mul_(beta2t).add_(update, alpha=(1.0 - beta2t))
                    update = state["exp_avg_sq"].rsqrt().mul_(grad)
                update.div_(
                    (self._rms(update) / group["clip_threshold"]).clamp_(min=1.0)
                )
                p.add_(-update.mul_(lr))


class SophiaG(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), rho=0.04, weight_decay=1e-1):
        super().__init__(
            params, dict(lr=lr, betas=betas, rho=rho, weight_decay=weight_decay)
        )

    @torch.no_grad()
    def update_hessian(self, bs):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                state = self.state[p]
                if "hessian" not in state:
                    state["hessian"] = torch.zeros_like(
                        p, memory_format=torch.preserve_format
                    )
                    state["exp_avg"] = torch.zeros_like(
                        p, memory_format=torch.preserve_format
                    )
                state["hessian"].mul_(group["betas"][1]).addcmul_(
                    p.grad, p.grad, value=(1 - group["betas"][1]) * bs
                )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads = [p.grad for p in params]
            averages = [self.state[p]["exp_avg"] for p in params]
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_mul_(averages, group["betas"][0])
            torch._foreach_add_(averages, grads, alpha=1 - group["betas"][0])
            for p, m in zip(params, averages):
                ratio = (
                    m.abs() / (group["rho"] * self.state[p]["hessian"] + 1e-6)
                ).clamp(None, 1)
                p.addcmul_(m.sign(), ratio, value=-group["lr"])


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.fc = nn.Linear(12, 8)
        self.norm = nn.RMSNorm(8)
        self.proj = nn.Linear(8, 6)
        self.head = nn.Linear(6, 9, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, idx):
        h = self.embed(idx).flatten(1)
        h = self.norm(F.relu(self.fc(h)).square())
        return self.head(self.proj(h))


def optimizers_of(kind, model):
    if kind == "muon":
        matrices = [
            p for n, p in model.named_parameters() if p.ndim >= 2 and "embed" not in n
        ]
        rest = [p for p in model.parameters() if all(p is not m for m in matrices)]
        return [
            Muon(matrices, lr=0.02),
            torch.optim.AdamW(rest, lr=0.01, betas=(0.8, 0.95), fused=False),
        ]
    if kind == "shampoo":
        return [
            Shampoo(
                model.parameters(),
                lr=0.05,
                momentum=0.1,
                weight_decay=1e-4,
                epsilon=1.0,
            )
        ]
    if kind == "adafactor":
        return [Adafactor(model.parameters())]
    return [SophiaG(model.parameters(), lr=5e-3)]


def train(steps):
    x = torch.from_numpy(integers(9, 16, 2)).to(device)
    y = (x[:, 0] * 2 + x[:, 1]).remainder(9)
    losses = []
    for kind in ("muon", "shampoo", "adafactor", "sophia"):
        model = seeded(Mlp()).to(device)
        optimizers = optimizers_of(kind, model)
        schedulers = [
            torch.optim.lr_scheduler.LambdaLR(o, lambda it: min(1.0, (it + 1) / 4))
            for o in optimizers
            if o.defaults["lr"] is not None
        ]
        best, best_loss = None, float("inf")
        for step in range(steps):
            if step == steps // 2:
                file = io.BytesIO()
                torch.save(
                    {
                        "model": model.state_dict(),
                        "opt": [o.state_dict() for o in optimizers],
                    },
                    file,
                )
                file.seek(0)
                states = torch.load(file, map_location=device, weights_only=False)
                model.load_state_dict(states["model"])
                for o, s in zip(optimizers, states["opt"]):
                    o.load_state_dict(s)
            loss = F.cross_entropy(model(x), y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            if kind == "sophia" and step % 5 == 0:
                optimizers[0].update_hessian(bs=len(x))
            for o in optimizers:
                o.step()
            for s in schedulers:
                s.step()
            losses.append(loss.item())
            if loss < best_loss:
                best, best_loss = copy.deepcopy(model.state_dict()), loss.item()
        losses.append(sum(v.double().abs().sum().item() for v in best.values()))
    return losses
