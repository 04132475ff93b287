"""Zero is a good start; one cut fitted on validation data is better for F1.

python examples/fit_the_decision.py fit_the_decision.png
"""

import sys

import numpy as np
from matplotlib import pyplot

from zlpr.data import demo, make_split
from zlpr.decoding import Threshold
from zlpr.metrics import micro_f1
from zlpr.training import TrainingConfig, fit

parts = make_split(demo.make(1_500, seed=2))
train, validation, test = (parts.part(name) for name in ("train", "validation", "test"))
config = TrainingConfig(decode="zero", refit=False, regularisation=1.0)
model = fit(train, validation, config).model

scores, truth = model.predict_scores(test.texts), test.labels.toarray()
rule = Threshold().fit(
    validation.labels.toarray(), model.predict_scores(validation.texts), metric="micro_f1"
)
cuts = np.linspace(-3, 2, 101)
f1 = [100 * micro_f1(truth, scores > cut) for cut in cuts]
places = {"zero": 0.0, "fitted on validation": rule.threshold}

figure, axes = pyplot.subplots(figsize=(4.8, 3), layout="constrained")
axes.plot(cuts, f1, color="#0072B2")
for (name, cut), marker, colour in zip(places.items(), "so", ("#D55E00", "#009E73"), strict=True):
    value = 100 * micro_f1(truth, scores > cut)
    print(f"cut at {cut:5.2f} ({name}): Micro-F1 {value:.1f} %")
    axes.plot([cut], [value], marker=marker, color=colour)
    axes.annotate(f"{name}: {value:.1f}", (cut, value), (8, 4), textcoords="offset points")
axes.set(xlabel="cut", ylabel="Micro-F1 on test data, %")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "fit_the_decision.png", dpi=110)
