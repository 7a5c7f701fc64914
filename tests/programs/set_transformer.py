"""Set transformers: inducing points, pooling by attention, padded sets, Chamfer and mixture losses."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MAB(nn.Module):
    def __init__(self, dim_Q, dim_K, dim_V, num_heads, ln=False):
        super(MAB, self).__init__()
        self.dim_V = dim_V
        self.num_heads = num_heads
        self.fc_q = nn.Linear(dim_Q, dim_V)
        self.fc_k = nn.Linear(dim_K, dim_V)
        self.fc_v = nn.Linear(dim_K, dim_V)
        if ln:
            self.ln0 = nn.LayerNorm(dim_V)
            self.ln1 = nn.LayerNorm(dim_V)
        self.fc_o = nn.Linear(dim_V, dim_V)

    def forward(self, Q, K, pad=None):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        scores = Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim_V)
        if pad is not None:
            scores = scores.masked_fill(
                pad.repeat(self.num_heads, 1)[:, None], float("-inf")
            )
        A = torch.softmax(scores, 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = O if getattr(self, "ln0", None) is None else self.ln0(O)
        O = O + F.relu(self.fc_o(O))
        return O if getattr(self, "ln1", None) is None else self.ln1(O)


class ISAB(nn.Module):
    def __init__(self, dim_in, dim_out, num_heads, num_inds, ln=False):
        super().__init__()
        self.I = nn.Parameter(torch.Tensor(1, num_inds, dim_out))
        nn.init.xavier_uniform_(self.I)
        self.mab0 = MAB(dim_out, dim_in, dim_out, num_heads, ln=ln)
        self.mab1 = MAB(dim_in, dim_out, dim_out, num_heads, ln=ln)

    def forward(self, X, pad=None):
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X, pad)
        return self.mab1(X, H)


class PMA(nn.Module):
    def __init__(self, dim, num_heads, num_seeds, ln=False):
        super().__init__()
        self.S = nn.Parameter(torch.Tensor(1, num_seeds, dim))
        nn.init.xavier_uniform_(self.S)
        self.mab = MAB(dim, dim, dim, num_heads, ln=ln)

    def forward(self, X, pad=None):
        return self.mab(self.S.repeat(X.size(0), 1, 1), X, pad)


class SetTransformer(nn.Module):
    def __init__(self, k=3, dim=8):
        super().__init__()
        self.first, self.second = ISAB(2, dim, 2, 4, ln=True), ISAB(dim, dim, 2, 4)
        self.pool, self.own = PMA(dim, 2, k), MAB(dim, dim, dim, 2)
        self.out = nn.Linear(dim, 5)

    def forward(self, x, pad):
        h = self.pool(self.second(self.first(x, pad), pad), pad)
        pi, mu, sigma = self.out(self.own(h, h)).split([1, 2, 2], -1)
        return pi.squeeze(-1).log_softmax(-1), mu, F.softplus(sigma) + 0.1


def chamfer(a, b, pad):
    distance = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    there = distance.masked_fill(pad[:, None], math.inf).amin(-1).mean(-1)
    back = distance.min(dim=1)[0].masked_fill(pad, 0).sum(-1) / (~pad).sum(-1)
    return (there + back).mean()


def train(steps):
    model = seeded(SetTransformer()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    results = []
    for step in range(steps):
        sizes = [3 + (step + k) % 4 for k in range(5)]
        sets = [
            torch.from_numpy(normal(n, 2, seed=7 * step + k) + k % 3)
            for k, n in enumerate(sizes)
        ]
        x = pad_sequence(sets, batch_first=True, padding_value=-100.0).to(device)
        lengths = torch.as_tensor(sizes, device=device)
        pad = torch.arange(x.size(1), device=device)[None, :] >= lengths[:, None]
        x = x.masked_fill(pad.unsqueeze(-1), 0)
        pi, mu, sigma = model(x, pad)
        gap = (x.unsqueeze(2) - mu.unsqueeze(1)) / sigma.unsqueeze(1)
        log_p = (
            -0.5 * gap.pow(2).sum(-1)
            - sigma.log().sum(-1).unsqueeze(1)
            - math.log(2 * math.pi)
        )
        nll = -torch.logsumexp(log_p + pi.unsqueeze(1), 2)[~pad].mean()
        loss = nll + 0.1 * chamfer(mu, x, pad)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
        if step % 5 == 0:
            order = torch.argsort(
                pad.float() + torch.rand(x.shape[:2], device=device) * 0,
                dim=1,
                stable=True,
            ).flip(1)
            turned = torch.take_along_dim(x, order.unsqueeze(-1), 1)
            again, _, _ = model(turned, pad.gather(1, order))
            results.append(float((again - pi).abs().max() < 1e-4))
    return results
