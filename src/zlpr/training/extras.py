r"""The paper's training extras: label smoothing, mixup, R-Drop, virtual adversarial training.

Each is one number of `TrainingConfig`, off at 0, and each adds to the others. With targets `y`,
scores `s` of a sample, `l` the loss and `D` the divergence between two score vectors:

- label smoothing `e`: the targets become `(1 - e) y + e / 2`;
- mixup `a`: `w ~ Beta(a, a)`, a random partner per sample, and both `s` and `y` become
  `w (own) + (1 - w) (partner's)`. Mixing the features that enter the last linear layer is mixing
  the scores that leave it; so do Sun et al. (2020), "Mixup-Transformer", mix texts;
- R-Drop `a` (Liang et al., 2021): two passes under different dropout give `s'` and `s''`; the
  objective is `(l(s') + l(s'')) / 2 + a / 4 [D(s', s'') + D(s'', s')]`, half of the authors' sum,
  so that the loss keeps its scale; `a` is the same in `--r-drop`, in settings and in `Extras`;
- virtual adversarial training `a` (Miyato et al., 2018): adds `a D(s(x), s(x + r))` with `r` the
  step of length `radius` on the token embeddings that changes the scores most, found by power
  iteration. No gradient through `s(x)`; both passes without dropout, whose noise is R-Drop's.

`D` is the Kullback-Leibler divergence between independent labels whose probabilities are the
loss's own link of the scores, `sigma(2 s)` for ZLPR and `sigma(s)` for binary cross entropy, a
bound of the loss taken off the scores.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zlpr._errors import UserError
from zlpr.losses import registry, zlpr_divergence
from zlpr.training.linear import LinearConfig
from zlpr.training.transformer import RADIUS, TransformerConfig

PROBE = 0.01  # length of the trial step whose gradient the power iteration follows


@dataclass(frozen=True)
class Extras:
    """Which extras are on, and how strong; all off by default.

    Attributes:
        label_smoothing: mass moved from the hard targets, in [0, 1).
        mixup: parameter of the Beta distribution of the mixing weight.
        r_drop: weight of the divergence between two dropout passes.
        vat: weight of the divergence under the adversarial step.
        power_iterations: of the adversarial step's search.
        radius: length of the adversarial step.
        link_scale: `k` in the probability `sigma(k s)` that the divergence compares; None where
            neither r_drop nor vat is on, or to take that of a loss given by name.

    Examples:
        >>> Extras(label_smoothing=0.1).smooth(torch.tensor([1.0, 0.0]))
        tensor([0.9500, 0.0500])
    """

    label_smoothing: float = 0.0
    mixup: float = 0.0
    r_drop: float = 0.0
    vat: float = 0.0
    power_iterations: int = 1
    radius: float = RADIUS
    link_scale: float | None = None

    @classmethod
    def of(cls, config: TransformerConfig) -> "Extras":
        """The extras that the settings ask for, with the link of the loss they name."""
        return cls(
            label_smoothing=config.label_smoothing,
            mixup=config.mixup,
            r_drop=config.r_drop,
            vat=config.vat,
            power_iterations=config.vat_iterations,
            radius=config.vat_radius,
        ).linked(config.scored_as)

    def linked(self, loss: str) -> "Extras":
        """These extras with the link of a loss of the registry, where they compare probabilities.

        Raises:
            UserError: they do, and the loss has none.
        """
        if not (self.r_drop or self.vat):
            return self
        scale = registry.info(loss).link_scale
        if scale is None:
            raise UserError(
                f"r_drop and vat compare probabilities, and {loss} has none: it only ranks"
            )
        return self if self.link_scale is not None else replace(self, link_scale=scale)

    def smooth(self, targets: Tensor) -> Tensor:
        """Targets moved towards a half."""
        if not self.label_smoothing:
            return targets
        return targets * (1 - self.label_smoothing) + self.label_smoothing / 2

    def divergence(self, scores: Tensor, other: Tensor, *, symmetric: bool = False) -> Tensor:
        """`D` per sample, shape (samples,), of scores of shape (samples, labels)."""
        if self.link_scale is None:
            raise ValueError("r_drop and vat compare probabilities sigma(k s): give link_scale=k")
        half = self.link_scale / 2  # zlpr_divergence compares sigma(2 s)
        return zlpr_divergence(scores * half, other * half, symmetric=symmetric, reduction="none")


@dataclass(frozen=True)
class BatchPass:
    """What one pass over a batch gives: its loss is `mean of l(view, targets) + penalty`.

    Attributes:
        views: scores of shape (samples, labels); two of them under R-Drop.
        targets: of the same shape, smoothed and mixed.
        penalty: sum over the samples of the divergences, already weighted.
    """

    views: tuple[Tensor, ...]
    targets: Tensor
    penalty: Tensor


def pass_over_batch(
    model: nn.Module,
    network: Any,
    inputs: dict[str, Tensor],
    targets: Tensor,
    real: Tensor | None,
    extras: Extras,
    bound: Tensor | float = 0.0,
) -> BatchPass:
    """Scores of a batch under the extras.

    Args:
        model: what to call, possibly wrapped for several processes.
        network: the transformers model inside `model`.
        inputs: model inputs without labels.
        targets: of shape (samples, labels).
        real: rows that count, or None for all.
        extras: which extras are on.
        bound: of the loss, where its probabilities are a half; a number or one per label.
    """
    rows = slice(None) if real is None else real
    targets = extras.smooth(targets[rows])
    if extras.r_drop:
        twice = {name: torch.cat([value, value]) for name, value in inputs.items()}
        views = tuple(scores[rows] for scores in _scores(model, twice).chunk(2))
        symmetric = extras.divergence(*(view - bound for view in views), symmetric=True)
        penalty = extras.r_drop / 4 * symmetric.sum()
    else:
        views = (_scores(model, inputs)[rows],)
        penalty = views[0].new_zeros(())
    if extras.vat:
        change = adversarial_divergence(model, network, inputs, extras, bound)
        penalty = penalty + extras.vat * change[rows].sum()
    if extras.mixup and len(targets):
        mixture = Mixture.draw(len(targets), extras.mixup)
        views, targets = tuple(map(mixture, views)), mixture(targets)
    return BatchPass(views, targets, penalty)


def _scores(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    scores: Tensor = model(**inputs).logits
    return scores.float()  # a loss in half precision would lose what the model had


@dataclass(frozen=True)
class Mixture:
    """One draw of mixup: a weight and a partner for every sample.

    Attributes:
        weight: of a sample's own values.
        partner: row numbers, a permutation.
    """

    weight: float
    partner: Tensor

    @classmethod
    def draw(cls, size: int, concentration: float) -> "Mixture":
        """A weight from Beta(concentration, concentration), by torch's global generator."""
        weight = torch.distributions.Beta(concentration, concentration).sample()
        return cls(float(weight), torch.randperm(size))

    def __call__(self, values: Tensor) -> Tensor:
        """`weight * values + (1 - weight) * values of the partners`."""
        partners = values[self.partner.to(values.device)]
        return self.weight * values + (1 - self.weight) * partners


