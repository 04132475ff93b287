"""Fifty thousand labels: head and loss in one, without a matrix of scores.

python examples/many_labels.py many_labels.png
"""

import sys

import torch
from matplotlib import pyplot
from torch import nn

from zlpr.losses import LinearZLPRLoss

LABELS, FEATURES = 50_000, 32

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(20, FEATURES), nn.ReLU())
head = LinearZLPRLoss(in_features=FEATURES, num_labels=LABELS)
optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.02)
inputs = torch.randn(64, 20)
indices = torch.randint(LABELS, (64, 5))  # the positive labels of each sample, as indices

losses = []
for _ in range(15):
    optimiser.zero_grad()
    loss = head(encoder(inputs), indices)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(f"{LABELS:,} labels: loss {losses[0]:.1f} at the start, {losses[-1]:.1f} after 15 steps")

figure, axes = pyplot.subplots(figsize=(4.8, 3), layout="constrained")
axes.plot(range(1, 16), losses, color="#0072B2", marker="o", markersize=4)
axes.set(xlabel="steps", ylabel=f"ZLPR over {LABELS:,} labels", ylim=(0, None))
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "many_labels.png", dpi=110)
