"""Why did a label come out? What each word of a text adds to its score.

python examples/explain_a_text.py explain_a_text.png
"""

import sys

from matplotlib import pyplot

from zlpr.data import demo, make_split
from zlpr.training import TrainingConfig, fit

TEXT = "The parcel never came and I want my money back."

parts = make_split(demo.make(1_500, seed=3))
model = fit(parts.part("train"), parts.part("validation"), TrainingConfig(regularisation=1.0)).model

explained = model.explain(TEXT)[0]
print(f"{explained.label}: score {explained.score:.2f}")
words = [(TEXT[place.start : place.end], place.value) for place in explained.words]

figure, axes = pyplot.subplots(figsize=(4.8, 3), layout="constrained")
colours = ["#0072B2" if value > 0 else "#D55E00" for _, value in words]
axes.bar(range(len(words)), [value for _, value in words], color=colours)
axes.set_xticks(range(len(words)), [word for word, _ in words], rotation=40, ha="right")
axes.set(ylabel=f"adds to the score of “{explained.label}”")
axes.axhline(0, color="black", linewidth=0.8)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "explain_a_text.png", dpi=110)
