"""One loss of eighty functions: sorts, windows, special functions, decompositions, scatters."""

import torch

from tests.programs.seeding import normal

device = torch.device("cpu")


def train(steps):
    w = torch.from_numpy(normal(6, 7)).to(device).requires_grad_()
    t = torch.linspace(0, 1, 7, device=device)
    opt = torch.optim.Rprop([w], lr=0.01)
    res = []
    for k in range(steps):
        opt.zero_grad()
        s = torch.sort(w, dim=1).values
        area = torch.trapezoid(w, t, dim=1)
        cum = torch.cumulative_trapezoid(w, dx=0.5)
        (g0,) = torch.gradient(w, spacing=(t,), dim=1)
        d = torch.diff(w, n=2, dim=0, prepend=w[:1])
        q = torch.quantile(
            w, torch.tensor([0.25, 0.6], device=device), dim=1, interpolation="midpoint"
        )
        med = (
            w.nanmedian(1).values + w.kthvalue(3, dim=1).values + w.mode(1).values * 0.1
        )
        ren = torch.renorm(w, 2, 0, 1.5)
        blk = torch.block_diag(w[:2, :2], w[2:4, 2:5])
        comb = torch.combinations(w[0], 2).prod(1)
        v = torch.vander(w[1].detach(), 3)
        pd = torch.nn.functional.pdist(w)
        uf = w.unfold(1, 3, 2).amax(-1)
        ast = torch.as_strided(w, (3, 3), (7, 2), 1).det()
        lcs = (
            torch.logcumsumexp(w, 1)[:, -1]
            + torch.cummax(w, 1).values.mean(1)
            + torch.cumprod(w.sigmoid(), 1)[:, -1]
        )
        td = torch.tensordot(w, s, dims=([1], [1])).trace()
        st = (
            torch.special.xlogy(w.abs(), w.abs() + 1)
            + torch.special.entr(w.sigmoid())
            + torch.special.log_ndtr(w)
            + torch.special.erfcx(w.abs())
            + torch.special.i0e(w)
            + torch.digamma(w.abs() + 1)
            + torch.special.multigammaln(w.abs() + 2, 2)
            + torch.sinc(w)
            + torch.special.zeta(torch.full_like(w, 2.5), w.detach().abs() + 1) * w
        )
        hy = (
            torch.hypot(w, s)
            + torch.atan2(w, s.detach() + 3)
            + torch.logaddexp2(w, s)
            + torch.copysign(w, s)
            + torch.fmod(w, 0.7)
            + torch.remainder(w, -0.7)
            + torch.heaviside(w.detach(), t)
        )
        hist = torch.histc(w.detach(), 5, -2, 2)
        bk = torch.bucketize(w.detach(), t).sum()
        ss = (
            torch.searchsorted(s.detach().contiguous(), w.detach(), right=True)
            .float()
            .mean()
        )
        rot = torch.rot90(w[:, :6], 1).tril(1).flip(0).roll((1, 2), (0, 1))
        cr = torch.linalg.cross(w[:, :3], w[:, 3:6]).square().sum()
        mp = (
            torch.linalg.matrix_power(w[:, :6] * 0.3, 3).diagonal(1).sum()
            + torch.linalg.multi_dot([w, w.t(), w]).mean()
            + torch.matrix_exp(w[:3, :3] * 0.2).sum()
            + torch.linalg.slogdet(w @ w.t() + torch.eye(6, device=device))[1]
            + torch.linalg.pinv(w).norm()
            + torch.linalg.matrix_norm(w, "nuc")
        )
        cov = torch.cov(w).diagonal().sum() + torch.corrcoef(w)[0, 1]
        aw = torch.aminmax(w, dim=1)
        msk = torch.masked_select(w, w > 0).logsumexp(0)
        iz = torch.isin(
            torch.arange(6, device=device), torch.tensor([1, 3], device=device)
        )
        put = (
            w.clone()
            .index_put(
                (
                    torch.tensor([0, 0, 2], device=device),
                    torch.tensor([1, 1, 3], device=device),
                ),
                w[0, :3],
                accumulate=True,
            )
            .put_(torch.tensor([3, 5], device=device), w[3, :2])
            .index_fill(0, torch.tensor([4], device=device), 0.5)
            .scatter(1, torch.tensor([[2]], device=device), 0.0)
        )
        loss = sum(
            z.float().mean()
            for z in (
                area,
                cum,
                g0,
                d.abs(),
                q,
                med,
                ren,
                blk,
                comb,
                v,
                pd,
                uf,
                ast,
                lcs,
                td / 50,
                st,
                hy,
                rot,
                cr / 10,
                mp,
                cov,
                aw.max - aw.min,
                msk,
                w[iz],
                put,
            )
        )
        loss.backward()
        opt.step()
        res += [loss.item(), hist.sum().item(), float(bk), ss.item()]
    return res
