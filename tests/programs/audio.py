"""WaveNet with mu-law, gated dilated convolutions; an audio CNN with CTC and greedy decoding; SpecAugment."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def mu_law_encode(x, mu=31):
    x_mu = (
        torch.sign(x)
        * torch.log1p(mu * torch.abs(x))
        / torch.log1p(torch.tensor(float(mu)))
    )
    return ((x_mu + 1) / 2 * mu + 0.5).to(torch.int64)


class CausalConv1d(nn.Conv1d):
    def __init__(self, i, o, k, dilation=1, **kwargs):
        self.__padding = (k - 1) * dilation
        super().__init__(
            i, o, kernel_size=k, padding=self.__padding, dilation=dilation, **kwargs
        )

    def forward(self, input):
        result = super().forward(input)
        return result[:, :, : -self.__padding] if self.__padding != 0 else result


class WaveNet(nn.Module):
    def __init__(self, q=32, c=8):
        super().__init__()
        self.emb = nn.Conv1d(q, c, 1)
        self.filters = nn.ModuleList([CausalConv1d(c, c, 2, 2**i) for i in range(3)])
        self.gates = nn.ModuleList([CausalConv1d(c, c, 2, 2**i) for i in range(3)])
        self.res = nn.ModuleList([nn.Conv1d(c, c, 1) for _ in range(3)])
        self.skip = nn.ModuleList([nn.Conv1d(c, c, 1) for _ in range(3)])
        self.out1, self.out2 = nn.Conv1d(c, c, 1), nn.Conv1d(c, q, 1)

    def forward(self, x):
        x, skips = self.emb(x), []
        for f, g, r, s in zip(self.filters, self.gates, self.res, self.skip):
            z = torch.tanh(f(x)) * torch.sigmoid(g(x))
            skips.append(s(z))
            x = r(z) + x
        return self.out2(F.relu(self.out1(F.relu(sum(skips)))))


class AudioCNN(nn.Module):
    def __init__(self, n_mels=8, classes=6):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=(2, 1), padding=1),
            nn.GELU(),
            nn.Conv2d(4, 4, 3, stride=(2, 1), padding=1),
            nn.GELU(),
        )
        self.rnn = nn.GRU(8, 8, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.conv(x)
        b, c, f, t = x.size()
        x = x.view(b, c * f, t).transpose(1, 2)
        x, _ = self.rnn(x)
        return F.log_softmax(self.fc(self.norm(x)), dim=2).transpose(0, 1)


def greedy(lp):
    out = []
    for row in lp.argmax(-1).T:
        u = torch.unique_consecutive(row)
        out.append([i for i in u.tolist() if i != 0])
    return out


def edit_distance(a, b):
    d = np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        prev, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
    return int(d[-1])


def train(steps):
    wav = torch.sin(torch.arange(4 * 24).view(4, 24).float() / 2) * 0.9
    codes = mu_law_encode(wav).to(device)
    net = seeded(WaveNet()).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps // 2):
        x = F.one_hot(codes[:, :-1], 32).float().permute(0, 2, 1)
        loss = F.cross_entropy(net(x), codes[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    net.eval()
    seq = codes[:1, :8].clone()
    with torch.no_grad():
        for _ in range(6):
            logits = net(F.one_hot(seq, 32).to(torch.float32).transpose(1, 2))[:, :, -1]
            seq = torch.cat([seq, logits.argmax(dim=1, keepdim=True)], 1)
    print(seq.tolist())
    spec = torch.from_numpy(normal(3, 1, 8, 20))
    spec[:, :, 2:4, :] = spec.mean()
    spec[0, :, :, 5:8].fill_(0)
    targets = torch.from_numpy(integers(5, 3, 4)) + 1
    input_lengths, target_lengths = torch.tensor([20, 18, 15]), torch.tensor([4, 3, 2])
    asr = seeded(AudioCNN(), 3).to(device)
    opt = torch.optim.AdamW(asr.parameters(), 2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=5e-3, steps_per_epoch=steps // 2, epochs=1, anneal_strategy="linear"
    )
    crit = nn.CTCLoss(blank=0, zero_infinity=True).to(device)
    for _ in range(steps // 2):
        lp = asr(spec.to(device))
        loss = crit(lp, targets.to(device), input_lengths, target_lengths)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        losses.append(loss.item())
    dec = greedy(lp.detach().cpu())
    return losses + [edit_distance(d, t.tolist()) for d, t in zip(dec, targets)]
