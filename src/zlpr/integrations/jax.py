r"""The paper's losses as pure functions of JAX arrays, in optax's manner.

Each takes `(scores, labels, *, where=None, …)` with scores and labels of shape (..., L) and gives
the losses of the samples, of shape (...), unreduced: take `.mean()` yourself. All can be jitted,
mapped by `vmap` and differentiated; the numbers are those of `zlpr.losses`. They are computed in
float32, or in float64 where the scores are (`jax.config.update("jax_enable_x64", True)`).

    import jax
    from zlpr.integrations.jax import zlpr_loss

    value, gradient = jax.value_and_grad(lambda s: zlpr_loss(s, labels).mean())(scores)

Labels are booleans, or numbers in [0, 1]; pairs of labels need 0 or 1. Others are an error, and
inside `jit`, where numbers cannot be looked at, a sample with such a label has the loss NaN.

Every function takes, where it applies:

- `where`: shape (L,) or (..., L), False for an unknown or impossible label;
- `label_weight`: a number or of shape (L,) or (..., L), what each label counts for;
- `pos_weight`: the same for positive labels alone.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from zlpr.integrations import _formulas
from zlpr.integrations._formulas import Framework, Weights

__all__ = [
    "bce_loss",
    "bp_mll_loss",
    "cross_entropy_loss",
    "dice1_loss",
    "dice2_loss",
    "focal_loss",
    "lsep_loss",
    "ranking_loss",
    "warp_loss",
    "zlpr_divergence",
    "zlpr_loss",
]


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _hold(values: Any, low: float, high: float) -> Any:
    return jnp.clip(values, low, high)


@_hold.defjvp  # type: ignore[untyped-decorator]
def _hold_jvp(low: float, high: float, values: Any, tangents: Any) -> tuple[Any, Any]:
    return _hold(values[0], low, high), tangents[0]


_JAX = Framework(
    numpy=jnp,
    cast=lambda values, dtype: jnp.asarray(values).astype(dtype),
    dtype_name=lambda values: str(jnp.asarray(values).dtype),
    sigmoid=jax.nn.sigmoid,
    no_gradient=jax.lax.stop_gradient,
    hold=_hold,
    can_look_at=lambda values: not isinstance(values, jax.core.Tracer),
)


def zlpr_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    threshold: ArrayLike = 0.0,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""ZLPR, and with a threshold $s_0$ TLPR.

    $$\ell(s, y) = \log\Big(1 + \sum_l w_l u_l y_l e^{s_0 - s_l}\Big)
                 + \log\Big(1 + \sum_l w_l (1 - y_l) e^{s_l - s_0}\Big)$$

    Args:
        scores: shape (..., L).
        labels: shape (..., L), boolean or in [0, 1].
        where: which labels are known.
        threshold: $s_0$, a number or of shape (L,), (..., 1) or (..., L).
        label_weight: $w$.
        pos_weight: $u$.

    Returns:
        Shape (...).

    Examples:
        >>> zlpr_loss(jnp.array([[2.0, -1.0, -3.0]]), jnp.array([[1, 0, 0]]))
        Array([0.47594026], dtype=float32)
    """
    weights = Weights(where, label_weight, pos_weight)
    return _call("zlpr", scores, labels, weights, threshold=threshold)


def bce_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""Binary cross entropy, summed over the labels.

    $$\ell(s, y) = \sum_l w_l \big( u_l\,y_l \log(1 + e^{-s_l})
                 + (1 - y_l) \log(1 + e^{s_l}) \big)$$

    `optax.sigmoid_binary_cross_entropy` leaves the sum to its caller.

    Examples:
        >>> bce_loss(jnp.array([[2.0, -1.0, -3.0]]), jnp.array([[1, 0, 0]]))
        Array([0.48877698], dtype=float32)
    """
    return _call("bce", scores, labels, Weights(where, label_weight, pos_weight))


def focal_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    gamma: float = 2.0,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""Focal loss, $p = \sigma(s)$.

    $$\ell(s, y) = -\sum_l w_l \big( u_l\,y_l (1 - p_l)^\gamma \log p_l
                 + (1 - y_l)\,p_l^\gamma \log(1 - p_l) \big)$$

    Examples:
        >>> focal_loss(jnp.array([[2.0, -1.0, -3.0]]), jnp.array([[1, 0, 0]]))
        Array([0.0245709], dtype=float32)
    """
    return _call("focal", scores, labels, Weights(where, label_weight, pos_weight), gamma=gamma)


