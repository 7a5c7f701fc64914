"""The classic digit classifier: StepLR, nll_loss, an evaluation loop, a checkpoint."""

import argparse
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Digits(Dataset):
    def __init__(self, count, transform=None, target_transform=None):
        self.labels = integers(4, count)
        self.images = normal(count, 1, 12, 12)
        for image, label in zip(self.images, self.labels):
            image[0, 3 * (label // 2) : 3 * (label // 2) + 3, :] += 1.5
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        image, label = torch.from_numpy(self.images[idx]), int(self.labels[idx])
        if self.transform:
            image = self.transform(image)
        if self.target_transform:
            label = self.target_transform(label)
        return image, label


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.dropout2 = nn.Dropout2d(p=0.0)
        self.fc1 = nn.Linear(128, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x), inplace=True)
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train_epoch(args, model, device, train_loader, optimizer, losses):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(
                "{} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                    batch_idx,
                    batch_idx * len(data),
                    len(train_loader.dataset),
                    100.0 * batch_idx / len(train_loader),
                    loss.item(),
                ),
                file=io.StringIO(),
            )
        losses.append(loss.item())


def evaluate(model, device, test_loader):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    test_loss /= len(test_loader.dataset)
    return [test_loss, float(correct)]


def train(steps):
    args = argparse.Namespace(log_interval=2, gamma=0.7, lr=1.0)
    torch.manual_seed(1)
    use_cuda = torch.cuda.is_available() and False
    kwargs = {"batch_size": 8}
    if use_cuda:
        kwargs.update({"num_workers": 1, "pin_memory": True, "shuffle": True})

    def normalize(image):
        return (image - 0.13) / 0.3081

    train_loader = DataLoader(Digits(32, normalize), **kwargs)
    test_loader = DataLoader(Digits(10, normalize), batch_size=4)
    model = seeded(Net()).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    losses = []
    for _ in range(1, steps // 4 + 1):
        train_epoch(args, model, device, train_loader, optimizer, losses)
        losses += evaluate(model, device, test_loader)
        scheduler.step()
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    other = Net().to(device)
    print(
        other.load_state_dict(torch.load(buffer, map_location=device)),
        file=io.StringIO(),
    )
    return losses + evaluate(other, device, test_loader) + [scheduler.get_last_lr()[0]]
