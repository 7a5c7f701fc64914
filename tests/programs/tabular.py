"""Kaggle style: tabular with categorical embeddings, KFold by hand, OneCycle, OOF, early stopping class, TCN chomp, LSTM autoencoder, DAGMM-like energy, quantile loss, Huber, focal; seeds everywhere."""

import gc
import os
import random
import collections
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.utils import weight_norm
from torch.nn.utils.parametrizations import weight_norm as wn2
from torch.utils.data import (
    Dataset,
    DataLoader,
)

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class CFG:
    seed = 42
    n_fold = 3
    epochs = 2
    batch_size = 8
    lr = 1e-2
    print_freq = 10


def seed_everything(seed=42):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


class EarlyStopping:
    def __init__(self, patience=7, mode="min", delta=0.0001):
        (
            self.patience,
            self.counter,
            self.mode,
            self.best_score,
            self.early_stop,
            self.delta,
        ) = patience, 0, mode, None, False, delta
        self.val_score = np.inf if mode == "min" else -np.inf

    def __call__(self, epoch_score, model, store):
        score = -1.0 * epoch_score if self.mode == "min" else np.copy(epoch_score)
        if self.best_score is None or score >= self.best_score + self.delta:
            self.best_score = score
            if epoch_score not in [-np.inf, np.inf, -np.nan, np.nan]:
                store["best"] = {
                    k: v.cpu().clone() for k, v in model.state_dict().items()
                }
            self.counter = 0
        else:
            self.counter += 1
            if self.counter >= self.patience:
                self.early_stop = True


class TabDataset(Dataset):
    def __init__(self, cat, num, y=None):
        self.cat, self.num, self.y = cat, num, y

    def __len__(self):
        return len(self.cat)

    def __getitem__(self, idx):
        dct = {
            "cat": torch.tensor(self.cat[idx], dtype=torch.long),
            "num": torch.tensor(self.num[idx], dtype=torch.float),
        }
        if self.y is not None:
            dct["y"] = torch.tensor(self.y[idx], dtype=torch.float)
        return dct


class TabNet(nn.Module):
    def __init__(self, emb_dims, no_cont, size=16):
        super().__init__()
        self.emb_layers = nn.ModuleList([nn.Embedding(x, y) for x, y in emb_dims])
        no_emb = sum([y for x, y in emb_dims])
        self.first_bn_layer = nn.BatchNorm1d(no_cont)
        self.dropout1 = nn.Dropout(0.0)
        self.dense1 = nn.utils.weight_norm(nn.Linear(no_emb + no_cont, size))
        self.bn = nn.BatchNorm1d(size)
        self.dense2 = wn2(nn.Linear(size, 1))

    def forward(self, cont, cat):
        x = [emb_layer(cat[:, i]) for i, emb_layer in enumerate(self.emb_layers)]
        x = torch.cat(x, 1)
        x = torch.cat([x, self.first_bn_layer(cont)], 1)
        x = F.leaky_relu(self.dense1(self.dropout1(x)), 1e-3)
        return self.dense2(self.bn(x))


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, : -self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, i, o, k, d):
        super().__init__()
        self.conv1 = weight_norm(nn.Conv1d(i, o, k, padding=(k - 1) * d, dilation=d))
        self.net = nn.Sequential(
            self.conv1, Chomp1d((k - 1) * d), nn.ReLU(), nn.Dropout(0.0)
        )
        self.downsample = nn.Conv1d(i, o, 1) if i != o else None
        self.relu = nn.ReLU()

    def forward(self, x):
        res = x if self.downsample is None else self.downsample(x)
        return self.relu(self.net(x) + res)


class LSTMAutoencoder(nn.Module):
    def __init__(self, f, h):
        super().__init__()
        self.enc, self.dec, self.out = (
            nn.LSTM(f, h, batch_first=True),
            nn.LSTM(h, h, batch_first=True, proj_size=0),
            nn.Linear(h, f),
        )

    def forward(self, x):
        _, (h, _) = self.enc(x)
        y, _ = self.dec(h[-1].unsqueeze(1).repeat(1, x.shape[1], 1))
        return self.out(y)


class QuantileLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.quantiles = quantiles

    def forward(self, preds, target):
        losses = []
        for i, q in enumerate(self.quantiles):
            errors = target - preds[:, i]
            losses.append(torch.max((q - 1) * errors, q * errors).unsqueeze(1))
        return torch.mean(torch.sum(torch.cat(losses, dim=1), dim=1))


class FocalLoss(nn.Module):
    def __init__(self, alpha=1, gamma=2, logits=True, reduce=True):
        super().__init__()
        self.alpha, self.gamma, self.logits, self.reduce = alpha, gamma, logits, reduce

    def forward(self, inputs, targets):
        BCE_loss = (
            F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
            if self.logits
            else F.binary_cross_entropy(inputs, targets, reduce=False)
        )
        pt = torch.exp(-BCE_loss)
        F_loss = self.alpha * (1 - pt) ** self.gamma * BCE_loss
        return torch.mean(F_loss) if self.reduce else F_loss


