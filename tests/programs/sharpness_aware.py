"""Optimizers that users write: SAM with closures, Lookahead around it, a Lion, gradient centralization by hooks."""

import math
from collections import defaultdict
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, adaptive=False, **kwargs):
        assert rho >= 0.0
        defaults = dict(rho=rho, adaptive=adaptive, **kwargs)
        super(SAM, self).__init__(params, defaults)
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups
        self.defaults.update(self.base_optimizer.defaults)

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        grad_norm = self._grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (grad_norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                e_w = (
                    (torch.pow(p, 2) if group["adaptive"] else 1.0)
                    * p.grad
                    * scale.to(p)
                )
                p.add_(e_w)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        assert closure is not None
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()

    def _grad_norm(self):
        shared_device = self.param_groups[0]["params"][0].device
        return torch.norm(
            torch.stack(
                [
                    ((torch.abs(p) if group["adaptive"] else 1.0) * p.grad)
                    .norm(p=2)
                    .to(shared_device)
                    for group in self.param_groups
                    for p in group["params"]
                    if p.grad is not None
                ]
            ),
            p=2,
        )

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        self.base_optimizer.param_groups = self.param_groups


class Lookahead(Optimizer):
    def __init__(self, optimizer, k=5, alpha=0.5):
        self.optimizer, self.k, self.alpha = optimizer, k, alpha
        self.param_groups = self.optimizer.param_groups
        self.state = defaultdict(dict)
        self.fast_state = self.optimizer.state
        for group in self.param_groups:
            group["counter"] = 0

    def update(self, group):
        for fast in group["params"]:
            param_state = self.state[fast]
            if "slow_param" not in param_state:
                param_state["slow_param"] = torch.zeros_like(fast.data)
                param_state["slow_param"].copy_(fast.data)
            slow = param_state["slow_param"]
            slow += (fast.data - slow) * self.alpha
            fast.data.copy_(slow)

    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        for group in self.param_groups:
            if group["counter"] == 0:
                self.update(group)
            group["counter"] += 1
            if group["counter"] >= self.k:
                group["counter"] = 0
        return loss

    def zero_grad(self):
        self.optimizer.zero_grad()

    def add_param_group(self, param_group):
        param_group["counter"] = 0
        self.optimizer.add_param_group(param_group)


class MyAdamP(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        delta=0.1,
        nesterov=False,
    ):
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                delta=delta,
                nesterov=nesterov,
            ),
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for g in self.param_groups:
            g.setdefault("nesterov", False)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                if grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                beta1, beta2 = group["betas"]
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(
                        p.data, memory_format=torch.preserve_format
                    )
                    state["exp_avg_sq"] = torch.zeros_like(
                        p.data, memory_format=torch.preserve_format
                    )
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                state["step"] += 1
                bc1, bc2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                denom = (exp_avg_sq.sqrt() / math.sqrt(bc2)).add_(group["eps"])
                step_size = group["lr"] / bc1
                perturb = exp_avg / denom
                if len(p.shape) > 1:
                    cos = F.cosine_similarity(
                        grad.view(grad.size(0), -1),
                        p.data.view(p.size(0), -1),
                        dim=1,
                        eps=1e-8,
                    ).abs_()
                    if cos.max() < group["delta"] / math.sqrt(
                        p.data.view(p.size(0), -1).size(1)
                    ):
                        p_n = p.data / p.data.view(p.size(0), -1).norm(dim=1).view(
                            -1, *[1] * (p.dim() - 1)
                        ).add_(group["eps"])
                        perturb -= p_n * (p_n * perturb).view(p.size(0), -1).sum(
                            dim=1
                        ).view(-1, *[1] * (p.dim() - 1))
                if group["weight_decay"] > 0:
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                p.data.add_(perturb, alpha=-step_size)
        return loss


class WarmupPoly(LRScheduler):
    def __init__(self, optimizer, warmup, total, power=0.9, last_epoch=-1):
        self.warmup, self.total, self.power = warmup, total, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch < self.warmup:
            return [b * (self.last_epoch + 1) / self.warmup for b in self.base_lrs]
        f = (
            1 - (self.last_epoch - self.warmup) / max(1, self.total - self.warmup)
        ) ** self.power
        return [b * f for b in self.base_lrs]


def net(seed):
    return seeded(
        nn.Sequential(
            nn.Conv1d(2, 4, 3, padding="same", padding_mode="circular"),
            nn.BatchNorm1d(4),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(24, 3),
        ),
        seed,
    ).to(device)


def disable_running_stats(model):
    def _disable(module):
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.backup_momentum = module.momentum
            module.momentum = 0

    model.apply(_disable)


def enable_running_stats(model):
    def _enable(module):
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and hasattr(
            module, "backup_momentum"
        ):
            module.momentum = module.backup_momentum

    model.apply(_enable)


def train(steps):
    x = torch.Tensor(normal(10, 2, 6)).to(device)
    y = torch.LongTensor(integers(3, 10)).to(device)
    out = []
    model = net(0)
    sam = SAM(
        model.parameters(),
        torch.optim.SGD,
        rho=0.1,
        adaptive=True,
        lr=0.05,
        momentum=0.9,
        nesterov=True,
    )
    for p in model.parameters():
        if p.dim() > 1:
            p.register_hook(
                lambda g: g - g.mean(dim=tuple(range(1, g.dim())), keepdim=True)
            )
    sched = WarmupPoly(sam.base_optimizer, 3, steps)
    for _ in range(steps):
        enable_running_stats(model)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        sam.first_step(zero_grad=True)
        disable_running_stats(model)
        F.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        sam.second_step(zero_grad=True)
        sched.step()
        out += [loss.item(), sched.get_last_lr()[0]]
    sam.load_state_dict(sam.state_dict())
    model = net(1)
    inner = MyAdamP(model[:3].parameters(), lr=1e-2, weight_decay=1e-2)
    opt = Lookahead(inner)
    opt.add_param_group({"params": model[4].parameters(), "lr": 5e-3})

    def closure():
        opt.zero_grad()
        loss = F.multi_margin_loss(model(x), y)
        loss.backward()
        return loss

    for i in range(steps):
        out.append(float(opt.step(closure)))
        if i == 10:
            state = inner.state_dict()
            again = MyAdamP(
                [{"params": model[:3].parameters()}, {"params": model[4].parameters()}]
            )
            again.load_state_dict(state)
            opt.optimizer = again
            opt.param_groups = again.param_groups
            out.append(len(again.state))
    return out + [
        b.double().sum().item() for n, b in model.named_buffers() if "mean" not in n
    ]
