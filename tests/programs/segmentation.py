"""A U-Net for segmentation with transposed convolutions and a Dice loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, 2, stride=2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels=1, n_classes=3):
        super().__init__()
        self.inc = DoubleConv(n_channels, 4)
        self.down = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.up = Up(8, 4)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)
        self.bilinear = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)

    def forward(self, x):
        x1 = self.inc(x)
        x = self.up(self.down(x1), x1)
        return self.bilinear(self.outc(x))


def dice_loss(input, target, epsilon=1e-6):
    inter = 2 * (input * target).sum(dim=(-1, -2))
    sets_sum = input.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    dice = (inter + epsilon) / (sets_sum + epsilon)
    return 1 - dice.mean()


def train(steps):
    images = torch.from_numpy(normal(2, 1, 9, 10))
    large = F.interpolate(images, scale_factor=2, mode="bilinear", align_corners=True)
    masks = (large > 0).long().squeeze(1) + (large > 0.7).long().squeeze(1)
    images, masks = images.to(device), masks.to(device)
    net = seeded(UNet()).to(device=device, memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(
        net.parameters(), lr=1e-5, weight_decay=1e-8, momentum=0.9, foreach=True
    )
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=2)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    losses = []
    for step in range(steps):
        net.train()
        with torch.autocast("cpu", enabled=False):
            predicted = net(images)
            loss = F.cross_entropy(predicted, masks)
            one_hot = F.one_hot(masks, 3).permute(0, 3, 1, 2).float()
            loss += dice_loss(F.softmax(predicted, dim=1).float(), one_hot)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step(-loss.item())
        losses.append(loss.item())
    return [*losses, optimizer.param_groups[0]["lr"]]
