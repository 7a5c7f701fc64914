"""A word language model with an LSTM: repackaged states, tied weights, annealed SGD."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import seeded

device = torch.device("cpu")
text = (
    "the quick brown fox jumps over the lazy dog while the dog sleeps " * 12
).split()


class Dictionary(object):
    def __init__(self):
        self.word2idx = {}
        self.idx2word = []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]

    def __len__(self):
        return len(self.idx2word)


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, tie_weights=False):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(0.0)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=0.0)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=nonlinearity)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        self.init_weights()
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        decoded = decoded.view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (
                weight.new_zeros(self.nlayers, bsz, self.nhid),
                weight.new_zeros(self.nlayers, bsz, self.nhid),
            )
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    else:
        return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    data = data.view(bsz, -1).t().contiguous()
    return data.to(device)


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    data = source[i : i + seq_len]
    target = source[i + 1 : i + 1 + seq_len].view(-1)
    return data, target


def train(steps):
    dictionary = Dictionary()
    ids = torch.cat(
        [torch.tensor([dictionary.add_word(w)]).type(torch.int64) for w in text]
    )
    source = batchify(ids, 4)
    results = []
    for rnn_type in "LSTM", "GRU", "RNN_TANH", "RNN_RELU":
        model = seeded(RNNModel(rnn_type, len(dictionary), 8, 8, 2, True)).to(device)
        criterion = nn.NLLLoss()
        lr, total_loss, best = 5.0, 0.0, None
        hidden = model.init_hidden(4)
        count = 0
        for _ in range(2):
            model.train()
            for i in range(0, source.size(0) - 1, 8):
                if count == steps // 4:
                    break
                count += 1
                data, targets = get_batch(source, i, 8)
                model.zero_grad()
                hidden = repackage_hidden(hidden)
                output, hidden = model(data, hidden)
                loss = criterion(output, targets)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
                for p in model.parameters():
                    p.data.add_(p.grad, alpha=-lr)
                total_loss += loss.item()
                results.append(math.exp(loss.item()) / 10)
            if not best or total_loss < best:
                best = total_loss
            else:
                lr /= 4.0
        model.eval()
        hidden = model.init_hidden(1)
        input = torch.full((1, 1), 3, dtype=torch.long).to(device)
        with torch.no_grad():
            for _ in range(4):
                output, hidden = model(input, hidden)
                word_weights = output.squeeze().div(0.8).exp().cpu()
                input.fill_(int(word_weights.argmax()))
                results.append(float(input.item()))
        if rnn_type != "RNN_TANH":
            model.rnn.flatten_parameters()
    return results
