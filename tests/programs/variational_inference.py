"""Stochastic variational inference: a planar flow, mixtures, LKJ factors, many densities and divergences."""

import torch
import torch.distributions as D
from torch import nn
from torch.distributions import constraints, biject_to

from tests.programs.seeding import normal

device = torch.device("cpu")


class Planar(D.Transform):
    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, u, w, b):
        super().__init__(cache_size=1)
        self.u, self.w, self.b = u, w, b

    def _call(self, x):
        return x + self.u * torch.tanh(x @ self.w + self.b).unsqueeze(-1)

    def log_abs_det_jacobian(self, x, y):
        psi = (1 - torch.tanh(x @ self.w + self.b).pow(2)).unsqueeze(-1) * self.w
        return (1 + psi @ self.u).abs().clamp_min(1e-6).log()


def train(steps):
    x = torch.from_numpy(normal(20, 3)).to(device)
    y = (
        (x @ torch.tensor([1.0, -0.5, 0.3], device=device) + 0.2)
        .exp()
        .round()
        .clamp(max=8)
    )
    raw = nn.ParameterDict(
        {
            "loc": nn.Parameter(torch.zeros(4)),
            "scale": nn.Parameter(torch.zeros(4)),
            "u": nn.Parameter(torch.full((4,), 0.1)),
            "w": nn.Parameter(torch.full((4,), 0.2)),
            "b": nn.Parameter(torch.zeros(())),
            "conc": nn.Parameter(torch.zeros(())),
            "mix": nn.Parameter(torch.zeros(3)),
            "locs": nn.Parameter(torch.tensor([-1.0, 0.0, 1.0])),
            "corr": nn.Parameter(torch.zeros(3)),
            "df": nn.Parameter(torch.tensor(1.0)),
        }
    ).to(device)
    opt = torch.optim.Adam(raw.parameters(), lr=0.02)
    res = []
    for step in range(steps):
        base = D.Independent(
            D.Normal(raw["loc"], biject_to(constraints.positive)(raw["scale"])), 1
        )
        eps = torch.from_numpy(normal(6, 4, seed=step)).to(device)
        z0 = base.base_dist.loc + base.base_dist.scale * eps
        flow = Planar(raw["u"], raw["w"], raw["b"])
        z = flow(z0)
        log_q = base.log_prob(z0) - flow.log_abs_det_jacobian(z0, z)
        rate = (z[:, :3] @ x.t() + z[:, 3:]).clamp(-5, 3)
        conc = torch.nn.functional.softplus(raw["conc"]) + 0.5
        ll = D.NegativeBinomial(conc, logits=rate - conc.log()).log_prob(y).sum(-1)
        prior = D.MultivariateNormal(
            torch.zeros(4, device=device), torch.eye(4, device=device) * 4
        ).log_prob(z)
        mix = D.MixtureSameFamily(
            D.Categorical(logits=raw["mix"]),
            D.StudentT(2 + raw["df"].exp(), raw["locs"], 0.7),
        )
        L = biject_to(constraints.corr_cholesky)(raw["corr"])
        lk = D.LKJCholesky(3, torch.tensor(2.0, device=device)).log_prob(L)
        mvn = (
            D.MultivariateNormal(torch.zeros(3, device=device), scale_tril=L)
            .log_prob(x)
            .mean()
        )
        low = (
            D.LowRankMultivariateNormal(
                torch.zeros(3, device=device), L[:, :1], L.diagonal().square() + 0.1
            )
            .log_prob(x)
            .mean()
        )
        dirichlet = D.Dirichlet(raw["mix"].exp() + 0.5)
        kls = (
            D.kl_divergence(dirichlet, D.Dirichlet(torch.ones(3, device=device)))
            + D.kl_divergence(D.Gamma(raw["df"].exp() + 1, 2.0), D.Gamma(2.0, 2.0))
            + D.kl_divergence(D.Beta(raw["df"].exp() + 1, 2.0), D.Beta(2.0, 2.0))
            + D.kl_divergence(D.Laplace(raw["b"], 1.0), D.Laplace(0.0, 2.0))
            + D.kl_divergence(D.Bernoulli(logits=raw["b"]), D.Bernoulli(0.3))
            + D.kl_divergence(D.Poisson(raw["conc"].exp()), D.Poisson(2.0))
            + D.kl_divergence(
                D.Categorical(logits=raw["mix"]),
                D.Categorical(torch.ones(3, device=device) / 3),
            )
        )
        others = (
            D.VonMises(raw["b"], 2.0).log_prob(x[:, 0]).mean()
            + D.LogNormal(raw["b"], 1.0).log_prob(y + 1).mean()
            + D.Weibull(1.0, raw["conc"].exp()).log_prob(y + 1).mean()
            + D.Pareto(0.5, raw["conc"].exp()).log_prob(y + 1).mean()
            + D.Gumbel(raw["b"], 1.0).log_prob(x[:, 1]).mean()
            + D.Kumaraswamy(raw["conc"].exp(), 2.0).log_prob(x[:, 2].sigmoid()).mean()
            + D.ContinuousBernoulli(logits=raw["b"]).log_prob(x[:, 2].sigmoid()).mean()
            + D.HalfCauchy(raw["conc"].exp()).log_prob(y + 0.1).mean()
            + D.Geometric(logits=raw["b"]).log_prob(y).mean()
            + D.Binomial(8, logits=raw["b"]).log_prob(y).mean()
            + D.RelaxedOneHotCategorical(
                torch.tensor(0.5, device=device), logits=raw["mix"]
            )
            .log_prob(torch.softmax(x, 1))
            .mean()
            + D.InverseGamma(raw["conc"].exp() + 1, 2.0).log_prob(y + 1).mean()
            + D.FisherSnedecor(raw["df"].exp() + 2, 4.0).log_prob(y + 0.5).mean()
            + D.Multinomial(6, logits=raw["mix"]).log_prob(
                torch.tensor([1.0, 2.0, 3.0], device=device)
            )
        )
        loss = (
            (log_q - ll - prior).mean() / 20
            - mix.log_prob(x).mean()
            - 0.1 * lk
            - mvn
            - low
            + kls
            - 0.1 * others
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        res += [
            loss.item(),
            mix.mean.item(),
            mix.variance.item(),
            dirichlet.entropy().item(),
        ]
    t = D.ComposeTransform(
        [
            D.AffineTransform(1.0, 2.0),
            D.SigmoidTransform(),
            D.PowerTransform(torch.tensor(2.0, device=device)),
        ]
    )
    td = D.TransformedDistribution(
        D.Normal(torch.zeros(3, device=device), 1.0),
        [t],
    )
    res += [
        td.log_prob(torch.tensor([0.2, 0.5, 0.8], device=device)).sum().item(),
        td.cdf(torch.tensor([0.2, 0.5, 0.8], device=device)).sum().item(),
        td.icdf(torch.tensor([0.2, 0.5, 0.8], device=device)).sum().item(),
    ]
    return res