def dice1_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    smoothing: float = 1.0,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""Dice loss, label by label, $p = \sigma(s)$.

    $$\ell(s, y) = \sum_l w_l \Big( u_l\,y_l \Big(1 - \frac{2 p_l + g}{p_l^2 + 1 + g}\Big)
                 + (1 - y_l) \Big(1 - \frac{g}{p_l^2 + g}\Big) \Big)$$

    Examples:
        >>> dice1_loss(jnp.array([[0.0, 0.0]]), jnp.array([[1, 0]]))  # 1/9 + 1/5
        Array([0.31111112], dtype=float32)
    """
    weights = Weights(where, label_weight, pos_weight)
    return _call("dice1", scores, labels, weights, smoothing=smoothing)


def dice2_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    smoothing: float = 1.0,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Array:
    r"""Dice loss over the batch: the terms of the labels, of shape (L,); their sum is the loss.

    $$w_l \Big(1 - \frac{2 \sum_k p_{kl}\,y_{kl} + g}{\sum_k p_{kl}^2 + \sum_k y_{kl} + g}\Big)$$

    k runs over the samples; `sample_weight`, of shape (...), multiplies a sample's part of a sum.

    Examples:
        >>> dice2_loss(jnp.zeros((2, 2)), jnp.array([[1, 0], [0, 1]]))
        Array([0.2, 0.2], dtype=float32)
    """
    weights = Weights(where, label_weight)
    options = {"smoothing": smoothing, "sample_weight": sample_weight}
    return _call("dice2", scores, labels, weights, **options)


def cross_entropy_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
) -> Array:
    r"""Softmax cross entropy, the positive labels sharing the target.

    $$\ell(s, y) = \sum_i \frac{w_i\,y_i}{\sum_l y_l} \log \sum_j e^{s_j - s_i}$$

    Examples:
        >>> cross_entropy_loss(jnp.array([[2.0, -1.0, -3.0]]), jnp.array([[1, 0, 0]]))
        Array([0.05498523], dtype=float32)
    """
    return _call("cross_entropy", scores, labels, Weights(where, label_weight))


def lsep_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""LSEP over all pairs, $\log(1 + \sum_{i \in P} \sum_{j \in N} w_i u_i w_j e^{s_j - s_i})$.

    Examples:
        >>> lsep_loss(jnp.array([[2.0, -1.0, -3.0]]), jnp.array([[1, 0, 0]]))
        Array([0.05498523], dtype=float32)
    """
    return _call("lsep", scores, labels, Weights(where, label_weight, pos_weight))


def bp_mll_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    log: bool = True,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""BP-MLL, $\log \sum_{i \in P} \sum_{j \in N} w_i u_i w_j e^{s_j - s_i}$, or without the log.

    Examples:
        >>> bp_mll_loss(jnp.array([[2.0, -1.0, -3.0]]), jnp.array([[1, 0, 0]]))
        Array([-2.873072], dtype=float32)
    """
    return _call("bp_mll", scores, labels, Weights(where, label_weight, pos_weight), log=log)


def ranking_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    margin: float = 1.0,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""Ranking loss, $\sum_{i \in P} \sum_{j \in N} w_i u_i w_j \max(0, a + s_j - s_i)$.

    Examples:
        >>> ranking_loss(jnp.array([[0.5, -1.0, 0.0]]), jnp.array([[1, 0, 0]]))
        Array([0.5], dtype=float32)
    """
    return _call("ranking", scores, labels, Weights(where, label_weight, pos_weight), margin=margin)


def warp_loss(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    margin: float = 1.0,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
) -> Array:
    r"""WARP, $\sum_{i \in P} \sum_{j \in N} r_i w_i u_i w_j \max(0, a + s_j - s_i)$, r the rank.

    Examples:
        >>> warp_loss(jnp.array([[-0.5, -1.0, 0.0]]), jnp.array([[1, 0, 0]]))
        Array([4.], dtype=float32)
    """
    return _call("warp", scores, labels, Weights(where, label_weight, pos_weight), margin=margin)


def zlpr_divergence(
    scores: ArrayLike,
    other: ArrayLike,
    *,
    symmetric: bool = False,
    where: ArrayLike | None = None,
    label_weight: ArrayLike | None = None,
) -> Array:
    r"""Divergence of the label probabilities that two score vectors stand for, $p = \sigma(2s)$.

    $$\mathrm{KL}(s, s') = \sum_l 2 p_l (s_l - s'_l) + \log\frac{1 - p_l}{1 - p'_l},
    \qquad D(s, s') = \sum_l 2 (p_l - p'_l)(s_l - s'_l).$$

    Examples:
        >>> zlpr_divergence(jnp.array([1.0, -1.0]), jnp.array([0.5, -1.0]), symmetric=True)
        Array(0.14973..., dtype=float32)
    """
    return _call("divergence", scores, other, Weights(where, label_weight), symmetric=symmetric)


def _call(
    name: str, scores: ArrayLike, labels: ArrayLike, weights: Weights, **options: Any
) -> Array:
    formula = getattr(_formulas, name)
    weights = Weights(*(None if part is None else jnp.asarray(part) for part in weights))
    values: Array = formula(_JAX, jnp.asarray(scores), jnp.asarray(labels), weights, **options)
    return values