def loss_fn(outputs, targets):
    return FocalLoss()(outputs, targets.view(-1, 1)) + FocalLoss(logits=False)(
        torch.sigmoid(outputs), targets.view(-1, 1)
    )


def train_fn(dataloader, model, optimizer, scheduler, out):
    model.train()
    losses = collections.defaultdict(list)
    for bi, d in enumerate(dataloader):
        for k in d:
            d[k] = d[k].to(device, dtype=torch.float if k != "cat" else torch.long)
        optimizer.zero_grad()
        loss = loss_fn(model(d["num"], d["cat"]), d["y"])
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses["train"].append(loss.detach().cpu().numpy())
    out.append(float(np.mean(losses["train"])))


def eval_fn(dataloader, model):
    model.eval()
    fin_outputs, total = [], 0.0
    with torch.no_grad():
        for d in dataloader:
            o = model(d["num"].to(device), d["cat"].to(device))
            total += loss_fn(o, d["y"].to(device)).item()
            fin_outputs.append(o.sigmoid().detach().cpu().numpy().reshape(-1))
    return np.concatenate(fin_outputs), total / len(dataloader)


def train(steps):
    seed_everything(CFG.seed)
    N = 24
    cat, num, y = (
        np.stack([integers(4, N), integers(3, N, seed=7)], 1),
        normal(N, 3),
        (normal(N, seed=3) > 0).astype(np.float64),
    )
    oof, res = np.zeros(N), []
    folds = np.arange(N) % CFG.n_fold
    for fold in range(CFG.n_fold):
        tr, va = np.where(folds != fold)[0], np.where(folds == fold)[0]
        tl = DataLoader(
            TabDataset(cat[tr], num[tr], y[tr]),
            batch_size=CFG.batch_size,
            shuffle=False,
            drop_last=True,
            num_workers=2,
        )
        vl = DataLoader(
            TabDataset(cat[va], num[va], y[va]), batch_size=CFG.batch_size * 2
        )
        model = seeded(TabNet([(4, 2), (3, 2)], 3), fold).to(device)
        optimizer = optim.Adam(model.parameters(), lr=CFG.lr, weight_decay=1e-5)
        scheduler = optim.lr_scheduler.OneCycleLR(
            optimizer,
            pct_start=0.1,
            div_factor=1e3,
            max_lr=1e-2,
            epochs=CFG.epochs,
            steps_per_epoch=len(tl),
        )
        es, store = EarlyStopping(2), {}
        for epoch in range(CFG.epochs):
            train_fn(tl, model, optimizer, scheduler, res)
            preds, vloss = eval_fn(vl, model)
            es(vloss, model, store)
            res.append(vloss)
        model.load_state_dict(store["best"])
        oof[va], _ = eval_fn(vl, model)
        del model, optimizer
        gc.collect()
        torch.cuda.empty_cache()
    res.append(float(oof.mean()))
    series = torch.sin(torch.arange(0, 40) * 0.3).float() + 0.1 * torch.from_numpy(
        normal(40)
    )
    win = series.unfold(0, 9, 1)
    X, Y = win[:, :-1].unsqueeze(1).to(device), win[:, -1].to(device)
    tcn = seeded(
        nn.Sequential(TemporalBlock(1, 4, 2, 1), TemporalBlock(4, 4, 2, 2))
    ).to(device)
    head = seeded(nn.Linear(4, 3)).to(device)
    opt = optim.RMSprop(
        [*tcn.parameters(), *head.parameters()], lr=5e-3, alpha=0.9, centered=True
    )
    plateau = optim.lr_scheduler.ReduceLROnPlateau(
        opt, "min", patience=1, factor=0.5, threshold=1e-1
    )
    ql = QuantileLoss([0.1, 0.5, 0.9])
    for i in range(steps):
        p = head(tcn(X)[:, :, -1])
        loss = ql(p, Y) + F.huber_loss(p[:, 1], Y, delta=0.5)
        opt.zero_grad()
        loss.backward()
        total_norm = nn.utils.clip_grad_norm_(tcn.parameters(), 0.5, norm_type=2.0)
        opt.step()
        plateau.step(loss)
        res += [loss.item(), opt.param_groups[0]["lr"]]
    for m in tcn:
        torch.nn.utils.remove_weight_norm(m.conv1)
    ae = seeded(LSTMAutoencoder(1, 6)).to(device)
    opt = optim.Rprop(ae.parameters(), lr=1e-2)
    seqs = win[::4].unsqueeze(-1).to(device)
    for i in range(steps // 2):
        rec = ae(seqs)
        loss = nn.L1Loss(reduction="sum")(rec, seqs) / len(seqs)
        opt.zero_grad()
        loss.backward()
        opt.step()
        res.append(loss.item())
    err = (rec - seqs).abs().mean(dim=(1, 2))
    thr = torch.quantile(err, 0.8)
    res += [
        thr.item(),
        float((err > thr).sum()),
        torch.kthvalue(err, 2).values.item(),
        err.median().item(),
        torch.histc(err, 4).sum().item(),
    ]
    return res
