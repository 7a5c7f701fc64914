"""Text classification: vocab, EmbeddingBag with offsets, collate with default lists, pad_sequence, TextCNN, bucket sampler, BiLSTM attention; F1 by hand."""

import re
import itertools
import math
from collections import Counter
from itertools import chain
from typing import Iterator, List
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import (
    pad_sequence,
    pack_padded_sequence,
    pad_packed_sequence,
    PackedSequence,
)
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    Sampler,
    get_worker_info,
)

from tests.programs.seeding import seeded

device = torch.device("cpu")
TEXT = """the cat sat on the mat|pets
dogs chase cats in the yard all day|pets
stocks fell sharply on monday|money
the bank raised its rates again|money
a goal in the last minute won the match|sport
the team lost after extra time|sport
cats sleep|pets
investors sold bank stocks|money
the match ended|sport""".split("\n")


class Vocab:
    def __init__(self, counter, specials=("<unk>", "<pad>")):
        self.itos = list(specials) + sorted(w for w, c in counter.items() if c >= 1)
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __call__(self, tokens):
        return [self.stoi.get(t, 0) for t in tokens]

    def __len__(self):
        return len(self.itos)


class News(IterableDataset):
    def __init__(self, lines):
        super().__init__()
        self.lines = lines

    def __iter__(self):
        info = get_worker_info()
        lines = (
            self.lines
            if info is None
            else itertools.islice(self.lines, info.id, None, info.num_workers)
        )
        for line in lines:
            text, label = line.split("|")
            yield label, text


class BucketSampler(Sampler[List[int]]):
    def __init__(self, lengths, batch_size):
        self.order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[List[int]]:
        for i in range(0, len(self.order), self.batch_size):
            yield self.order[i : i + self.batch_size]

    def __len__(self):
        return math.ceil(len(self.order) / self.batch_size)


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.fc = nn.Linear(embed_dim, num_class)
        self.init_weights()

    def init_weights(self):
        initrange = 0.5
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.fc.weight.data.uniform_(-initrange, initrange)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


class TextCNN(nn.Module):
    def __init__(self, V, D, C, Co=4, Ks=(2, 3)):
        super().__init__()
        self.embed = nn.Embedding(V, D, padding_idx=1)
        self.convs = nn.ModuleList(
            [nn.Conv2d(1, Co, (K, D), padding=(K - 1, 0)) for K in Ks]
        )
        self.dropout = nn.Dropout(0.0)
        self.fc1 = nn.Linear(len(Ks) * Co, C)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.fc1(self.dropout(torch.cat(x, 1)))


class AttnLSTM(nn.Module):
    def __init__(self, V, D, H, C):
        super().__init__()
        self.embedding = nn.Embedding(V, D, padding_idx=1)
        self.lstm = nn.LSTM(
            D, H, num_layers=2, bidirectional=True, batch_first=True, dropout=0.0
        )
        self.w = nn.Parameter(torch.zeros(H * 2))
        self.fc = nn.Linear(2 * H, C)

    def forward(self, x, lengths):
        emb = self.embedding(x)
        packed = pack_padded_sequence(
            emb, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        assert isinstance(packed, PackedSequence)
        out, (h, c) = self.lstm(packed)
        H, _ = pad_packed_sequence(out, batch_first=True, padding_value=0.0)
        scores = torch.tanh(H) @ self.w
        scores = scores.masked_fill(
            torch.arange(H.size(1), device=H.device)[None]
            >= lengths[:, None].to(H.device),
            float("-inf"),
        )
        alpha = F.softmax(scores, dim=1).unsqueeze(-1)
        return self.fc(
            torch.tanh((H * alpha).sum(1))
            + h[-2:].transpose(0, 1).reshape(x.size(0), -1)
        )


def f1(y_true, y_pred, n):
    tp = torch.zeros(n).index_add_(0, y_true.cpu(), (y_true == y_pred).float().cpu())
    p = torch.bincount(y_pred.cpu(), minlength=n).float()
    r = torch.bincount(y_true.cpu(), minlength=n).float()
    return (2 * tp / (p + r).clamp_min(1)).mean().item()


def train(steps):
    tokenizer = lambda s: re.findall(r"\w+", s.lower())
    counter = Counter(chain.from_iterable(tokenizer(t) for _, t in News(TEXT)))
    vocab = Vocab(counter)
    labels = {l: i for i, l in enumerate(["money", "pets", "sport"])}

    def collate_batch(batch):
        label_list, text_list, offsets = [], [], [0]
        for _label, _text in batch:
            label_list.append(labels[_label])
            processed_text = torch.tensor(vocab(tokenizer(_text)), dtype=torch.int64)
            text_list.append(processed_text)
            offsets.append(processed_text.size(0))
        label_list = torch.tensor(label_list, dtype=torch.int64)
        offsets = torch.tensor(offsets[:-1]).cumsum(dim=0)
        text_list = torch.cat(text_list)
        return label_list.to(device), text_list.to(device), offsets.to(device)

    model = seeded(TextClassificationModel(len(vocab), 6, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.5)
    res, criterion = [], torch.nn.CrossEntropyLoss()
    total_accu = None
    for epoch in range(steps // 6):
        total_acc, total_count = 0, 0
        for idx, (label, text, offsets) in enumerate(
            DataLoader(News(TEXT), batch_size=3, collate_fn=collate_batch)
        ):
            optimizer.zero_grad()
            predicted_label = model(text, offsets)
            loss = criterion(predicted_label, label)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            total_acc += (predicted_label.argmax(1) == label).sum().item()
            total_count += label.size(0)
            res.append(loss.item())
        acc = total_acc / total_count
        if total_accu is not None and total_accu > acc:
            scheduler.step()
        else:
            total_accu = acc
        res.append(acc)
    data = [(torch.LongTensor(vocab(tokenizer(t))), labels[l]) for l, t in News(TEXT)]

    def pad(batch):
        x, y = zip(*batch)
        lengths = torch.as_tensor([len(v) for v in x])
        return (
            pad_sequence(x, batch_first=True, padding_value=1),
            torch.as_tensor(y),
            lengths,
        )

    loader = DataLoader(
        data, batch_sampler=BucketSampler([len(x) for x, _ in data], 4), collate_fn=pad
    )
    assert len(loader) == 3
    nets = (
        seeded(TextCNN(len(vocab), 5, 3)).to(device),
        seeded(AttnLSTM(len(vocab), 5, 4, 3)).to(device),
    )
    with torch.no_grad():
        for net in nets:
            emb = net.embed if hasattr(net, "embed") else net.embedding
            emb.weight[emb.padding_idx].fill_(0)
    opts = [torch.optim.Adadelta(n.parameters(), lr=0.5, rho=0.95) for n in nets]
    preds, trues = [], []
    for epoch in range(steps // 4):
        for x, y, l in loader:
            x, y = x.to(device), y.to(device)
            for net, opt in zip(nets, opts):
                out = net(x) if isinstance(net, TextCNN) else net(x, l)
                loss = F.cross_entropy(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                res.append(loss.item())
            preds.append(out.max(dim=1)[1]), trues.append(y)
    res.append(f1(torch.cat(trues), torch.cat(preds), 3))
    assert nets[0].embed.weight[1].abs().sum() == 0
    return res
