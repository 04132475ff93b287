"""Train on texts with labels and see how well each label is found.

python examples/train_on_texts.py train_on_texts.png
"""

import sys

from matplotlib import pyplot

from zlpr.data import demo, make_split
from zlpr.metrics import micro_f1
from zlpr.training import TrainingConfig, fit

parts = make_split(demo.make(1_500, seed=1))  # or zlpr.data.load("your-file.csv")
test = parts.part("test")
model = fit(parts.part("train"), parts.part("validation"), TrainingConfig(regularisation=1.0)).model

truth = test.labels.toarray()
predicted = model.decoder(model.predict_scores(test.texts))
print(f"Micro-F1 on {len(test.texts)} test samples: {100 * micro_f1(truth, predicted):.1f} %")
print(model.predict(["The parcel never came and I want my money back."]))

hits, all_cells = (truth & predicted).sum(axis=0), truth.sum(axis=0) + predicted.sum(axis=0)
by_label = sorted(zip(100 * 2 * hits / all_cells, model.label_names, strict=True))
figure, axes = pyplot.subplots(figsize=(4.8, 3), layout="constrained")
bars = axes.barh([name for _, name in by_label], [value for value, _ in by_label], color="#0072B2")
axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
axes.set(xlabel="F1 of the label, %", xlim=(0, 112))
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "train_on_texts.png", dpi=110)
