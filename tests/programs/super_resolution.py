"""Sub-pixel convolution: pixel shuffle, orthogonal initial weights, PSNR."""

from math import log10

import torch
import torch.nn as nn
import torch.nn.init as init
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super(Net, self).__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, 8, (3, 3), (1, 1), (1, 1))
        self.conv4 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        return self.pixel_shuffle(self.conv4(x))

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv2.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv4.weight)


def train(steps):
    target = torch.sigmoid(torch.from_numpy(normal(12, 1, 12, 12)))
    small = nn.functional.interpolate(
        target, scale_factor=0.5, mode="bicubic", align_corners=False
    )
    loader = DataLoader(TensorDataset(small, target), batch_size=4, num_workers=0)
    model = Net(upscale_factor=2)
    eye = model.conv2.weight.detach().flatten(1)
    assert torch.allclose(eye @ eye.t(), 2 * torch.eye(8), atol=1e-4)
    model = seeded(model).to(device)
    criterion = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=0.001)
    results = []
    for epoch in range(steps // 3 + 1):
        epoch_loss = 0
        for iteration, batch in enumerate(loader, 1):
            input, target = batch[0].to(device), batch[1].to(device)
            optimizer.zero_grad()
            loss = criterion(model(input), target)
            epoch_loss += loss.item()
            loss.backward()
            optimizer.step()
        results.append(epoch_loss / len(loader))
        avg_psnr = 0
        with torch.no_grad():
            for batch in loader:
                input, target = [t.to(device) for t in batch]
                mse = criterion(model(input).clamp(0, 1), target)
                avg_psnr += 10 * log10(1 / mse.item())
        results.append(avg_psnr / len(loader))
    back = nn.PixelUnshuffle(2)(model(small.to(device)))
    out_img_y = back[0].cpu()
    out_img_y *= 255.0
    out_img_y = out_img_y.clip(0, 255).detach().numpy()
    results.append(float(out_img_y.mean()))
    return results
