"""A linear dynamical system: a Kalman filter's likelihood learnt; an HMM's forward algorithm."""

import torch
from torch import nn

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class LDS(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.A = nn.Parameter(torch.eye(n) * 0.9)
        self.C = nn.Parameter(torch.from_numpy(normal(m, n, seed=3)) * 0.5)
        self.log_q, self.log_r = (
            nn.Parameter(torch.full((n,), -1.0)),
            nn.Parameter(torch.zeros(m)),
        )
        self.register_buffer("I", torch.eye(n))

    def forward(self, ys):
        mean, P, ll = ys.new_zeros(self.I.shape[0], 1), self.I.clone(), 0.0
        Q, R = torch.diag(self.log_q.exp()), torch.diag_embed(self.log_r.exp())
        for y in ys:
            mean, P = self.A @ mean, self.A @ P @ self.A.t() + Q
            S = self.C @ P @ self.C.mT + R
            residual = y[:, None] - self.C @ mean
            gain = torch.linalg.solve(S, self.C @ P).transpose(-2, -1)
            ll = (
                ll
                - 0.5 * (residual.t() @ torch.inverse(S) @ residual).squeeze()
                - 0.5 * torch.logdet(2 * torch.pi * S)
            )
            mean = mean + gain @ residual
            P = (self.I - gain @ self.C) @ P
            P = 0.5 * (P + P.T)
        return ll


class HMM(nn.Module):
    def __init__(self, M, N):
        super().__init__()
        self.transition, self.emission = (
            nn.Parameter(torch.randn(N, N)),
            nn.Parameter(torch.randn(N, M)),
        )
        self.priors = nn.Parameter(torch.randn(N))
        self.N = N

    def forward(self, x, T):
        batch_size, T_max = x.shape
        log_priors = torch.nn.functional.log_softmax(self.priors, dim=0)
        emission = torch.log_softmax(self.emission, 1)
        alpha = torch.zeros(batch_size, T_max, self.N).to(x.device)
        alpha[:, 0, :] = emission[:, x[:, 0]].transpose(0, 1) + log_priors
        for t in range(1, T_max):
            A = self.transition.log_softmax(0)
            alpha[:, t, :] = emission[:, x[:, t]].transpose(0, 1) + torch.logsumexp(
                A.unsqueeze(0) + alpha[:, t - 1, None, :], dim=2
            )
        log_sums = alpha.logsumexp(dim=2)
        return torch.gather(log_sums, 1, T.view(-1, 1) - 1)

    @torch.no_grad()
    def viterbi(self, x):
        emission, A = self.emission.log_softmax(1), self.transition.log_softmax(0)
        delta, psi = [emission[:, x[0]] + self.priors.log_softmax(0)], []
        for t in range(1, len(x)):
            best, arg = torch.max(A + delta[-1].unsqueeze(0), dim=1)
            delta.append(best + emission[:, x[t]])
            psi.append(arg)
        path = [delta[-1].argmax().item()]
        for arg in psi[::-1]:
            path.insert(0, arg[path[0]].item())
        return path


def train(steps):
    ys = torch.from_numpy(normal(8, 2)).cumsum(0).to(device) * 0.3
    lds = LDS(3, 2).to(device)
    hmm = seeded(HMM(5, 3)).to(device)
    x, T = (
        torch.from_numpy(integers(5, 4, 6)).to(device),
        torch.tensor([6, 4, 5, 2]).to(device),
    )
    optimizer = torch.optim.Adam(
        [{"params": lds.parameters()}, {"params": hmm.parameters(), "lr": 0.05}],
        lr=0.01,
    )
    results = []
    for _ in range(steps // 2):
        optimizer.zero_grad()
        a, b = -lds(ys), -hmm(x, T).mean()
        (a + b).backward()
        optimizer.step()
        results += [a.item(), b.item()]
    return results + [float(s) for s in hmm.viterbi(x[0])]
