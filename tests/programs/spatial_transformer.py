"""A spatial transformer: affine_grid and grid_sample inside a classifier."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, kernel_size=3)
        self.conv2_drop = nn.Dropout2d(0.0)
        self.fc1 = nn.Linear(4 * 5 * 5, 4)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=3),
            nn.MaxPool2d(2, stride=2),
            nn.ReLU(True),
            nn.AdaptiveMaxPool2d(3),
        )
        self.fc_loc = nn.Sequential(
            nn.Linear(36, 8), nn.ReLU(True), nn.Linear(8, 3 * 2)
        )

    def stn(self, x):
        xs = self.localization(x)
        xs = xs.view(-1, 36)
        theta = self.fc_loc(xs)
        theta = theta.view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False, padding_mode="border")

    def forward(self, x):
        x = self.stn(x)
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv1(x)), 2))
        return F.log_softmax(self.fc1(x.view(-1, 100)), dim=1)


def train(steps):
    data = torch.from_numpy(normal(8, 1, 12, 12)).to(device)
    target = torch.from_numpy(integers(4, 8)).to(device)
    model = seeded(Net()).to(device)
    model.fc_loc[2].weight.data.mul_(0.05)
    model.fc_loc[2].bias.data.copy_(
        torch.tensor([0.9, 0.13, 0.05, -0.1, 1.1, 0.03], dtype=torch.float)
    )
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    results = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    with torch.no_grad():
        moved = model.stn(data).cpu()
        mean = moved.numpy().transpose((0, 2, 3, 1)).mean((1, 2)).ravel()
    return results + mean.tolist()
