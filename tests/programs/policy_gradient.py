"""REINFORCE with a baseline on a small walk."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

from tests.programs.seeding import seeded

device = torch.device("cpu")
gamma = 0.99


class Walk:
    """Steps left or right on a line; the goal is to the right."""

    def reset(self):
        self.at, self.t = 0.0, 0
        return np.array([self.at, 0.0], dtype=np.float32)

    def step(self, action):
        self.at += 1.0 if action == 1 else -1.0
        self.t += 1
        state = np.array([self.at / 4, self.t / 10], dtype=np.float32)
        return state, self.at, self.t >= 8 or abs(self.at) >= 4


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(2, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def select_action(model, state, uniform):
    state = torch.from_numpy(state).float().to(device)
    probs, state_value = model(state)
    m = Categorical(probs)
    # Drawn by inverse transform, so that every library takes the same path.
    action = torch.tensor(int(uniform > probs[0].item()), device=device)
    model.saved_actions.append((m.log_prob(action), state_value))
    return action.item(), m.entropy()


def train(steps):
    rng = np.random.default_rng(0)
    env, model = Walk(), seeded(Policy()).to(device)
    optimizer = optim.Adam(model.parameters(), lr=3e-2)
    eps = np.finfo(np.float32).eps.item()
    losses = []
    for _ in range(steps):
        state, done, entropies = env.reset(), False, []
        while not done:
            action, entropy = select_action(model, state, rng.random())
            state, reward, done = env.step(action)
            model.rewards.append(reward)
            entropies.append(entropy)
        R, returns = 0, []
        for r in model.rewards[::-1]:
            R = r + gamma * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + eps)
        policy_losses, value_losses = [], []
        for (log_prob, value), R in zip(model.saved_actions, returns):
            advantage = R - value.item()
            policy_losses.append(-log_prob * advantage)
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([R]).to(device)))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss = loss - 0.01 * torch.stack(entropies).mean()
        loss.backward()
        optimizer.step()
        del model.rewards[:]
        del model.saved_actions[:]
        losses.append(loss.item())
    return losses
