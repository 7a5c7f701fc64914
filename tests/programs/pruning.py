"""Pruning, spectral norm and parametrizations, fake quantization with straight-through Functions, hooks that inspect a model, weight averaging."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.parametrize as parametrize
import torch.nn.utils.prune as prune
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from tests.programs.seeding import integers, normal

device = torch.device("cpu")


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


class LSQ(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, alpha, g, Qn, Qp):
        ctx.save_for_backward(weight, alpha)
        ctx.other = g, Qn, Qp
        return torch.round(torch.div(weight, alpha).clamp(Qn, Qp)) * alpha

    @staticmethod
    def backward(ctx, grad_weight):
        weight, alpha = ctx.saved_tensors
        g, Qn, Qp = ctx.other
        q_w = weight / alpha
        smaller = (q_w < Qn).float()
        bigger = (q_w > Qp).float()
        between = 1.0 - smaller - bigger
        grad_alpha = (
            (
                (
                    smaller * Qn
                    + bigger * Qp
                    + between * RoundSTE.apply(q_w)
                    - between * q_w
                )
                * grad_weight
                * g
            )
            .sum()
            .unsqueeze(dim=0)
        )
        return between * grad_weight, grad_alpha, None, None, None


class QuantLinear(nn.Linear):
    def __init__(self, i, o, bits=4):
        super().__init__(i, o)
        self.Qn, self.Qp = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        self.s = nn.Parameter(torch.ones(1))
        self.register_buffer("init_state", torch.zeros(1))

    def forward(self, x):
        if self.training and self.init_state == 0:
            self.s.data.copy_(2 * self.weight.abs().mean() / math.sqrt(self.Qp))
            self.init_state.fill_(1)
        g = 1.0 / math.sqrt(self.weight.numel() * self.Qp)
        return F.linear(
            x, LSQ.apply(self.weight, self.s, g, self.Qn, self.Qp), self.bias
        )


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.fc1 = spectral_norm(nn.Linear(16, 8))
        self.sym = nn.Linear(8, 8)
        parametrize.register_parametrization(self.sym, "weight", Symmetric())
        self.wn = weight_norm(nn.Linear(8, 8), dim=0)
        self.q = QuantLinear(8, 3)

    def forward(self, x):
        x = F.avg_pool2d(F.relu6(self.bn(self.conv(x))), 2).flatten(1)
        x = torch.tanh(self.fc1(x))
        return self.q(F.hardswish(self.wn(F.celu(self.sym(x)))))


def train(steps):
    model = Net()
    for name, p in model.named_parameters():
        with torch.no_grad():
            p.copy_(
                torch.from_numpy(normal(*p.shape, seed=len(name))) * 0.4
                + (1.0 if name.endswith(("bn.weight", "original0")) else 0.0)
            )
    pm = model.fc1.parametrizations.weight[0]
    pm._u.copy_(F.normalize(torch.from_numpy(normal(8, seed=4)), dim=0))
    pm._v.copy_(F.normalize(torch.from_numpy(normal(16, seed=5)), dim=0))
    model = model.to(device)
    prune.l1_unstructured(model.q, "weight", amount=0.2)
    prune.ln_structured(model.conv, name="weight", amount=1, n=2, dim=0)
    stats = {}

    def hook(mod, inp, out):
        stats.setdefault(type(mod).__name__, []).append(
            out.detach().abs().mean().item()
        )

    handles = [
        m.register_forward_hook(hook) for m in model.modules() if not list(m.children())
    ]
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    swa, swal = (
        AveragedModel(model.wn),
        SWALR(opt, swa_lr=0.02, anneal_epochs=3, anneal_strategy="cos"),
    )
    x, y = (
        torch.tensor(normal(8, 1, 6, 6)).to(device),
        torch.tensor(integers(3, 8)).to(device),
    )
    out = []
    for i in range(steps):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        if i > steps // 2:
            swa.update_parameters(model.wn)
            swal.step()
        out += [loss.item(), opt.param_groups[0]["lr"]]
    for h in handles:
        h.remove()
    out += [sum(v) for k, v in sorted(stats.items())]
    update_bn([(torch.tanh(x.flatten(1)[:, :8]), y)], swa)
    swa.eval()
    out += swa(torch.sin(x.flatten(1)[:, :8])).flatten().tolist()[:4]
    prune.remove(model.q, "weight")
    prune.remove(model.conv, "weight")
    parametrize.remove_parametrizations(model.sym, "weight", leave_parametrized=True)
    out.append(parametrize.is_parametrized(model.sym))
    out += [
        float((m.weight == 0).sum()) / m.weight.nelement()
        for m in (model.q, model.conv)
    ]
    model.eval()
    fused = fuse_conv_bn_eval(model.conv, model.bn)
    out.append((fused(x) - model.bn(model.conv(x))).abs().max().item() < 1e-5)
    vec = parameters_to_vector(model.parameters())
    vector_to_parameters(vec * 0.5, model.parameters())
    out += [vec.norm().item(), model.q.weight.norm().item(), len(model.state_dict())]
    return out + sorted(len(k) for k in model.state_dict())
