"""What a loss sees: two labels draw together while each stays equally frequent.

python examples/label_dependence.py label_dependence.png
"""

import sys

from matplotlib import pyplot

from zlpr.theory import equal_marginals, risk_minimiser

correlations = [-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8]
figure, axes = pyplot.subplots(figsize=(4.8, 3), layout="constrained")
for loss, title, colour, marker in [
    ("bce", "BCE", "#D55E00", "s"),
    ("zlpr", "ZLPR", "#0072B2", "o"),
]:
    scores = [risk_minimiser(loss, equal_marginals(each))[0].item() for each in correlations]
    print(f"{title}: the best score goes from {scores[0]:.2f} to {scores[-1]:.2f}")
    axes.plot(correlations, scores, color=colour, marker=marker)
    axes.annotate(title, (correlations[-1], scores[-1]), (6, -3), textcoords="offset points")
axes.set(
    xlabel="correlation of the two labels", ylabel="best score of the first", xlim=(-0.9, 1.05)
)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "label_dependence.png", dpi=110)
