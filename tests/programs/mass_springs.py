"""A simulation of springs with collisions and quaternions, and sphere tracing with masks, trained through."""

import torch
from torch import nn

from tests.programs.seeding import normal

device = torch.device("cpu")


def quat_mul(a, b):
    aw, ax, ay, az = torch.unbind(a, -1)
    bw, bx, by, bz = torch.unbind(b, -1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        -1,
    )


def simulate(x, v, springs, rest, stiff, steps, dt=0.02):
    energy = x.new_zeros(())
    for k in range(steps):
        i, j = springs.T
        d = x[j] - x[i]
        n = d.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        f = stiff[:, None] * (n - rest[:, None]) * d / n
        force = torch.zeros_like(x)
        force.index_add_(0, i, f)
        force.index_add_(0, j, -f)
        force[..., 1] -= 1.0
        v = (v + dt * force) * 0.999
        x = x + dt * v
        below = x[:, 1] < -1
        x = torch.where(
            below[:, None], torch.stack([x[:, 0], -2 - x[:, 1], x[:, 2]], -1), x
        )
        v = v.clone()
        v[below, 1] *= -0.5
        energy += 0.5 * (v**2).sum() / steps
    return x, v, energy


def train(steps):
    n = 6
    x0 = torch.from_numpy(normal(n, 3)).to(device)
    springs = torch.combinations(torch.arange(n), 2)[::2].to(device)
    stiff = nn.Parameter(torch.full((len(springs),), 5.0, device=device))
    rest = nn.Parameter(torch.ones(len(springs), device=device))
    v0 = nn.Parameter(torch.zeros(n, 3, device=device))
    q = nn.Parameter(torch.tensor([1.0, 0.1, -0.2, 0.3], device=device))
    target = torch.from_numpy(normal(n, 3, seed=9)).to(device)
    opt = torch.optim.Adam([stiff, rest, v0, q], lr=0.02)
    res = []
    for step in range(steps):
        unit = q / q.norm()
        conj = unit * unit.new_tensor([1.0, -1, -1, -1])
        pure = nn.functional.pad(x0, (1, 0))
        turned = quat_mul(quat_mul(unit.expand_as(pure), pure), conj.expand_as(pure))[
            ..., 1:
        ]
        x, v, e = simulate(turned, v0, springs, rest, stiff, 12)
        R = torch.linalg.qr(torch.eye(3, device=device) + 0.1 * x[:3])[0]
        loss = (
            (x - target).abs().pow(1.5).sum(-1).mean()
            + 0.01 * e
            + 0.001 * (R @ R.mT - torch.eye(3, device=device)).square().sum()
        )
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(
            [stiff, rest, v0, q], 1.0, norm_type=float("inf")
        )
        opt.step()
        res += [loss.item(), e.item()]
    # sdf sphere tracing with masked in-place updates
    c = nn.Parameter(torch.tensor([0.1, 0.0, 2.0], device=device))
    r = nn.Parameter(torch.tensor(0.8, device=device))
    dirs = nn.functional.normalize(
        torch.cat([torch.from_numpy(normal(30, 2) * 0.2), torch.ones(30, 1)], 1), dim=1
    ).to(device)
    o2 = torch.optim.SGD([c, r], lr=0.05)
    for step in range(steps):
        with torch.no_grad():
            depth = torch.zeros(len(dirs), device=device)
            active = torch.ones(len(dirs), dtype=torch.bool, device=device)
            for _ in range(16):
                sdf = (dirs[active] * depth[active, None] - c).norm(dim=-1) - r
                depth[active] += sdf
                active[active.clone()] = (sdf > 1e-3) & (depth[active] < 5)
                if not active.any():
                    break
            hit = ~active & (depth < 5)
        p = dirs[hit] * depth[hit, None]
        pp = p.detach().requires_grad_()
        val = (pp - c).norm(dim=-1) - r
        (nrm,) = torch.autograd.grad(val.sum(), pp, create_graph=True)
        shade = (nrm * -dirs[hit]).sum(-1).clamp_min(0)
        img = torch.zeros(len(dirs), device=device).masked_scatter(hit, shade)
        loss = (img - 0.5).square().mean() + 0.1 * val.square().sum()
        o2.zero_grad()
        loss.backward()
        o2.step()
        res += [loss.item(), float(hit.sum())]
    return res
