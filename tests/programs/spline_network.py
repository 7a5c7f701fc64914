"""A Kolmogorov-Arnold network: B-splines on edges, grids refitted by least squares."""

import math

import torch
import torch.nn.functional as F

from tests.programs.seeding import normal

device = torch.device("cpu")


class KANLinear(torch.nn.Module):
    def __init__(self, in_features, out_features, grid_size=4, spline_order=3):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.grid_size, self.spline_order = grid_size, spline_order
        h = 2 / grid_size
        knots = torch.arange(-spline_order, grid_size + spline_order + 1) * h - 1
        grid = knots.expand(in_features, -1).contiguous()
        self.register_buffer("grid", grid)
        self.base_weight = torch.nn.Parameter(torch.Tensor(out_features, in_features))
        self.spline_weight = torch.nn.Parameter(
            torch.Tensor(out_features, in_features, grid_size + spline_order)
        )
        self.spline_scaler = torch.nn.Parameter(torch.empty_like(self.base_weight))
        self.base_activation = torch.nn.SiLU()

    def reset_parameters(self, seed):
        with torch.no_grad():
            shape = self.base_weight.shape
            self.base_weight.copy_(torch.tensor(normal(*shape, seed=seed)))
            self.base_weight.data.div_(math.sqrt(self.in_features))
            self.spline_scaler.data.fill_(1 / math.sqrt(self.in_features))
            noise = torch.from_numpy(
                normal(self.grid_size + 1, *shape[::-1], seed=seed + 1) * 0.1
            )
            self.spline_weight.data.copy_(
                self.curve2coeff(
                    self.grid.T[self.spline_order : -self.spline_order], noise
                )
            )

    def b_splines(self, x):
        assert x.dim() == 2 and x.size(1) == self.in_features
        grid = self.grid
        x = x.unsqueeze(-1)
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.spline_order + 1):
            bases = (
                (x - grid[:, : -(k + 1)])
                / (grid[:, k:-1] - grid[:, : -(k + 1)])
                * bases[:, :, :-1]
            ) + (
                (grid[:, k + 1 :] - x)
                / (grid[:, k + 1 :] - grid[:, 1:(-k)])
                * bases[:, :, 1:]
            )
        return bases.contiguous()

    def curve2coeff(self, x, y):
        A = self.b_splines(x).transpose(0, 1)
        B = y.transpose(0, 1)
        eye = torch.eye(A.size(-1), device=A.device)
        normal_matrix = A.mT @ A + 1e-3 * eye
        solution = torch.linalg.solve(normal_matrix, A.mT @ B)
        return solution.permute(2, 0, 1).contiguous()

    @property
    def scaled_spline_weight(self):
        return self.spline_weight * self.spline_scaler.unsqueeze(-1)

    def forward(self, x):
        original_shape = x.shape
        x = x.view(-1, self.in_features)
        base_output = F.linear(self.base_activation(x), self.base_weight)
        spline_output = F.linear(
            self.b_splines(x).view(x.size(0), -1),
            self.scaled_spline_weight.view(self.out_features, -1),
        )
        return (base_output + spline_output).view(
            *original_shape[:-1], self.out_features
        )

    @torch.no_grad()
    def update_grid(self, x, margin=0.01, eps=0.05):
        batch = x.size(0)
        splines = self.b_splines(x).permute(1, 0, 2)
        coefficients = self.scaled_spline_weight.permute(1, 2, 0)
        unreduced = torch.bmm(splines, coefficients).permute(1, 0, 2)
        x_sorted = torch.sort(x, dim=0)[0]
        places = torch.linspace(
            0, batch - 1, self.grid_size + 1, dtype=torch.int64, device=x.device
        )
        adaptive = x_sorted[places]
        step = (x_sorted[-1] - x_sorted[0] + 2 * margin) / self.grid_size
        uniform = (
            torch.arange(
                self.grid_size + 1, dtype=torch.float32, device=x.device
            ).unsqueeze(1)
            * step
            + x_sorted[0]
            - margin
        )
        grid = eps * adaptive + (1 - eps) * uniform
        order = torch.arange(self.spline_order, 0, -1, device=x.device).unsqueeze(1)
        grid = torch.concatenate(
            [grid[:1] - step * order, grid, grid[-1:] + step * order.flip(0)], dim=0
        )
        self.grid.copy_(grid.T)
        fitted = self.curve2coeff(x, unreduced)
        self.spline_weight.data.copy_(fitted / self.spline_scaler.unsqueeze(-1))

    def regularization_loss(self, activation=1.0, entropy=1.0):
        l1_fake = self.spline_weight.abs().mean(-1)
        total = l1_fake.sum()
        p = l1_fake / total
        return activation * total - entropy * torch.sum(p * p.log())


class KAN(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for k, (m, n) in enumerate(zip(sizes, sizes[1:])):
            self.layers.append(KANLinear(m, n))
            self.layers[-1].reset_parameters(10 * k)

    def forward(self, x, update_grid=False):
        for layer in self.layers:
            if update_grid:
                layer.update_grid(x)
            x = layer(x)
        return x


def train(steps):
    x = torch.tanh(torch.from_numpy(normal(40, 2))).to(device)
    u, v = x.unbind(-1)
    y = torch.exp(torch.sin(torch.pi * u) + v**2)[:, None]
    model = KAN([2, 5, 1]).to(device)
    optimizer = torch.optim.NAdam(
        model.parameters(), lr=5e-3, decoupled_weight_decay=True
    )
    losses = []
    for step in range(steps):
        if step in (3, 9):
            model(x, update_grid=True)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        extra = sum(layer.regularization_loss() for layer in model.layers)
        (loss + 1e-4 * extra).backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [float(model.layers[0].grid.max())]
