"""Small logistic regressions by Newton's method: convex, a few weights, the same every time."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zlpr.decoding._rule import BoolArray

Values = NDArray[np.float64]


def logistic_regression(features: Values, targets: BoolArray, ridge: float = 1.0) -> Values:
    """Weights, then intercept, of a ridge-penalised logistic regression.

    Args:
        features: shape (rows, columns).
        targets: shape (rows,).
        ridge: penalty on half the squared weights and intercept.
    """
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)

    def loss(weights: Values) -> float:
        logits = design @ weights
        fit = np.logaddexp(0, logits) - targets * logits
        return float(fit.sum() + 0.5 * ridge * (weights**2).sum())

    def slopes(weights: Values) -> tuple[Values, Values]:
        p = 1 / (1 + np.exp(-np.clip(design @ weights, -500, 500)))
        gradient = design.T @ (p - targets) + ridge * weights
        hessian = (design * (p * (1 - p))[:, None]).T @ design + ridge * np.eye(len(weights))
        return gradient, hessian

    return _newton(loss, slopes, np.zeros(design.shape[1]))


def conditional_regression(
    terms: Values, valid: BoolArray, hit: BoolArray, ridge: float = 1.0
) -> Values:
    r"""Weights of a conditional logit model: $P(c) \propto \exp(w \cdot \phi_c)$ over choices.

    The penalty is on the weights of standardised terms; those returned are for the terms as given.

    Args:
        terms: of each sample's choices, shape (samples, choices, terms).
        valid: which are choices at all, shape (samples, choices).
        hit: the one that was made, shape (samples, choices).
        ridge: penalty on half the squared weights.
    """
    if len(terms) == 0:
        return np.zeros(terms.shape[2])
    deviation = terms[valid].std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, np.inf)  # a term that never varies weighs nothing
    scaled = terms / scale
    chosen = scaled[hit].sum(axis=0)
    flat = scaled.reshape(-1, terms.shape[2])

    def values(weights: Values) -> Values:
        return np.where(valid, scaled @ weights, -np.inf)

    def loss(weights: Values) -> float:
        each = values(weights)
        top = each.max(axis=1, keepdims=True)
        total = np.log(np.exp(each - top).sum(axis=1)) + top[:, 0]
        return float(total.sum() - chosen @ weights + 0.5 * ridge * (weights**2).sum())

    def slopes(weights: Values) -> tuple[Values, Values]:
        each = values(weights)
        p = np.exp(each - each.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mean = (p[:, None, :] @ scaled)[:, 0]
        hessian = (flat * p.reshape(-1, 1)).T @ flat - mean.T @ mean + ridge * np.eye(len(weights))
        return mean.sum(axis=0) - chosen + ridge * weights, hessian

    return _newton(loss, slopes, np.zeros(terms.shape[2])) / scale


def _newton(
    loss: Callable[[Values], float],
    slopes: Callable[[Values], tuple[Values, Values]],
    weights: Values,
) -> Values:
    """Minimise a strictly convex loss, steps halved until it falls."""
    value = loss(weights)
    for _ in range(100):
        gradient, hessian = slopes(weights)
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while (trial := loss(weights - length * step)) > value and length > 1e-8:
            length /= 2
        weights, value = weights - length * step, min(trial, value)
        if gradient @ step < 1e-10:
            break
    return weights
