"""The two ways to fit a linear model at one regularisation: on the whole data, or in batches."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from zlpr.losses import registry
from zlpr.models.features import Matrix
from zlpr.training.extras import Softened, soften
from zlpr.training.lbfgs import Step, minimise
from zlpr.training.linear import LinearConfig
from zlpr.training.loss import bound_of, create_loss
from zlpr.training.objective import (
    LinearObjective,
    column_squares,
    csr,
    log_odds,
    loss_and_slopes,
)
from zlpr.training.saved_path import SavedEpochs

# Stop when iterations gain less than this share of all gain so far.
TOLERANCE = 2e-4
MAX_ITERATIONS = 100
# Bytes that L-BFGS may take for its past steps and vectors, and as many again for the targets;
# above it, training goes in batches.
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
    """Fits `[W; b]` to data, from a start, at one regularisation.

    Attributes:
        bound: what the loss compares its scores with, a number or one for each label.
    """

    bound: Tensor

    def model(self, parameters: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weights (features, labels) and biases (labels,) whose scores are cut at 0."""
        return parameters[:-1].numpy(), (parameters[-1] - self.bound).numpy()

    @abc.abstractmethod
    def start(self) -> Tensor:
        """Where the first fit starts."""

    @abc.abstractmethod
    def balance(self) -> float:
        """The regularisation that is as strong as the data."""

    @abc.abstractmethod
    def solve(
        self,
        start: Tensor,
        regularisation: float,
        report: Report | None = None,
        checkpoint: Path | None = None,
    ) -> Solution:
        """Fit from a start, which is left as it was; a fit in epochs resumes from a checkpoint."""


