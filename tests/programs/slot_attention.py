"""Slot attention: iterated competition for pixels, a broadcast decoder, ARI by pairs."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import init

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, iters=3, eps=1e-8, hidden_dim=24):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim**-0.5
        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_logsigma = nn.Parameter(torch.zeros(1, 1, dim))
        init.xavier_uniform_(self.slots_logsigma)
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden_dim),
            nn.ReLU(inplace=True),
            nn.Linear(hidden_dim, dim),
        )
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_pre_ff = nn.LayerNorm(dim)

    def forward(self, inputs, noise):
        b, n, d, dtype = *inputs.shape, inputs.dtype
        mu = self.slots_mu.expand(b, self.num_slots, -1)
        sigma = self.slots_logsigma.exp().expand(b, self.num_slots, -1)
        slots = mu + sigma * noise.to(device=inputs.device, dtype=dtype)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d))
            slots = slots.reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots, attn


def build_grid(resolution):
    ranges = [torch.linspace(0.0, 1.0, steps=res) for res in resolution]
    grid = torch.meshgrid(*ranges, indexing="ij")
    grid = torch.stack(grid, dim=-1)
    grid = torch.reshape(grid, [resolution[0], resolution[1], -1]).unsqueeze(0)
    return torch.cat([grid, 1.0 - grid], dim=-1)


class SoftPositionEmbed(nn.Module):
    def __init__(self, hidden_size, resolution):
        super().__init__()
        self.embedding = nn.Linear(4, hidden_size, bias=True)
        self.register_buffer("grid", build_grid(resolution))

    def forward(self, inputs):
        return inputs + self.embedding(self.grid)


class AutoEncoder(nn.Module):
    def __init__(self, resolution, num_slots, dim):
        super().__init__()
        self.resolution, self.num_slots = resolution, num_slots
        self.encoder = nn.Sequential(
            nn.Conv2d(3, dim, 5, padding="same"), nn.ReLU(),
            nn.Conv2d(dim, dim, 3, padding="same", padding_mode="replicate"),
        )  # fmt: skip
        self.encoder_pos = SoftPositionEmbed(dim, resolution)
        self.decoder_size = (4, 4)
        self.decoder_pos = SoftPositionEmbed(dim, self.decoder_size)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(dim, dim, 5, stride=(2, 2), padding=2, output_padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(dim, 4, kernel_size=3, padding=1),
        )
        self.norm, self.fc = nn.LayerNorm(dim), nn.Linear(dim, dim)
        self.slot_attention = SlotAttention(num_slots, dim)

    def forward(self, image, noise):
        x = self.encoder(image).permute(0, 2, 3, 1)
        x = torch.flatten(self.encoder_pos(x), 1, 2)
        slots, attn = self.slot_attention(self.fc(self.norm(x)), noise)
        wide = slots.reshape((-1, slots.shape[-1])).unsqueeze(1).unsqueeze(2)
        x = self.decoder_pos(wide.repeat((1, *self.decoder_size, 1)))
        x = self.decoder(x.permute(0, 3, 1, 2))
        recons, masks = x.unflatten(0, (len(image), -1)).split([3, 1], dim=2)
        masks = nn.Softmax(dim=1)(masks)
        return torch.sum(recons * masks, dim=1), masks, attn


def ari(true, pred):
    """Return the adjusted Rand index of two labellings."""
    table = torch.zeros(true.max() + 1, pred.max() + 1, dtype=torch.float64)
    table.index_put_((true, pred), torch.ones(len(true)).double(), accumulate=True)

    def pairs(n):
        return (n * (n - 1) / 2).sum()

    both, a, b = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    expected = a * b / pairs(torch.tensor(float(len(true))))
    return ((both - expected) / ((a + b) / 2 - expected + 1e-12)).item()


def train(steps):
    image = torch.zeros(2, 3, 8, 8)
    labels = torch.zeros(2, 8, 8, dtype=torch.long)
    squares = itertools.product(range(2), [(0, 1), (4, 5)])
    for number, (b, (i, j)) in enumerate(squares):
        image[b, number % 3, i : i + 3, j : j + 3] = 1.0
        labels[b, i : i + 3, j : j + 3] = number % 2 + 1
    image = image.to(device)
    model = seeded(AutoEncoder((8, 8), 3, 12)).to(device)
    groups = [
        {"params": [p for n, p in model.named_parameters() if "slot" in n]},
        {
            "params": [p for n, p in model.named_parameters() if "slot" not in n],
            "lr": 2e-3,
        },
    ]
    optimizer = torch.optim.Adam(groups, lr=4e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda k: min(1, (k + 1) / 5) * 0.5 ** (k / 40)
    )
    losses = []
    for step in range(steps):
        noise = torch.from_numpy(normal(2, 3, 12, seed=step))
        recon, masks, attn = model(image, noise)
        loss = ((recon - image) ** 2).mean()
        loss -= 1e-3 * torch.special.entr(masks.clamp(min=1e-6)).sum(1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        total = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert torch.isfinite(total)
        optimizer.step()
        warm.step()
        losses.append(loss.item())
    found = masks.argmax(dim=1).squeeze(1).cpu()
    scores = [ari(t.flatten(), p.flatten()) for t, p in zip(labels, found)]
    return losses + [np.mean(scores).item(), attn.sum(-1).mean().item()]
