"""A residual network with batch norm, momentum, weight decay and a step schedule."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(
            in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(
            planes, planes, kernel_size=3, stride=1, padding=1, bias=False
        )
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(planes),
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block, num_blocks, num_classes=10):
        super(ResNet, self).__init__()
        self.in_planes = 8
        self.conv1 = nn.Conv2d(3, 8, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = self._make_layer(block, 8, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(block, 16, num_blocks[1], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.linear = nn.Linear(16 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, block, planes, num_blocks, stride):
        strides = [stride] + [1] * (num_blocks - 1)
        layers = []
        for stride in strides:
            layers.append(block(self.in_planes, planes, stride))
            self.in_planes = planes * block.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.layer2(self.layer1(out))
        out = torch.flatten(self.avgpool(out), 1)
        return self.linear(out)


def train(steps):
    images = torch.from_numpy(normal(24, 3, 12, 12))
    labels = torch.from_numpy(integers(10, 24))
    net = seeded(ResNet(BasicBlock, [1, 1])).to(device)
    optimizer = optim.SGD(
        net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = optim.lr_scheduler.MultiStepLR(optimizer, milestones=[8, 14], gamma=0.1)
    losses = []
    for step in range(steps):
        net.train()
        batch = slice(step % 3 * 8, step % 3 * 8 + 8)
        inputs, targets = images[batch].to(device), labels[batch].to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(inputs), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    net.eval()
    with torch.inference_mode():
        _, predicted = net(images.to(device)).max(1)
    total = sum(p.numel() for p in net.parameters() if p.requires_grad)
    losses.append(float(total))
    losses.append(predicted.cpu().eq(labels).sum().item() / labels.size(0))
    return losses
