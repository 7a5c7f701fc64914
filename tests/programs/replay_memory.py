"""Q-learning with a replay memory and a target network."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from tests.programs.seeding import seeded

device = torch.device("cpu")
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size, generator):
        return generator.sample(list(self.memory), batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 24)
        self.layer2 = nn.Linear(24, 24)
        self.layer3 = nn.Linear(24, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


def train(steps):
    generator, rng = random.Random(0), np.random.default_rng(0)
    policy_net = seeded(DQN(3, 2)).to(device)
    target_net = DQN(3, 2).to(device)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
    memory = ReplayMemory(200)
    losses, state = [], None
    while len(losses) < steps:
        if state is None:
            state = rng.standard_normal(3).astype(np.float32)
            state = torch.tensor(state, dtype=torch.float32, device=device).unsqueeze(0)
        if generator.random() > 0.5:
            with torch.no_grad():
                action = policy_net(state).max(1).indices.view(1, 1)
        else:
            action = torch.tensor(
                [[generator.randrange(2)]], device=device, dtype=torch.long
            )
        moved = state.cpu().numpy() + (action.item() - 0.5)
        reward = torch.tensor([float(-np.abs(moved).sum())], device=device)
        done = abs(moved[0, 0]) > 2
        next_state = None if done else torch.from_numpy(moved).to(device)
        memory.push(state, action, next_state, reward)
        state = next_state
        if len(memory) < 8:
            continue
        batch = Transition(*zip(*memory.sample(8, generator)))
        non_final_mask = torch.tensor(
            tuple(map(lambda s: s is not None, batch.next_state)),
            device=device,
            dtype=torch.bool,
        )
        non_final_next_states = torch.cat(
            [s for s in batch.next_state if s is not None]
        )
        state_batch = torch.cat(batch.state)
        action_batch = torch.cat(batch.action)
        reward_batch = torch.cat(batch.reward)
        state_action_values = policy_net(state_batch).gather(1, action_batch)
        next_state_values = torch.zeros(8, device=device)
        with torch.no_grad():
            next_state_values[non_final_mask] = (
                target_net(non_final_next_states).max(1).values
            )
        expected = (next_state_values * 0.9) + reward_batch
        loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        target_state = target_net.state_dict()
        policy_state = policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * 0.1 + target_state[key] * 0.9
        target_net.load_state_dict(target_state)
        losses.append(loss.item())
    return losses
