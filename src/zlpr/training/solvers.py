"""The two ways to fit a linear model at one regularisation: on the whole data, or in batches."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from zlpr.losses import registry
from zlpr.models.features import Matrix
from zlpr.training.config import TrainingConfig
from zlpr.training.extras import soften
from zlpr.training.lbfgs import Step, minimise
from zlpr.training.loss import create_loss
from zlpr.training.objective import LinearObjective, csr, log_odds, loss_and_slopes

# Stop when an iteration gains less than this share of all gain so far.
TOLERANCE = 3e-4
MAX_ITERATIONS = 100
# Bytes that L-BFGS may take for its past steps and vectors; above it, training goes in batches.
MEMORY = 3 * 2**30
_VECTORS = 8  # that a step needs besides its memory of past ones
_LONGEST_MEMORY, _SHORTEST_MEMORY = 6, 3

EPOCHS, LEARNING_RATE = 15, 0.02
# A fortieth of the data within these bounds: a step costs as much as the weights are many.
BATCH_SIZE, LARGEST_BATCH = 256, 4096

Report = Callable[[int, int, float], None]
"""Called with the step, the number of steps (0 if unknown) and the objective per sample."""


@dataclass(frozen=True)
class Solution:
    """Weights at one regularisation.

    Attributes:
        parameters: weights and, as the last row, biases: (features + 1, labels).
        loss: the objective per sample, regularisation included.
        steps: iterations or epochs that it took.
    """

    parameters: Tensor
    loss: float
    steps: int


class Solver(abc.ABC):
    """Fits `[W; b]` to data, from a start, at one regularisation."""

    @abc.abstractmethod
    def start(self) -> Tensor:
        """Where the first fit starts."""

    @abc.abstractmethod
    def balance(self) -> float:
        """The loss's own scale, at which regularisation starts to matter."""

    @abc.abstractmethod
    def solve(self, start: Tensor, regularisation: float, report: Report | None = None) -> Solution:
        """Fit from a start, which is left as it was."""


class WholeData(Solver):
    """L-BFGS over all samples: exact, without a learning rate, for smooth losses."""

    def __init__(
        self,
        features: Matrix,
        labels: Any,
        config: TrainingConfig,
        *,
        sample_weight: Any = None,
        tolerance: float = TOLERANCE,
        max_iterations: int = MAX_ITERATIONS,
    ) -> None:
        loss = create_loss(config, labels, reduction="none")
        loss = soften(loss, config, labels.shape[1])
        info = registry.info(config.loss)
        # A loss that is not convex may be flat where its biases alone are best.
        bias = None if info.convex else log_odds(labels, info.link_scale or 1.0)
        self.objective = LinearObjective(features, labels, loss, sample_weight, bias)
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self.memory = memory_of_past_steps(features.shape[1], labels.shape[1])

    def start(self) -> Tensor:
        """No weights, and the biases that fit best without any."""
        return self.objective.start()

    def balance(self) -> float:
        """Half a sample's summed absolute slopes at the start."""
        return self.objective.balance()

    def solve(self, start: Tensor, regularisation: float, report: Report | None = None) -> Solution:
        """Minimise `sum of losses + r/2 |W|^2`."""
        samples = self.objective.num_samples

        def tell(step: Step) -> None:
            if report is not None:
                report(step.iteration, 0, step.value / samples)

        found = minimise(
            lambda parameters: self.objective(parameters, regularisation),
            start,
            preconditioner=self.objective.preconditioner(regularisation),
            reference=self.objective.reference,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            memory=self.memory,
            callback=tell,
        )
        return Solution(found.parameters, found.value / samples, found.iterations)


