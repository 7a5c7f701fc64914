"""A PINN with Laplacians and jacobians by functorch, a GP by Cholesky, custom Functions, KAN-like splines, DeepONet, FNO by rfft2."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import grad, Function
from torch.func import (
    vmap,
    jacrev,
    hessian,
    grad as fgrad,
    functional_call,
    stack_module_state,
)
from torch.autograd.functional import jacobian

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")
torch.set_default_dtype(torch.float32)


class Swish(Function):
    @staticmethod
    def forward(ctx, i):
        result = i * i.sigmoid()
        ctx.save_for_backward(result, i)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        result, i = ctx.saved_tensors
        sigmoid_x = i.sigmoid()
        return grad_output * (result + sigmoid_x * (1 - result))


class GradReverse(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.alpha, None


class Round(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable()
        return torch.round(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g.clone()


class PINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential()
        self.net.add_module("linear_layer_1", nn.Linear(2, 12))
        self.net.add_module("tanh_layer_1", nn.Tanh())
        for num in range(2, 3):
            self.net.add_module("linear_layer_%d" % (num), nn.Linear(12, 12))
            self.net.add_module("tanh_layer_%d" % (num), nn.Tanh())
        self.net.add_module("out", nn.Linear(12, 1))

    def forward(self, x):
        return self.net(x)


def derivative(dy, x, order=1):
    for i in range(order):
        dy = grad(
            dy,
            x,
            grad_outputs=torch.ones_like(dy),
            create_graph=True,
            retain_graph=True,
        )[0]
    return dy


class SpectralConv2d(nn.Module):
    def __init__(self, ci, co, m1, m2):
        super().__init__()
        self.m1, self.m2, self.co = m1, m2, co
        self.scale = 1 / (ci * co)
        self.wr = nn.Parameter(self.scale * torch.rand(ci, co, m1, m2, 2))
        self.wi = nn.Parameter(self.scale * torch.rand(ci, co, m1, m2, 2))

    def compl_mul2d(self, input, weights):
        return torch.einsum("bixy,ioxy->boxy", input, weights)

    def forward(self, x):
        b = x.shape[0]
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(
            b,
            self.co,
            x.size(-2),
            x.size(-1) // 2 + 1,
            dtype=torch.cfloat,
            device=x.device,
        )
        out_ft[:, :, : self.m1, : self.m2] = self.compl_mul2d(
            x_ft[:, :, : self.m1, : self.m2], torch.view_as_complex(self.wr)
        )
        out_ft[:, :, -self.m1 :, : self.m2] = self.compl_mul2d(
            x_ft[:, :, -self.m1 :, : self.m2], torch.view_as_complex(self.wi)
        )
        return torch.fft.irfft2(out_ft, s=(x.size(-2), x.size(-1)))


def b_splines(x, grid, k):
    x = x.unsqueeze(-1)
    bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
    for k in range(1, k + 1):
        bases = (
            (x - grid[:, : -(k + 1)])
            / (grid[:, k:-1] - grid[:, : -(k + 1)])
            * bases[:, :, :-1]
        ) + (
            (grid[:, k + 1 :] - x)
            / (grid[:, k + 1 :] - grid[:, 1:(-k)])
            * bases[:, :, 1:]
        )
    return bases.contiguous()


class KANLinear(nn.Module):
    def __init__(self, i, o, grid=5, order=3):
        super().__init__()
        h = 2 / grid
        g = (torch.arange(-order, grid + order + 1) * h - 1).expand(i, -1).contiguous()
        self.register_buffer("grid", g)
        self.order = order
        self.base_weight, self.spline_weight = (
            nn.Parameter(torch.empty(o, i)),
            nn.Parameter(torch.empty(o, i, grid + order)),
        )
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))

    def forward(self, x):
        return F.linear(F.silu(x), self.base_weight) + F.linear(
            b_splines(x, self.grid, self.order).view(x.size(0), -1),
            self.spline_weight.view(self.spline_weight.size(0), -1),
        )


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_ls, self.log_s, self.log_n = (
            nn.Parameter(torch.tensor(v)) for v in (0.0, 0.0, -2.0)
        )

    def k(self, a, b):
        d = torch.cdist(
            a / self.log_ls.exp(),
            b / self.log_ls.exp(),
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        return self.log_s.exp() * torch.exp(-0.5 * d**2)

    def nll(self, x, y):
        K = self.k(x, x) + (self.log_n.exp() + 1e-5) * torch.eye(
            len(x), device=x.device
        )
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y, L)
        self.L, self.alpha = L, alpha
        return (
            0.5 * (y.T @ alpha).squeeze()
            + L.diagonal().log().sum()
            + 0.5 * len(x) * math.log(2 * math.pi)
        )

    @torch.no_grad()
    def predict(self, x, xs):
        Ks = self.k(x, xs)
        v = torch.linalg.solve_triangular(self.L, Ks, upper=False)
        return (Ks.mT @ self.alpha).squeeze(-1), (self.k(xs, xs) - v.mT @ v).diag()


def train(steps):
    res = []
    pinn = seeded(PINN()).to(device)
    t = torch.linspace(0, 1, 10).reshape(-1, 1)
    xt = torch.cartesian_prod(torch.linspace(-1, 1, 5), torch.linspace(0, 1, 4)).to(
        device
    )
    opt = torch.optim.Adam(pinn.parameters(), lr=5e-3)
    params = dict(pinn.named_parameters())
    for i in range(steps):
        x, tt = xt[:, 0:1].clone().requires_grad_(), xt[:, 1:2].clone().requires_grad_()
        u = pinn(torch.hstack((x, tt)))
        u_t, u_x = derivative(u, tt), derivative(u, x)
        u_xx = derivative(u, x, order=2)
        f = u_t + u * u_x - 0.01 / math.pi * u_xx
        ic = pinn(torch.cat([x.detach(), torch.zeros_like(tt)], 1)) + torch.sin(
            math.pi * x.detach()
        )

        def u_fn(p, point):
            return functional_call(pinn, p, (point.unsqueeze(0),)).squeeze()

        H = vmap(hessian(u_fn, argnums=1), in_dims=(None, 0))(params, xt[:3])
        loss = (
            f.square().mean()
            + ic.pow(2).mean()
            + 1e-3 * H.diagonal(dim1=-2, dim2=-1).sum(-1).pow(2).mean()
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        res.append(loss.item())
    J = jacobian(lambda p: pinn(p).squeeze(-1), xt[:2])
    J2 = vmap(jacrev(lambda p: pinn(p)))(xt[:2])
    res += [J.abs().sum().item(), J2.abs().sum().item()]
    gp = GP().to(device)
    gx, gy = (
        torch.from_numpy(normal(9, 2)).to(device),
        torch.from_numpy(normal(9, 1, seed=4)).to(device),
    )
    opt = torch.optim.LBFGS(
        gp.parameters(), lr=0.1, max_iter=4, line_search_fn="strong_wolfe"
    )
    for i in range(3):

        def closure():
            opt.zero_grad()
            loss = gp.nll(gx, gy)
            loss.backward()
            return loss

        res.append(opt.step(closure).item())
    mean, var = gp.predict(gx, gx[:3] + 0.1)
    res += mean.tolist() + var.tolist()
    net = nn.ModuleDict(
        {
            "kan": KANLinear(3, 4),
            "out": nn.Linear(4, 2),
            "fno": SpectralConv2d(2, 3, 2, 2),
            "w": nn.Conv2d(2, 3, 1),
            "dom": nn.Linear(4, 2),
        }
    )
    seeded(net)
    net.to(device)
    opt = torch.optim.RAdam(net.parameters(), lr=1e-2)
    x, img = (
        torch.from_numpy(normal(6, 3)).to(device).clamp(-0.99, 0.99),
        torch.from_numpy(normal(2, 2, 6, 6)).to(device),
    )
    for i in range(steps):
        h = Swish.apply(net["kan"](x))
        l1 = F.cross_entropy(net.out(h), torch.arange(6, device=device) % 2)
        l2 = F.cross_entropy(
            net.dom(GradReverse.apply(h, 0.5)), torch.arange(6, device=device) // 3
        )
        q = Round.apply(h * 4) / 4
        f = F.gelu(net.fno(img) + net.w(img))
        loss = (
            l1
            + l2
            + (q - h.detach()).square().mean()
            + F.l1_loss(f, torch.zeros_like(f))
            + torch.linalg.vector_norm(f.flatten(1), dim=1).mean()
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        res.append(loss.item())
    models = [seeded(nn.Linear(3, 1), k).to(device) for k in range(3)]
    p, b = stack_module_state(models)
    base = nn.Linear(3, 1).to(device)
    out = vmap(
        lambda pp, bb, xx: functional_call(base, (pp, bb), (xx,)), in_dims=(0, 0, None)
    )(p, b, x)
    per_sample = vmap(
        fgrad(lambda pp, xx: functional_call(base, pp, (xx,)).sum()), in_dims=(None, 0)
    )({k: v[0] for k, v in p.items()}, x)
    res += [out.sum().item(), per_sample["weight"].norm().item()]
    return res