class WholeData(Solver):
    """L-BFGS over all samples: exact, without a learning rate, for smooth losses."""

    def __init__(
        self,
        features: Matrix,
        labels: Any,
        config: LinearConfig,
        *,
        tolerance: float = TOLERANCE,
        max_iterations: int = MAX_ITERATIONS,
    ) -> None:
        loss = create_loss(config, labels, reduction="none")
        self.bound = bound_of(loss)
        loss = soften(loss, config, labels.shape[1])
        info = registry.info(config.loss)
        # A loss that is not convex may be flat where its biases alone are best.
        bias = None if info.convex else log_odds(labels, info.link_scale or 1.0) + self.bound
        self.objective = LinearObjective(features, labels, loss, bias)
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self.memory = memory_of_past_steps(features.shape[1], labels.shape[1])

    def start(self) -> Tensor:
        """No weights, and the biases that fit best without any."""
        return self.objective.start()

    def balance(self) -> float:
        """The scale of loss and features; see `LinearObjective.balance`."""
        return self.objective.balance()

    def solve(
        self,
        start: Tensor,
        regularisation: float,
        report: Report | None = None,
        checkpoint: Path | None = None,
    ) -> Solution:
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

    def __init__(self, features: Matrix, labels: Any, config: LinearConfig) -> None:
        loss = create_loss(config, labels)
        self.bound = bound_of(loss)
        self.loss = soften(loss, config, labels.shape[1])
        self.features = csr(features) if sparse.issparse(features) else features
        self.labels = csr(labels)
        self.seed = config.seed
        self.epochs = config.epochs or EPOCHS
        largest = min(max(BATCH_SIZE, labels.shape[0] // 40), LARGEST_BATCH)
        self.batch_size = config.batch_size or largest
        self.learning_rate = config.learning_rate or LEARNING_RATE
        self.scale = registry.info(config.loss).link_scale or 1.0

    def start(self) -> Tensor:
        """No weights, and biases at the labels' log-odds."""
        parameters = torch.zeros(self.features.shape[1] + 1, self.labels.shape[1])
        parameters[-1] = log_odds(self.labels, self.scale) + self.bound
        return parameters

    def balance(self) -> float:
        """The scale of loss and features, by the slopes of a first batch."""
        rows = np.arange(min(self.batch_size, self.labels.shape[0]))
        targets = torch.from_numpy(self.labels[rows].toarray())
        scores = self.start()[-1].expand(len(rows), -1).contiguous()
        _, slopes = loss_and_slopes(self.loss, scores, targets, None)
        length = float(column_squares(self.features).sum()) / self.labels.shape[0]
        return float(length * slopes.abs().sum() / 2.0)  # of a mean, so already divided by samples

    def solve(
        self,
        start: Tensor,
        regularisation: float,
        report: Report | None = None,
        checkpoint: Path | None = None,
    ) -> Solution:
        """Follow the batches' gradients of `mean loss + r/(2n) |W|^2`."""
        samples = self.labels.shape[0]
        epochs = self.epochs if self._is_first(start) else -(-self.epochs // 3)
        steps = epochs * -(-samples // self.batch_size)
        adam = _Adam(start, self.learning_rate, steps)
        saved = SavedEpochs(checkpoint, f"{regularisation!r} {epochs}")
        done, state = saved.load() or (0, None)
        if state is not None:
            adam.restore(state)
        mean = 0.0
        for epoch in range(done + 1, epochs + 1):
            mean = self._epoch(adam, epoch, regularisation / samples)
            if report is not None:
                report(epoch, epochs, mean)
            if epoch < epochs:
                saved.save(epoch, adam.state())
        return Solution(adam.parameters, mean, epochs)

    def _epoch(self, adam: "_Adam", epoch: int, decay: float) -> float:
        """One pass in an order of its own; gives the mean objective on the way."""
        samples, total = self.labels.shape[0], 0.0
        if isinstance(self.loss, Softened):
            self.loss.reseed([self.seed, epoch])
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(samples)
        for first in range(0, samples, self.batch_size):
            rows = np.sort(shuffled[first : first + self.batch_size])
            value, gradient = self._gradient(adam.parameters, rows, decay)
            total += value * len(rows)
            adam.step(gradient)
        return float(total / samples)

    @staticmethod
    def _is_first(start: Tensor) -> bool:
        """Whether a fit starts from nothing; from a neighbour's weights a third is enough."""
        return not bool(start[:-1].any())

    def _gradient(self, parameters: Tensor, rows: Any, decay: float) -> tuple[float, Tensor]:
        features, targets = self.features[rows], torch.from_numpy(self.labels[rows].toarray())
        weight, bias = parameters[:-1], parameters[-1]
        # scipy multiplies a small sparse batch, and its transpose, without converting it.
        scores = torch.from_numpy(features @ weight.numpy()).add_(bias)
        value, slopes = loss_and_slopes(self.loss, scores, targets, None)
        gradient = torch.empty_like(parameters)
        backward = torch.from_numpy(features.T @ slopes.numpy())
        torch.add(backward, weight, alpha=decay, out=gradient[:-1])
        gradient[-1] = slopes.sum(0)
        return value + 0.5 * decay * float(weight.square().sum()), gradient


class _Adam:
    """torch's Adam over one tensor, the learning rate falling to zero along a half cosine."""

    def __init__(self, start: Tensor, learning_rate: float, steps: int) -> None:
        self.parameters = start.clone()
        self._optimiser = torch.optim.Adam([self.parameters], lr=learning_rate, fused=True)
        self._learning_rate, self._steps, self._step = learning_rate, steps, 0

    def step(self, gradient: Tensor) -> None:
        """Follow a gradient."""
        share = 0.5 * (1.0 + math.cos(math.pi * self._step / self._steps))
        self._optimiser.param_groups[0]["lr"] = self._learning_rate * share
        self.parameters.grad = gradient
        self._optimiser.step()
        self._step += 1

    def state(self) -> dict[str, Tensor]:
        """Everything that the next steps depend on."""
        moments = self._optimiser.state[self.parameters]
        count = torch.tensor(self._step)
        return {"parameters": self.parameters, "count": count, **moments}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self.parameters.copy_(state["parameters"])
        self._step = int(state["count"])
        moments = {name: state[name] for name in ("step", "exp_avg", "exp_avg_sq")}
        self._optimiser.state[self.parameters].update(moments)


def choose_solver(
    features: Matrix,
    labels: Any,
    config: LinearConfig,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> Solver:
    """L-BFGS where the loss is smooth and its vectors fit in memory, Adam otherwise.

    Mixup, which changes the loss from step to step, also goes in batches.
    """
    info = registry.info(config.loss)
    fits = memory_of_past_steps(features.shape[1], labels.shape[1]) >= _SHORTEST_MEMORY
    fits = fits and labels.shape[0] * labels.shape[1] <= MEMORY
    if info.smooth and not info.over_batch and not config.mixup and fits:
        return WholeData(
            features, labels, config, tolerance=tolerance, max_iterations=max_iterations
        )
    return Batches(features, labels, config)


def memory_of_past_steps(num_features: int, num_labels: int) -> int:
    """How many past steps of L-BFGS fit in memory, up to as many as help."""
    vector = 4 * (num_features + 1) * num_labels
    return min(_LONGEST_MEMORY, (MEMORY // max(vector, 1) - _VECTORS) // 2)
