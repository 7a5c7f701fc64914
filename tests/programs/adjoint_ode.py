"""Neural ODEs as torchdiffeq: an adjoint Function over tuples, adaptive Dormand-Prince, augmented state, CNF traces."""

import torch
import torch.nn as nn
from torch.autograd import Function
from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def _flatten(sequence):
    flat = [p.contiguous().view(-1) for p in sequence]
    return torch.cat(flat) if len(flat) > 0 else torch.tensor([])


def _flatten_convert_none_to_zeros(sequence, like_sequence):
    flat = [
        p.contiguous().view(-1) if p is not None else torch.zeros_like(q).view(-1)
        for p, q in zip(sequence, like_sequence)
    ]
    return torch.cat(flat) if len(flat) > 0 else torch.tensor([])


class Tableau:
    alpha = [1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0]
    beta = [
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
    c_error = [
        35 / 384 - 1951 / 21600,
        0,
        500 / 1113 - 22642 / 50085,
        125 / 192 - 451 / 720,
        -2187 / 6784 - -12231 / 42400,
        11 / 84 - 649 / 6300,
        -1.0 / 60.0,
    ]


class Dopri5:
    def __init__(self, func, y0, rtol=1e-3, atol=1e-4):
        self.func, self.y, self.rtol, self.atol = func, y0, rtol, atol
        self.nfe = 0

    @torch.no_grad()
    def error_ratio(self, err, y0, y1):
        tol = self.atol + self.rtol * torch.max(y0.abs(), y1.abs())
        return (err / tol).abs().pow(2).mean().sqrt()

    def advance(self, t0, t1):
        t, y = t0, self.y
        dt = (t1 - t0) / 4
        sign = torch.sign(t1 - t0)
        while sign * (t1 - t) > 1e-6:
            if sign * (t + dt - t1) > 0:
                dt = t1 - t
            k = [self.func(t, y)]
            for a, b in zip(Tableau.alpha, Tableau.beta):
                yi = y + torch.stack(k, -1).matmul(
                    torch.tensor(b, dtype=y.dtype, device=y.device) * dt
                )
                k.append(self.func(t + a * dt, yi))
            self.nfe += 7
            err = sum(dt * c * ki for c, ki in zip(Tableau.c_error, k))
            ratio = self.error_ratio(err, y, yi)
            if ratio <= 1:
                t, y = t + dt, yi
            factor = (
                10.0 if ratio == 0 else min(10.0, max(0.2, 0.9 * ratio.item() ** -0.2))
            )
            dt = dt * factor
        self.y = y
        return y


class OdeintAdjoint(Function):
    @staticmethod
    def forward(ctx, shapes, func, y0, t, *adjoint_params):
        ctx.func = func
        with torch.no_grad():
            solver = Dopri5(func, y0)
            y = torch.stack(
                [y0] + [solver.advance(a, b) for a, b in zip(t[:-1], t[1:])]
            )
        ctx.save_for_backward(t, y, *adjoint_params)
        ctx.nfe = solver.nfe
        return y

    @staticmethod
    def backward(ctx, grad_y):
        with torch.no_grad():
            func = ctx.func
            t, y, *params = ctx.saved_tensors
            params = tuple(params)
            n = y[-1].numel()

            def augmented(s, state):
                ys = state[:n].view_as(y[0])
                adj = state[n : 2 * n].view_as(y[0])
                with torch.enable_grad():
                    s_ = s.detach()
                    s = s_.requires_grad_(True)
                    ys = ys.detach().requires_grad_(True)
                    f = func(s, ys)
                    vt, vy, *vp = torch.autograd.grad(
                        f, (s, ys) + params, -adj, allow_unused=True, retain_graph=True
                    )
                vy = torch.zeros_like(ys) if vy is None else vy
                vp = [
                    torch.zeros_like(p) if v is None else v for p, v in zip(params, vp)
                ]
                return torch.cat([f.reshape(-1), vy.reshape(-1), _flatten(vp)])

            state = torch.cat(
                [
                    y[-1].reshape(-1),
                    grad_y[-1].reshape(-1),
                    _flatten([torch.zeros_like(p) for p in params]),
                ]
            )
            for i in range(len(t) - 1, 0, -1):
                solver = Dopri5(augmented, state)
                state = solver.advance(t[i], t[i - 1]).clone()
                state[:n] = y[i - 1].reshape(-1)
                state[n : 2 * n] += grad_y[i - 1].reshape(-1)
            adj_y = state[n : 2 * n].view_as(y[0])
            grads, at = [], 2 * n
            for p in params:
                grads.append(state[at : at + p.numel()].view_as(p))
                at += p.numel()
        return (None, None, adj_y, None, *grads)


def odeint_adjoint(func, y0, t):
    params = tuple(p for p in func.parameters() if p.requires_grad)
    return OdeintAdjoint.apply(None, func, y0, t, *params)


class ConcatSquash(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self._layer, self._bias, self._gate = (
            nn.Linear(i, o),
            nn.Linear(1, o, bias=False),
            nn.Linear(1, o),
        )

    def forward(self, t, x):
        return self._layer(x) * torch.sigmoid(self._gate(t.view(1, 1))) + self._bias(
            t.view(1, 1)
        )


class CNF(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = ConcatSquash(2, 6), ConcatSquash(6, 2)
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, t, state):
        z = state[:, :2]
        with torch.set_grad_enabled(True):
            z = z if z.requires_grad else z.requires_grad_(True) if z.is_leaf else z
            dz = self.l2(t, torch.tanh(self.l1(t, z)))
            div = 0.0
            for i in range(2):
                div += (
                    torch.autograd.grad(dz[:, i].sum(), z, create_graph=True)[0]
                    .contiguous()[:, i]
                    .contiguous()
                )
        return torch.cat((dz, -div.view(z.shape[0], 1)), 1)


def train(steps):
    func = seeded(CNF()).to(device)
    opt = torch.optim.Adam(func.parameters(), lr=1e-2)
    x = torch.tensor(normal(5, 2)).to(device)
    t = torch.tensor([1.0, 0.4, 0.0]).type(torch.float32).to(device)
    p_z0 = torch.distributions.MultivariateNormal(
        loc=torch.tensor([0.0, 0.0]).to(device),
        covariance_matrix=torch.tensor([[0.5, 0.0], [0.0, 0.5]]).to(device),
    )
    out = []
    for itr in range(1, steps // 2 + 1):
        opt.zero_grad()
        y = odeint_adjoint(func, torch.cat([x, torch.zeros(5, 1, device=device)], 1), t)
        z0, logp = y[-1][:, :2], y[-1][:, 2]
        loss = -(p_z0.log_prob(z0).to(device) - logp.view(-1)).mean(0)
        loss.backward()
        opt.step()
        out += [loss.item(), func.l1._layer.weight.grad.norm().item()]
    return out
