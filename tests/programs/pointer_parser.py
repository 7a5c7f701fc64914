"""A pointer network with masked logits, sampling by top-p and top-k, and a repetition penalty."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class PointerNet(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed, self.enc, self.cell = (
            nn.Linear(2, d),
            nn.LSTM(d, d, batch_first=True),
            nn.LSTMCell(d, d),
        )
        self.W1, self.W2, self.v = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d, bias=False),
            nn.Parameter(torch.ones(d)),
        )
        self.start = nn.Parameter(torch.zeros(d))

    def forward(self, x, target=None):
        B, N, _ = x.size()
        e = self.embed(x)
        enc, (h, c) = self.enc(e)
        h, c = h[-1], c[-1]
        inp = self.start.expand(B, -1)
        visited = torch.zeros(B, N, dtype=torch.bool, device=x.device)
        logps, chosen = [], []
        keys = self.W1(enc)
        for i in range(N):
            h, c = self.cell(inp, (h, c))
            u = (torch.tanh(keys + self.W2(h).unsqueeze(1)) * self.v).sum(-1)
            u[visited] = float("-inf")
            logp = F.log_softmax(10 * torch.tanh(u / 10) if i == 0 else u, dim=-1)
            index = target[:, i] if target is not None else logp.argmax(-1)
            logps.append(logp.gather(1, index[:, None]).squeeze(1))
            visited = visited.scatter(1, index.unsqueeze(1), True)
            chosen.append(index)
            inp = e[torch.arange(B, device=x.device), index]
        return torch.stack(logps, 1), torch.stack(chosen, 1)


def top_k_top_p_filtering(logits, top_k=0, top_p=0.0, filter_value=-float("Inf")):
    top_k = min(top_k, logits.size(-1))
    if top_k > 0:
        indices_to_remove = logits < torch.topk(logits, top_k)[0][..., -1, None]
        logits[indices_to_remove] = filter_value
    if top_p > 0.0:
        sorted_logits, sorted_indices = torch.sort(logits, descending=True)
        cumulative_probs = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
        sorted_indices_to_remove = cumulative_probs > top_p
        sorted_indices_to_remove[..., 1:] = sorted_indices_to_remove[..., :-1].clone()
        sorted_indices_to_remove[..., 0] = 0
        indices_to_remove = sorted_indices_to_remove.scatter(
            -1, sorted_indices, sorted_indices_to_remove
        )
        logits[indices_to_remove] = filter_value
    return logits


def apply_repetition_penalty(logits, prev, penalty=1.3):
    score = torch.gather(logits, 1, prev)
    score = torch.where(score < 0, score * penalty, score / penalty)
    logits.scatter_(1, prev, score)
    for i, row in enumerate(prev):
        for token in set(row.tolist()):
            logits[i, token] -= 0.01
    return logits


def train(steps):
    model = seeded(PointerNet()).to(device)
    nn.init.ones_(model.v)
    x = torch.from_numpy(normal(6, 5, 2)).to(device)
    target = x[..., 0].argsort(dim=1)
    optimizer = torch.optim.RAdam(model.parameters(), lr=0.02)
    results = []
    for _ in range(steps // 2):
        logp, _ = model(x, target)
        loss = -logp.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    model.eval()
    with torch.no_grad():
        logp, chosen = model(x)
        results += chosen.float().flatten().tolist() + [
            (chosen == target).all(1).float().mean().item()
        ]
        logits = torch.from_numpy(normal(3, 12, seed=8)).to(device)
        prev = torch.tensor([[1, 2], [3, 4], [11, 0]]).to(device)
        for k, p in ((0, 0.7), (5, 0.0), (4, 0.6)):
            filtered = top_k_top_p_filtering(
                apply_repetition_penalty(logits.clone(), prev), k, p
            )
            probs = F.softmax(filtered, dim=-1)
            results += probs.max(-1)[0].tolist() + [(probs > 0).sum().item()]
            draw = torch.multinomial(probs, 1)
            assert (probs.gather(1, draw) > 0).all()
    return results
