"""A Conformer: macaron halves, GLU and depthwise convolutions, relative shifts, CTC joined with an attention decoder."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class ConvModule(nn.Module):
    def __init__(self, dim: int, kernel: int = 3) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.sequential = nn.Sequential(
            nn.Conv1d(dim, 2 * dim, 1),
            nn.GLU(dim=1),
            nn.Conv1d(
                dim,
                dim,
                kernel,
                padding=(kernel - 1) // 2,
                groups=dim,
                padding_mode="zeros",
            ),
            nn.BatchNorm1d(dim),
            nn.SiLU(),
            nn.Conv1d(dim, dim, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.sequential(self.norm(x).transpose(1, 2)).transpose(1, 2)


class RelativeAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.qkv = nn.ModuleDict({k: nn.Linear(dim, dim) for k in "qkv"})
        self.pos, self.out = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim)
        self.u = nn.Parameter(torch.zeros(heads, self.size))
        self.v = nn.Parameter(torch.zeros(heads, self.size))

    def forward(self, x: Tensor, pe: Tensor, mask: Tensor) -> Tensor:
        b, n, _ = x.size()
        q, k, v = (
            self.qkv[key](x).view(b, n, self.heads, self.size) for key in self.qkv
        )
        p = self.pos(pe).view(1, -1, self.heads, self.size).permute(0, 2, 3, 1)
        content = torch.matmul((q + self.u).transpose(1, 2), k.permute(0, 2, 3, 1))
        place = torch.matmul((q + self.v).transpose(1, 2), p)
        place = (
            F.pad(place, (1, 0))
            .view(b, self.heads, -1, n)[:, :, 1:]
            .view(b, self.heads, n, -1)
        )
        score = (content + place[..., :n]) / self.size**0.5
        score.masked_fill_(mask.unsqueeze(1).unsqueeze(1), -1e4)
        context = torch.matmul(F.softmax(score, -1), v.transpose(1, 2)).transpose(1, 2)
        return self.out(context.contiguous().view(b, n, -1))


class Conformer(nn.Module):
    def __init__(self, features: int = 8, dim: int = 12, tokens: int = 9) -> None:
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 4, 3, 1, 1), nn.ReLU()
        )
        self.project = nn.LazyLinear(dim)
        ff = lambda: nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 24), nn.SiLU(), nn.Linear(24, dim)
        )
        self.ff1, self.ff2, self.conv = ff(), ff(), ConvModule(dim)
        self.norm, self.attention = nn.LayerNorm(dim), RelativeAttention(dim, 2)
        self.last = nn.LayerNorm(dim)
        self.ctc = nn.Linear(dim, tokens)
        layer = nn.TransformerDecoderLayer(
            dim, 2, 24, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, 1, norm=nn.LayerNorm(dim))
        self.embed = nn.Embedding(tokens, dim, padding_idx=0)

    @staticmethod
    def positions(n: int, dim: int, place: torch.device) -> Tensor:
        at = torch.arange(n - 1, -n, -1, dtype=torch.float, device=place).unsqueeze(1)
        step = torch.exp(torch.arange(0, dim, 2, device=place).float() * -(9.2 / dim))
        pe = torch.zeros(2 * n - 1, dim, device=place)
        pe[:, 0::2] = torch.sin(at * step)
        pe[:, 1::2] = torch.cos(at * step)
        return pe

    def forward(self, x: Tensor, lengths: Tensor, tokens: Tensor):
        x = self.subsample(x.unsqueeze(1))
        x = self.project(x.permute(0, 2, 1, 3).flatten(2))
        lengths = torch.div(lengths - 1, 2, rounding_mode="floor")
        mask = torch.arange(x.size(1), device=x.device).expand(
            len(x), -1
        ) >= lengths.unsqueeze(1)
        x = x + 0.5 * self.ff1(x)
        x = x + self.attention(
            self.norm(x), self.positions(x.size(1), x.size(2), x.device), mask
        )
        x = x + self.conv(x).masked_fill(mask.unsqueeze(-1), 0.0)
        x = self.last(x + 0.5 * self.ff2(x))
        causal = nn.Transformer.generate_square_subsequent_mask(
            tokens.size(1), device=x.device
        )
        y = self.decoder(
            self.embed(tokens),
            x,
            tgt_mask=causal,
            memory_key_padding_mask=mask.float() * -1e4,
            tgt_is_causal=True,
        )
        return self.ctc(x).log_softmax(-1), lengths, F.linear(y, self.embed.weight)


def train(steps):
    model = Conformer()
    model(
        torch.zeros(1, 15, 8), torch.tensor([15]), torch.zeros(1, 2, dtype=torch.long)
    )
    seeded(model)
    with torch.no_grad():
        model.embed.weight[0].fill_(0)
    model.to(device).train()
    model.conv.sequential[3].reset_running_stats()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9
    )
    noam = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: 0.05 * 12**-0.5 * min((step + 1) ** -0.5, (step + 1) * 8**-1.5),
    )
    x = torch.from_numpy(normal(4, 15, 8)).to(device)
    lengths = torch.tensor([15, 11, 13, 15], device=device)
    labels = torch.from_numpy(integers(8, 4, 3)).to(device) + 1
    sizes = torch.tensor([3, 2, 3, 1], device=device)
    given = F.pad(labels, (1, 0), value=1)[:, :-1]
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    ce = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
    results = []
    for _ in range(steps):
        log_probs, out_lengths, logits = model(x, lengths, given)
        one = ctc(log_probs.transpose(0, 1), labels, out_lengths, sizes)
        loss = 0.3 * one + 0.7 * ce(logits.transpose(1, 2), labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0, error_if_nonfinite=True)
        optimizer.step()
        noam.step()
        results += [loss.item(), one.item()]
    best = log_probs.argmax(-1)
    results += [
        float(sum(len(torch.unique_consecutive(row)) for row in best)),
        noam.get_last_lr()[0],
    ]
    results.append(model.embed.weight.grad[0].abs().sum().item())
    return results