def adversarial_divergence(
    model: nn.Module,
    network: Any,
    inputs: dict[str, Tensor],
    extras: Extras,
    bound: Tensor | float = 0.0,
) -> Tensor:
    """`D(s(x), s(x + r))` per sample, shape (samples,), with a gradient for the model's weights."""
    embedding: nn.Module = network.get_input_embeddings()
    mask = _where_read(inputs).unsqueeze(-1)
    with without_dropout(network):
        with torch.no_grad():
            clean = _scores(network, inputs) - bound
            shape = embedding(inputs["input_ids"]).shape

        def moved(step: Tensor) -> Tensor:
            with adding(embedding, step * mask):
                return extras.divergence(clean, _scores(network, inputs) - bound)

        start = torch.randn(shape).to(clean.device) * mask
        step = adversarial_step(moved, start, extras.power_iterations, extras.radius)
        with adding(embedding, step):
            return extras.divergence(clean, _scores(model, inputs) - bound)


def _where_read(inputs: dict[str, Tensor]) -> Tensor:
    """Which tokens the model reads, (samples, tokens); all where a collator does not say."""
    mask = inputs.get("attention_mask")
    return torch.ones_like(inputs["input_ids"]) if mask is None else mask


def adversarial_step(
    divergence: Callable[[Tensor], Tensor], start: Tensor, iterations: int, radius: float = RADIUS
) -> Tensor:
    r"""The step of a length per sample that raises a divergence most, by power iteration.

    A divergence has no gradient at 0, so its growth there is `r^T H r / 2`, largest along the
    Hessian's first eigenvector; the gradient at a small step `d` is `H d`, one power iteration.

    Args:
        divergence: from steps (samples, tokens, width) to one number per sample.
        start: where the iteration starts, not 0.
        iterations: how many gradients to follow.
        radius: the step's length.
    """
    direction = unit(start)
    for _ in range(iterations):
        with torch.enable_grad():
            probe = (PROBE * direction).requires_grad_()
            (gradient,) = torch.autograd.grad(divergence(probe).sum(), probe)
        direction = unit(gradient)
    return radius * direction


