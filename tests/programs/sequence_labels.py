"""BiLSTM-CRF with forward algorithm and Viterbi, and an HMM by logsumexp."""

import torch
import torch.nn as nn
import torch.optim as optim

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")
START_TAG, STOP_TAG = "<START>", "<STOP>"


def argmax(vec):
    _, idx = torch.max(vec, 1)
    return idx.item()


def log_sum_exp(vec):
    max_score = vec[0, argmax(vec)]
    max_score_broadcast = max_score.view(1, -1).expand(1, vec.size()[1])
    return max_score + torch.log(torch.sum(torch.exp(vec - max_score_broadcast)))


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size, tag_to_ix, embedding_dim, hidden_dim):
        super().__init__()
        self.hidden_dim, self.tag_to_ix, self.tagset_size = (
            hidden_dim,
            tag_to_ix,
            len(tag_to_ix),
        )
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(
            embedding_dim, hidden_dim // 2, num_layers=1, bidirectional=True
        )
        self.hidden2tag = nn.Linear(hidden_dim, self.tagset_size)
        self.transitions = nn.Parameter(torch.randn(self.tagset_size, self.tagset_size))

    def mask(self):
        self.transitions.data[self.tag_to_ix[START_TAG], :] = -10000
        self.transitions.data[:, self.tag_to_ix[STOP_TAG]] = -10000
        return self

    def _forward_alg(self, feats):
        init_alphas = torch.full((1, self.tagset_size), -10000.0).to(device)
        init_alphas[0][self.tag_to_ix[START_TAG]] = 0.0
        forward_var = init_alphas
        for feat in feats:
            alphas_t = []
            for next_tag in range(self.tagset_size):
                emit_score = feat[next_tag].view(1, -1).expand(1, self.tagset_size)
                trans_score = self.transitions[next_tag].view(1, -1)
                alphas_t.append(
                    log_sum_exp(forward_var + trans_score + emit_score).view(1)
                )
            forward_var = torch.cat(alphas_t).view(1, -1)
        return log_sum_exp(forward_var + self.transitions[self.tag_to_ix[STOP_TAG]])

    def _get_lstm_features(self, sentence):
        h = (
            torch.zeros(2, 1, self.hidden_dim // 2, device=device),
            torch.zeros(2, 1, self.hidden_dim // 2, device=device),
        )
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, h = self.lstm(embeds, h)
        return self.hidden2tag(lstm_out.view(len(sentence), self.hidden_dim))

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1).to(device)
        tags = torch.cat(
            [
                torch.tensor([self.tag_to_ix[START_TAG]], dtype=torch.long).to(device),
                tags,
            ]
        )
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[self.tag_to_ix[STOP_TAG], tags[-1]]

    def viterbi(self, feats):
        backpointers = []
        forward_var = torch.full((1, self.tagset_size), -10000.0).to(device)
        forward_var[0, self.tag_to_ix[START_TAG]] = 0
        for feat in feats:
            next_tag_var = forward_var + self.transitions
            best, ids = next_tag_var.max(dim=1)
            forward_var = (best + feat).unsqueeze(0)
            backpointers.append(ids.tolist())
        terminal = forward_var + self.transitions[self.tag_to_ix[STOP_TAG]]
        best = argmax(terminal)
        path = [best]
        for bp in reversed(backpointers):
            best = bp[best]
            path.append(best)
        assert path.pop() == self.tag_to_ix[START_TAG]
        return terminal[0][path[0]], path[::-1]

    def neg_log_likelihood(self, sentence, tags):
        feats = self._get_lstm_features(sentence)
        return self._forward_alg(feats) - self._score_sentence(feats, tags)


class HMM(nn.Module):
    def __init__(self, n=3, m=5):
        super().__init__()
        self.A, self.B, self.pi = (
            nn.Parameter(torch.randn(n, n)),
            nn.Parameter(torch.randn(n, m)),
            nn.Parameter(torch.randn(n)),
        )

    def forward(self, x):
        logA, logB = self.A.log_softmax(0), self.B.log_softmax(1)
        alpha = logB[:, x[:, 0]].T + self.pi.log_softmax(0)
        for t in range(1, x.shape[1]):
            alpha = logB[:, x[:, t]].transpose(0, 1) + torch.logsumexp(
                alpha.unsqueeze(1) + logA, dim=2
            )
        return alpha.logsumexp(dim=1)


def train(steps):
    tag_to_ix = {"B": 0, "I": 1, "O": 2, START_TAG: 3, STOP_TAG: 4}
    model = seeded(BiLSTM_CRF(12, tag_to_ix, 5, 4)).mask().to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.01, weight_decay=1e-4)
    data = [
        (
            torch.from_numpy(integers(12, n, seed=n)),
            torch.from_numpy(integers(3, n, seed=n + 9)),
        )
        for n in (4, 3)
    ]
    losses = []
    for epoch in range(steps // 4):
        for sentence, tags in data:
            model.zero_grad()
            loss = model.neg_log_likelihood(sentence.to(device), tags.to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    with torch.no_grad():
        score, path = model.viterbi(model._get_lstm_features(data[0][0].to(device)))
        print(path)
    hmm = seeded(HMM()).to(device)
    opt = optim.Adam(hmm.parameters(), lr=0.05)
    x = torch.from_numpy(integers(5, 6, 7)).to(device)
    for _ in range(steps // 2):
        loss = -hmm(x).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses + [score.item()]
