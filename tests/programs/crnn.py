"""A CRNN with CTC: converters between labels and texts, map-to-sequence, greedy decoding."""

import collections

import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class strLabelConverter(object):
    def __init__(self, alphabet):
        self.alphabet, self.dict = alphabet + "-", {}
        for i, char in enumerate(alphabet):
            self.dict[char] = i + 1

    def encode(self, text):
        if isinstance(text, str):
            text = [self.dict[char.lower()] for char in text]
            length = [len(text)]
        elif isinstance(text, collections.abc.Iterable):
            length = [len(s) for s in text]
            text, _ = self.encode("".join(text))
        return torch.IntTensor(text), torch.IntTensor(length)

    def decode(self, t, length):
        if length.numel() == 1:
            length = length[0]
            assert t.numel() == length
            return "".join(
                self.alphabet[t[i] - 1]
                for i in range(length)
                if t[i] != 0 and not (i > 0 and t[i - 1] == t[i])
            )
        texts, index = [], 0
        for i in range(length.numel()):
            n = length[i]
            texts.append(self.decode(t[index : index + n], torch.IntTensor([n])))
            index += n
        return texts


class BidirectionalLSTM(nn.Module):
    def __init__(self, nIn, nHidden, nOut):
        super().__init__()
        self.rnn, self.embedding = (
            nn.LSTM(nIn, nHidden, bidirectional=True),
            nn.Linear(nHidden * 2, nOut),
        )

    def forward(self, input):
        recurrent, _ = self.rnn(input)
        T, b, h = recurrent.size()
        return self.embedding(recurrent.view(T * b, h)).view(T, b, -1)


class CRNN(nn.Module):
    def __init__(self, nclass, nh=5):
        super().__init__()
        cnn = nn.Sequential()
        for i, (nin, nout) in enumerate(((1, 4), (4, 6))):
            cnn.add_module("conv{0}".format(i), nn.Conv2d(nin, nout, 3, 1, 1))
            if i:
                cnn.add_module(f"batchnorm{i}", nn.BatchNorm2d(nout))
            cnn.add_module("relu{0}".format(i), nn.ReLU(True))
            cnn.add_module("pooling{0}".format(i), nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
        cnn.add_module("last", nn.Conv2d(6, 6, 2, 1, 0))
        self.cnn, self.rnn = (
            cnn,
            nn.Sequential(
                BidirectionalLSTM(6, nh, nh), BidirectionalLSTM(nh, nh, nclass)
            ),
        )

    def forward(self, input):
        conv = self.cnn(input)
        b, c, h, w = conv.size()
        assert h == 1, "the height of conv must be 1"
        conv = conv.squeeze(2).permute(2, 0, 1)
        return self.rnn(conv)


def train(steps):
    converter = strLabelConverter("abcde")
    texts = ["abc", "dee", "a", "cb"]
    text, length = converter.encode(texts)
    model = seeded(CRNN(6)).to(device)
    criterion = torch.nn.CTCLoss(blank=0, reduction="sum", zero_infinity=True)
    images = torch.from_numpy(normal(4, 1, 8, 9)).to(device)
    optimizer, results = torch.optim.Adadelta(model.parameters(), rho=0.95), []
    for step in range(steps):
        for p in model.parameters():
            p.requires_grad = True
        model.train()
        preds = model(images).log_softmax(2).requires_grad_()
        preds_size = torch.IntTensor([preds.size(0)] * 4)
        cost = (
            criterion(
                preds,
                text.to(device) if step % 2 else text.long().to(device),
                preds_size,
                length,
            )
            / 4
        )
        model.zero_grad()
        cost.backward()
        optimizer.step()
        results.append(cost.item())
    _, best = preds.max(2)
    best = best.transpose(1, 0).contiguous().view(-1)
    sims = converter.decode(best.data.cpu(), preds_size.data)
    return (
        results
        + [float(sum(a == b for a, b in zip(sims, texts)))]
        + [float(len(s)) for s in sims]
    )
