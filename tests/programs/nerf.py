"""A radiance field: positional encoding, stratified samples, volume rendering."""

import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def positional_encoding(x, num_freqs):
    encoded = [x]
    for i in range(num_freqs):
        for fn in (torch.sin, torch.cos):
            encoded.append(fn(2.0**i * x))
    return torch.cat(encoded, dim=-1)


def get_rays(height, width, focal):
    i, j = torch.meshgrid(
        torch.arange(width, dtype=torch.float32),
        torch.arange(height, dtype=torch.float32),
        indexing="xy",
    )
    directions = torch.stack(
        [(i - width * 0.5) / focal, -(j - height * 0.5) / focal, -torch.ones_like(i)],
        dim=-1,
    )
    origins = torch.zeros(3).expand(directions.shape)
    return origins.reshape(-1, 3), directions.reshape(-1, 3)


class NeRF(nn.Module):
    def __init__(self, num_freqs=3, width=24):
        super().__init__()
        d_in = 3 * (1 + 2 * num_freqs)
        self.num_freqs = num_freqs
        self.layers = nn.ModuleList(
            [nn.Linear(d_in, width)]
            + [
                nn.Linear(width + d_in, width) if i == 1 else nn.Linear(width, width)
                for i in range(3)
            ]
        )
        self.alpha = nn.Linear(width, 1)
        self.rgb = nn.Linear(width, 3)

    def forward(self, points):
        encoded = positional_encoding(points, self.num_freqs)
        h = encoded
        for i, layer in enumerate(self.layers):
            h = torch.relu(layer(h))
            if i == 1:
                h = torch.cat([h, encoded], dim=-1)
        return torch.cat([self.rgb(h), self.alpha(h)], dim=-1)


def render(raw, z_vals, rays_d):
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, 1e10 * torch.ones_like(dists[..., :1])], dim=-1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    alpha = 1.0 - torch.exp(-nn.functional.relu(raw[..., 3]) * dists)
    trans = torch.cumprod(
        torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], dim=-1), dim=-1
    )[:, :-1]
    weights = alpha * trans
    rgb_map = torch.sum(weights[..., None] * torch.sigmoid(raw[..., :3]), dim=-2)
    return rgb_map, torch.sum(weights * z_vals, -1)


def train(steps):
    origins, directions = get_rays(4, 6, 3.0)
    origins, directions = origins.to(device), directions.to(device)
    target = torch.sigmoid(torch.from_numpy(normal(24, 3))).to(device)
    jitter = torch.sigmoid(torch.from_numpy(normal(24, 8, seed=4))).to(device)
    near, far, n_samples = 0.5, 3.0, 8
    model = seeded(NeRF()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    losses = []
    for _ in range(steps):
        z_vals = torch.linspace(near, far, n_samples, device=device)
        z_vals = z_vals.expand(len(origins), n_samples)
        mids = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
        upper = torch.cat([mids, z_vals[..., -1:]], -1)
        lower = torch.cat([z_vals[..., :1], mids], -1)
        z_vals = lower + (upper - lower) * jitter
        points = origins[:, None] + directions[:, None] * z_vals[..., :, None]
        rgb, depth = render(model(points), z_vals, directions)
        loss = torch.mean((rgb - target) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        psnr = -10.0 * torch.log10(loss.detach())
        losses += [loss.item(), psnr.item()]
    return [*losses, depth.mean().item()]
