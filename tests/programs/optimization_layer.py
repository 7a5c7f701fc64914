"""A quadratic programme as a layer: KKT systems, implicit gradients, a portfolio."""

import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class QPFunction(torch.autograd.Function):
    """min 1/2 z'Qz + p'z with Az = b and Gz <= h, by a primal-dual interior point."""

    generate_vmap_rule = False

    @staticmethod
    def forward(ctx, Q, p, G, h, A, b):
        n, m, e = p.shape[-1], h.shape[-1], b.shape[-1]
        z = p.new_zeros(p.shape)
        s, lam = torch.ones_like(h), torch.ones_like(h)
        nu = p.new_zeros(*p.shape[:-1], e)
        for _ in range(10):
            mu = (s * lam).mean(-1, keepdim=True) * 0.1
            r1 = bmv(Q, z) + p + bmv(G.mT, lam) + bmv(A.mT, nu)
            r2, r3, r4 = bmv(A, z) - b, bmv(G, z) + s - h, s * lam - mu
            K = QPFunction.kkt(Q, G, A, s, lam)
            rhs = -torch.cat([r1, r3 - r4 / lam, r2], -1)
            step = torch.linalg.solve(K, rhs[..., None])[..., 0]
            dz, dlam, dnu = step.split([n, m, e], dim=-1)
            ds = -(r4 + s * dlam) / lam
            alpha = torch.ones_like(mu)
            for value, change in ((s, ds), (lam, dlam)):
                ratio = torch.where(change < 0, -value / change, torch.inf)
                alpha = torch.minimum(alpha, 0.95 * ratio.amin(-1, keepdim=True))
            z, s, lam = z + alpha * dz, s + alpha * ds, lam + alpha * dlam
            nu = nu + alpha * dnu
        ctx.save_for_backward(Q, G, A, z, s, lam, nu)
        ctx.mark_non_differentiable(lam)
        return z, lam

    @staticmethod
    def kkt(Q, G, A, s, lam):
        m, e = G.shape[-2], A.shape[-2]
        top = torch.cat([Q, G.mT, A.mT], dim=-1)
        corner = torch.block_diag(torch.eye(m), torch.zeros(e, e)).to(Q)
        corner = corner.expand(*Q.shape[:-2], -1, -1).clone()
        diagonal = torch.diagonal(corner[..., :m, :m], dim1=-2, dim2=-1)
        diagonal.copy_(-s / lam)
        bottom = torch.cat([torch.cat([G, A], dim=-2), corner], dim=-1)
        return torch.cat([top, bottom], dim=-2)

    @staticmethod
    def backward(ctx, dl_dz, _):
        Q, G, A, z, s, lam, nu = ctx.saved_tensors
        n, m, e = z.shape[-1], lam.shape[-1], nu.shape[-1]
        K = QPFunction.kkt(Q, G, A, s, lam)
        rhs = -nn.functional.pad(dl_dz, (0, m + e))
        LU, pivots = torch.linalg.lu_factor(K)
        d = torch.linalg.lu_solve(LU, pivots, rhs.unsqueeze(-1)).squeeze(-1)
        dz, dlam, dnu = torch.tensor_split(d, (n, n + m), dim=-1)
        outer = torch.einsum("...i,...j->...ij", dz, z)
        dQ = 0.5 * (outer + outer.transpose(-1, -2))
        dG = bger(lam, dz) + bger(dlam, z)
        dA = bger(nu, dz) + bger(dnu, z)
        grads = [dQ, dz, dG, -dlam, dA, -dnu]
        shapes = [
            each if need else None for each, need in zip(grads, ctx.needs_input_grad)
        ]
        return tuple(shapes)


def bmv(matrix, vector):
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def bger(x, y):
    return x.unsqueeze(2).bmm(y.unsqueeze(1))


class Portfolio(nn.Module):
    def __init__(self, features, assets):
        super().__init__()
        self.returns = nn.Sequential(
            nn.Linear(features, 16), nn.Mish(), nn.LazyLinear(assets)
        )
        self.factor = nn.Parameter(0.1 * torch.eye(assets))
        self.log_risk = nn.Parameter(torch.zeros(1))
        self.assets = assets

    def forward(self, x):
        batch, n = len(x), self.assets
        L = torch.tril(self.factor)
        Q = self.log_risk.exp() * (L @ L.T) + 0.1 * torch.eye(n, device=x.device)
        wide = {k: v.expand(batch, *v.shape) for k, v in self.constraints(x).items()}
        z, lam = QPFunction.apply(
            Q.repeat(batch, 1, 1), -self.returns(x), *wide.values()
        )
        return z, lam

    def constraints(self, x):
        n = self.assets
        eye = torch.eye(n).to(x)
        G, h = torch.vstack([-eye, eye]), x.new_zeros(2 * n)
        h[n:] = 0.6
        return {"G": G, "h": h, "A": x.new_ones(1, n), "b": x.new_ones(1)}


def train(steps):
    x = torch.from_numpy(normal(12, 5)).to(device)
    mixing = torch.from_numpy(normal(5, 4, seed=3)).to(device)
    realized = torch.tanh(x @ mixing)
    model = Portfolio(5, 4)
    model(x.cpu())
    model = seeded(model)
    with torch.no_grad():
        model.factor.copy_(0.3 * torch.eye(4) + 0.05)
        model.log_risk.zero_()
    model.to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, momentum=0.5)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        z, lam = model(x)
        assert not lam.requires_grad
        gain = torch.linalg.vecdot(z, realized)
        loss = -gain.mean() + 0.5 * gain.var(correction=0)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    active = torch.count_nonzero(lam > 1e-3).item()
    return losses + [active, z.sum(-1).mean().item()]
