"""Speech recognition: convolution over time, a GRU, CTC."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class DeepSpeech(nn.Module):
    def __init__(self, n_feature=8, n_hidden=12, n_class=6):
        super().__init__()
        self.conv = nn.Conv1d(n_feature, n_hidden, kernel_size=5, stride=2, padding=2)
        self.norm = nn.BatchNorm1d(n_hidden)
        self.gru = nn.GRU(n_hidden, n_hidden, bidirectional=True)
        self.fc = nn.Linear(2 * n_hidden, n_class)

    def forward(self, x):
        x = F.hardtanh(self.norm(self.conv(x)), 0, 20)
        x = x.permute(2, 0, 1)
        x, _ = self.gru(x)
        return F.log_softmax(self.fc(x), dim=2)


def train(steps):
    spectrograms = torch.from_numpy(normal(3, 8, 30)).to(device)
    labels = torch.from_numpy(integers(5, 3, 5)) + 1
    label_lengths = torch.tensor([5, 3, 4])
    model = seeded(DeepSpeech()).to(device)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, amsgrad=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=5e-3, total_steps=steps + 1, cycle_momentum=False
    )
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(spectrograms)
        input_lengths = torch.full((3,), output.size(0), dtype=torch.long)
        loss = criterion(output, labels.to(device), input_lengths, label_lengths)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    path = output.argmax(dim=-1).transpose(0, 1)
    decoded = [torch.unique_consecutive(row).tolist() for row in path.cpu()]
    length = sum(len([c for c in row if c != 0]) for row in decoded)
    return [*losses, float(length)]
