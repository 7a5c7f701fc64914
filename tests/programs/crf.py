"""A BiLSTM with a CRF: the forward algorithm by logsumexp, Viterbi with back pointers, HMM."""

import torch
import torch.nn as nn

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")
START_TAG, STOP_TAG = 3, 4


def argmax(vec):
    _, idx = torch.max(vec, 1)
    return idx.item()


def log_sum_exp(vec):
    max_score = vec[0, argmax(vec)]
    max_score_broadcast = max_score.view(1, -1).expand(1, vec.size()[1])
    return max_score + torch.log(torch.sum(torch.exp(vec - max_score_broadcast)))


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size, tagset_size, embedding_dim, hidden_dim):
        super().__init__()
        self.hidden_dim, self.tagset_size = hidden_dim, tagset_size
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(
            embedding_dim, hidden_dim // 2, num_layers=1, bidirectional=True
        )
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)
        self.transitions = nn.Parameter(torch.randn(tagset_size, tagset_size))
        self.transitions.data[START_TAG, :] = -10000
        self.transitions.data[:, STOP_TAG] = -10000

    def _forward_alg(self, feats):
        init_alphas = torch.full((1, self.tagset_size), -10000.0, device=feats.device)
        init_alphas[0][START_TAG] = 0.0
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
        return log_sum_exp(forward_var + self.transitions[STOP_TAG])

    def _get_lstm_features(self, sentence):
        hidden = (
            torch.zeros(2, 1, self.hidden_dim // 2).to(device),
            torch.zeros(2, 1, self.hidden_dim // 2).to(device),
        )
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, hidden = self.lstm(embeds, hidden)
        return self.hidden2tag(lstm_out.view(len(sentence), self.hidden_dim))

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1).to(device)
        tags = torch.cat([torch.tensor([START_TAG], dtype=torch.long).to(device), tags])
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[STOP_TAG, tags[-1]]

    def viterbi(self, feats):
        backpointers = []
        forward_var = torch.full((1, self.tagset_size), -10000.0).to(device)
        forward_var[0][START_TAG] = 0
        for feat in feats:
            bptrs_t, viterbivars_t = [], []
            for next_tag in range(self.tagset_size):
                next_tag_var = forward_var + self.transitions[next_tag]
                best_tag_id = argmax(next_tag_var)
                bptrs_t.append(best_tag_id)
                viterbivars_t.append(next_tag_var[0][best_tag_id].view(1))
            forward_var = (torch.cat(viterbivars_t) + feat).view(1, -1)
            backpointers.append(bptrs_t)
        terminal_var = forward_var + self.transitions[STOP_TAG]
        best_tag_id = argmax(terminal_var)
        path_score, best_path = terminal_var[0][best_tag_id], [best_tag_id]
        for bptrs_t in reversed(backpointers):
            best_tag_id = bptrs_t[best_tag_id]
            best_path.append(best_tag_id)
        assert best_path.pop() == START_TAG
        return path_score, best_path[::-1]

    def neg_log_likelihood(self, sentence, tags):
        feats = self._get_lstm_features(sentence)
        return self._forward_alg(feats) - self._score_sentence(feats, tags)


def train(steps):
    model = seeded(BiLSTM_CRF(8, 5, 4, 4))
    model.transitions.data[START_TAG, :] = -10000
    model.transitions.data[:, STOP_TAG] = -10000
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
    data = [(integers(8, n, seed=n), integers(3, n, seed=n + 1)) for n in (3, 4)]
    results = []
    for step in range(steps // 2):
        for words, tags in data:
            model.zero_grad()
            sentence = torch.tensor([int(w) for w in words], dtype=torch.long).to(
                device
            )
            targets = torch.tensor(tags.tolist(), dtype=torch.long).to(device)
            loss = model.neg_log_likelihood(sentence, targets)
            loss.backward()
            optimizer.step()
            results.append(loss.item())
    with torch.no_grad():
        score, path = model.viterbi(model._get_lstm_features(sentence))
    return results + [score.item(), *map(float, path)]
