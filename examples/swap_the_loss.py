"""Swap one line of a training loop: BCE for ZLPR, with 300 labels of which a sample has few.

ZLPR gets whole label sets right sooner here. With LABELS = 20 BCE ends a few points ahead.

python examples/swap_the_loss.py swap_the_loss.png
"""

import sys

import torch
from matplotlib import pyplot
from torch import nn

from zlpr.losses import ZLPRLoss

LABELS = 300

torch.manual_seed(0)
features = torch.randn(1_500, 16)
topics = (features @ torch.randn(16, 6)).argmax(dim=1)  # each sample is about one of six topics
sets = torch.rand(6, LABELS) < 3 / LABELS  # and a topic brings its labels together
targets = sets[topics] ^ (torch.rand(1_500, LABELS) < 0.15 / LABELS)  # noise
train, test = slice(0, 1_000), slice(1_000, None)

curves = {}
for name, loss in {"BCE": nn.BCEWithLogitsLoss(), "ZLPR": ZLPRLoss()}.items():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, LABELS))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    curves[name] = []
    for step in range(200):
        optimiser.zero_grad()
        loss(model(features[train]), targets[train].float()).backward()
        optimiser.step()
        if step % 10 == 9:
            predicted = model(features[test]) > 0
            exact = (predicted == targets[test]).all(dim=1).float().mean()
            curves[name].append((step + 1, 100 * exact.item()))
    print(f"{name}: {curves[name][-1][1]:.1f} % of the label sets right after 200 steps")

figure, axes = pyplot.subplots(figsize=(4.8, 3), layout="constrained")
for (name, points), colour, marker in zip(
    curves.items(), ("#D55E00", "#0072B2"), "so", strict=True
):
    axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4)
    axes.annotate(name, points[-1], (6, -3), textcoords="offset points", color=colour)
axes.set(xlabel="steps", ylabel="whole label sets right, %", xlim=(0, 225))
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "swap_the_loss.png", dpi=110)
