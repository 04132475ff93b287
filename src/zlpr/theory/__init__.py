"""The paper's argument as code: risk minimisers, what they miss, and what they mean.

Needs scipy for the two piecewise linear losses with more than six labels:
``pip install "zlpr[report]"``.
"""

from zlpr.theory.coupling import coupled_scores, equal_marginals
from zlpr.theory.equations import (
    Maximum,
    Term,
    expansion,
    maxima,
    zlpr_gradient,
    zlpr_over_pairs,
)
from zlpr.theory.joint import independent, label_vectors, marginals, random_joint
from zlpr.theory.link import LinkPoint, link
from zlpr.theory.regret import Regret, best_possible, measure, not_worse, regrets
from zlpr.theory.risk import risk_minimiser
from zlpr.theory.rules import RuleRegret, rule_regrets
from zlpr.theory.terms import Shares, negative_shares

__all__ = [
    "LinkPoint",
    "Maximum",
    "Regret",
    "RuleRegret",
    "Shares",
    "Term",
    "best_possible",
    "coupled_scores",
    "equal_marginals",
    "expansion",
    "independent",
    "label_vectors",
    "link",
    "marginals",
    "maxima",
    "measure",
    "negative_shares",
    "not_worse",
    "random_joint",
    "regrets",
    "risk_minimiser",
    "rule_regrets",
    "zlpr_gradient",
    "zlpr_over_pairs",
]