def unit(steps: Tensor) -> Tensor:
    """Each sample's step at length 1; a step of 0 stays 0."""
    length: Tensor = torch.linalg.vector_norm(steps.flatten(1), dim=1)
    length = length.clamp_min(torch.finfo(steps.dtype).tiny)
    return steps / length.view(-1, *[1] * (steps.ndim - 1))


@contextlib.contextmanager
def adding(layer: nn.Module, step: Tensor) -> Iterator[None]:
    """Add a step to what a layer gives, for as long as the block lasts."""
    handle = layer.register_forward_hook(lambda _layer, _inputs, output: output + step)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def without_dropout(network: nn.Module) -> Iterator[None]:
    """Evaluation mode for as long as the block lasts; then every part is back in its own."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:  # parents come first, and take their children along
            if module.training != training:
                module.train(training)


def soften(loss: nn.Module, config: LinearConfig, num_labels: int) -> nn.Module:
    """The linear model's loss under the extras of the settings, itself where there are none.

    Label smoothing and mixup change scores and targets alone. R-Drop and virtual adversarial
    training need an encoder.

    Raises:
        UserError: an extra does not suit the loss.
    """
    extras = Extras(label_smoothing=config.label_smoothing, mixup=config.mixup)
    if not extras.label_smoothing and not extras.mixup:
        return loss
    check_soft_targets(loss, num_labels)
    return Softened(loss, extras, config.seed)


class Softened(nn.Module):
    """A loss on smoothed targets, and on scores and targets that are mixed anew each time."""

    def __init__(self, loss: nn.Module, extras: Extras, seed: int) -> None:
        super().__init__()
        self.loss = loss
        self.extras = extras
        self.random = np.random.default_rng(seed)

    def reseed(self, seed: Sequence[int]) -> None:
        """Draw from here on what depends on the seed alone, as a resumed run needs it."""
        self.random = np.random.default_rng(seed)

    def forward(self, scores: Tensor, targets: Tensor, **options: Any) -> Tensor:
        """The loss of a batch."""
        targets = self.extras.smooth(targets)
        if self.extras.mixup:
            weight = self.random.beta(self.extras.mixup, self.extras.mixup)
            partner = torch.from_numpy(self.random.permutation(len(scores)))
            mixture = Mixture(float(weight), partner)
            scores, targets = mixture(scores), mixture(targets)
        value: Tensor = self.loss(scores, targets, **options)
        return value


def check_soft_targets(loss: nn.Module, num_labels: int) -> None:
    """Refuse a loss that takes hard targets only, which smoothing and mixup do not give."""
    try:
        loss(torch.zeros(2, num_labels), torch.full((2, num_labels), 0.5))
    except ValueError as error:
        raise UserError(f"label_smoothing and mixup give soft targets: {error}") from error