class Batches(Solver):
    """Adam over shuffled batches: for losses that are not smooth or look at the batch as a whole.

    The learning rate falls to zero along a half cosine over the epochs.
    """

    def __init__(
        self, features: Matrix, labels: Any, config: TrainingConfig, *, sample_weight: Any = None
    ) -> None:
        self.loss = soften(create_loss(config, labels), config, labels.shape[1])
        self.features = csr(features) if sparse.issparse(features) else features
        self.labels = csr(labels)
        self.sample_weight = sample_weight
        self.seed = config.seed
        self.epochs = config.epochs or EPOCHS
        largest = min(max(BATCH_SIZE, labels.shape[0] // 40), LARGEST_BATCH)
        self.batch_size = config.batch_size or largest
        self.learning_rate = config.learning_rate or LEARNING_RATE
        self.scale = registry.info(config.loss).link_scale or 1.0

    def start(self) -> Tensor:
        """No weights, and biases at the labels' log-odds."""
        parameters = torch.zeros(self.features.shape[1] + 1, self.labels.shape[1])
        parameters[-1] = log_odds(self.labels, self.scale)
        return parameters

    def balance(self) -> float:
        """Half a sample's summed absolute slopes at the start, in its first batch."""
        rows = np.arange(min(self.batch_size, self.labels.shape[0]))
        targets = torch.from_numpy(self.labels[rows].toarray())
        scores = self.start()[-1].expand(len(rows), -1).contiguous()
        _, slopes = loss_and_slopes(self.loss, scores, targets, None)
        return float(slopes.abs().sum()) / 2.0  # the loss is a mean: its slopes are n times smaller

    def solve(self, start: Tensor, regularisation: float, report: Report | None = None) -> Solution:
        """Follow the batches' gradients of `mean loss + r/(2n) |W|^2`."""
        samples = self.labels.shape[0]
        epochs = self.epochs if self._is_first(start) else -(-self.epochs // 3)
        parameters = start.clone()
        optimiser = torch.optim.Adam([parameters], lr=self.learning_rate, fused=True)
        steps = epochs * -(-samples // self.batch_size)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        order = np.random.default_rng(self.seed)
        mean = 0.0
        for epoch in range(1, epochs + 1):
            total = 0.0
            shuffled = order.permutation(samples)
            for first in range(0, samples, self.batch_size):
                rows = np.sort(shuffled[first : first + self.batch_size])
                value, gradient = self._gradient(parameters, rows, regularisation / samples)
                total += value * len(rows)
                parameters.grad = gradient
                optimiser.step()
                schedule.step()
            mean = total / samples
            if report is not None:
                report(epoch, epochs, mean)
        return Solution(parameters, mean, epochs)

    @staticmethod
    def _is_first(start: Tensor) -> bool:
        """Whether a fit starts from nothing; from a neighbour's weights a third is enough."""
        return not bool(start[:-1].any())

    def _gradient(self, parameters: Tensor, rows: Any, decay: float) -> tuple[float, Tensor]:
        features, targets = self.features[rows], torch.from_numpy(self.labels[rows].toarray())
        weight, bias = parameters[:-1], parameters[-1]
        # scipy multiplies a small sparse batch, and its transpose, without converting it.
        scores = torch.from_numpy(features @ weight.numpy()).add_(bias)
        weights = None if self.sample_weight is None else torch.from_numpy(self.sample_weight[rows])
        value, slopes = loss_and_slopes(self.loss, scores, targets, weights)
        gradient = torch.empty_like(parameters)
        backward = torch.from_numpy(features.T @ slopes.numpy())
        torch.add(backward, weight, alpha=decay, out=gradient[:-1])
        gradient[-1] = slopes.sum(0)
        return value + 0.5 * decay * float(weight.square().sum()), gradient


def choose_solver(features: Matrix, labels: Any, config: TrainingConfig, **options: Any) -> Solver:
    """L-BFGS where the loss is smooth and its vectors fit in memory, Adam otherwise.

    Mixup, which changes the loss from step to step, also goes in batches.
    """
    info = registry.info(config.loss)
    fits = memory_of_past_steps(features.shape[1], labels.shape[1]) >= _SHORTEST_MEMORY
    if info.smooth and not info.over_batch and not config.mixup and fits:
        return WholeData(features, labels, config, **options)
    return Batches(features, labels, config, **options)


def memory_of_past_steps(num_features: int, num_labels: int) -> int:
    """How many past steps of L-BFGS fit in memory, up to as many as help."""
    vector = 4 * (num_features + 1) * num_labels
    return min(_LONGEST_MEMORY, (MEMORY // max(vector, 1) - _VECTORS) // 2)
