"""The two ways to fit a linear model at one regularisation: on the whole data, or in batches."""

import abc
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from zlpr.losses import registry
from zlpr.models.features import Matrix
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training.extras import Softened, soften
from zlpr.training.lbfgs import Minimum, Step, last_tenth, minimise
from zlpr.training.linear import LinearConfig
from zlpr.training.linear_checkpoint import SavedEpoch
from zlpr.training.loss import begin_epoch, bound_of, create_loss
from zlpr.training.objective import (
    BLOCK_CELLS,
    LinearObjective,
    Weights,
    as_tensor,
    column_squares,
    csr,
    log_odds,
    loss_and_slopes,
    number_of_samples,
)
from zlpr.training.sample_basis import (
    BYTES_A_PAIR,
    SampleBases,
    SampleBasis,
    are_alike_in_length,
    pays,
)

# Stop when iterations gain less than this share of all gain so far, or of the loss that is left.
TOLERANCE = 2e-4
MAX_ITERATIONS = 500
# Of that, where the gradient jumps: there the gains are small and many.
SHARE_WHERE_NOT_SMOOTH = 0.5
# There past steps may also mislead; without them it is tried again until that gains less than this.
SHARE_OF_A_RESTART = 5e-3
# A rough fit, which only tells regularisations apart, stops at so many times the tolerance.
ROUGHLY = 10.0
# Bytes that L-BFGS may take for its past steps and vectors, and as many again for the targets;
# above it, training goes in batches.
MEMORY = 3 * 2**30
_VECTORS = 8  # that a step needs besides its memory of past ones
_VECTORS_IN_BATCHES = 9  # of Adam
_VECTORS_OUTSIDE = 4  # of features, where a fit is in the samples' basis
_BYTES_A_CELL = 16  # of scores, targets and what a loss makes of them
_BYTES_A_CELL_ON_LINES = 16  # of the scores where a line begins, of its direction and of a trial
_LONGEST_MEMORY, _SHORTEST_MEMORY = 6, 3
# Cells of scores that a loss over the batch may see at once: some ten tensors of that size.
MOST_CELLS_AT_ONCE = 2**26

# Rounds of so many epochs, the learning rate falling in each, until one gains less than this share.
EPOCHS, LEARNING_RATE = 15, 0.02
MOST_ROUNDS, SHARE_OF_A_ROUND = 12, 0.01
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
        last_tenth: how much of all that was gained over a model without weights came in the last
            tenth of the steps; near 0 where training was at its end.
    """

    parameters: Tensor
    loss: float
    steps: int
    last_tenth: float


class Earlier:
    """Keeps parameters as they were about a tenth of the steps ago, three at most for long.

    Attributes:
        parameters: after the last step that was kept of the first nine tenths; None before any.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Tensor]] = deque()

    def note(self, step: int, parameters: Tensor) -> None:
        """Look at what came out of a step, counted from 1; it is kept as it is, not copied."""
        if not self._kept or step >= 1.05 * self._kept[-1][0]:
            self._kept.append((step, parameters))
        while len(self._kept) > 1 and self._kept[1][0] <= 0.9 * step:
            self._kept.popleft()

    @property
    def parameters(self) -> Tensor | None:
        """As they were then."""
        return self._kept[0][1] if self._kept else None

    def keep_as(self, turned: Callable[[Tensor], Tensor]) -> None:
        """Keep the parameters of then alone, turned into other coordinates."""
        if self._kept:
            step, parameters = self._kept[0]
            self._kept = deque([(step, turned(parameters))])


class Solver(abc.ABC):
    """Fits `[W; b]` to data, from a start, at one regularisation.

    Attributes:
        bound: what the loss compares its scores with, a number or one for each label.
        convex: whether the loss is, so that a fit from anywhere ends at the same minimum.
        has_rough_fits: whether a fit may stop early and go on later from where it was.
    """

    bound: Tensor
    convex: bool
    has_rough_fits: bool = False

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
        saved: SavedEpoch | None = None,
        earlier: Earlier | None = None,
        *,
        roughly: bool = False,
    ) -> Solution:
        """Fit from a start, which is left as it was; a fit in epochs resumes from what is saved.

        `earlier` is shown the parameters of every step. With `roughly`, a solver that has rough
        fits ends sooner.
        """


class WholeData(Solver):
    """L-BFGS over all samples: exact, without a learning rate.

    A loss over the batch takes the whole data as one. A loss whose gradient jumps (a hinge) or is
    not quite that of its value (weights that carry no gradient) is followed for as long as it
    falls, which on real data is further than Adam gets in ten times the time.

    Where samples are fewer than n-grams, weights are looked for in a basis of the samples
    (`sample_basis.py`); parameters that go in and come out are of the features all the same.
    """

    def __init__(
        self,
        features: Matrix,
        labels: Any,
        config: LinearConfig,
        *,
        tolerance: float = TOLERANCE,
        max_iterations: int = MAX_ITERATIONS,
        sample_weight: Weights | None = None,
        bases: SampleBases | None = None,
    ) -> None:
        info = registry.info(config.scored_as)
        self.num_features = features.shape[1]
        self.basis = basis_of(features, labels.shape[1], bases)
        if self.basis is not None:
            features = _in_basis(features, self.basis)
            labels = labels[self.basis.order]
            sample_weight = None if sample_weight is None else sample_weight[self.basis.order]
        reduction = "mean" if info.over_batch else "none"
        loss = create_loss(config, labels, reduction, sample_weight=sample_weight)
        self.bound = bound_of(loss)
        loss = soften(loss, config, labels.shape[1])
        # A loss that is not convex may be flat where its biases alone are best.
        bias = None
        if not info.convex:
            bias = log_odds(labels, info.link_scale or 1.0, sample_weight) + self.bound
        self.objective = LinearObjective(
            features, labels, loss, bias, over_batch=info.over_batch, sample_weight=sample_weight
        )
        self.smooth, self.convex = info.smooth, info.convex
        self.has_rough_fits = info.smooth and info.convex
        self.tolerance = tolerance * (1.0 if info.smooth else SHARE_WHERE_NOT_SMOOTH)
        self.max_iterations = max_iterations
        self.memory = memory_of_past_steps(features.shape[1], labels.shape[1])

    def start(self) -> Tensor:
        """No weights, and the biases that fit best without any."""
        parameters = torch.zeros(self.num_features + 1, self.objective.num_labels)
        parameters[-1] = self.objective.start()[-1]
        return parameters

    def balance(self) -> float:
        """The scale of loss and features; see `LinearObjective.balance`."""
        return self.objective.balance()

    def solve(
        self,
        start: Tensor,
        regularisation: float,
        report: Report | None = None,
        saved: SavedEpoch | None = None,
        earlier: Earlier | None = None,
        *,
        roughly: bool = False,
    ) -> Solution:
        """Minimise `sum of losses + r/2 |W|^2`."""
        samples, reference = self.objective.num_samples, self.objective.reference
        values: list[float] = []  # after each iteration, restarts included

        def tell(step: Step) -> None:
            if not values:
                values.append(step.value + step.decrease)
            values.append(step.value)
            if earlier is not None:
                earlier.note(len(values) - 1, step.parameters)
            if report is not None:
                report(len(values) - 1, 0, step.value / samples)

        tolerance = self.tolerance * (ROUGHLY if roughly and self.has_rough_fits else 1.0)
        found = self._minimise(self._entered(start), regularisation, tolerance, tell)
        gained = not self.smooth
        while gained and len(values) <= self.max_iterations:
            before, found = found, self._minimise(found.parameters, regularisation, tolerance, tell)
            gain = before.value - found.value
            gained = gain > SHARE_OF_A_RESTART * (reference - found.value)
        share = last_tenth(values, max(reference, values[0])) if values else 0.0
        if earlier is not None:
            earlier.keep_as(self._left)
        steps = max(len(values) - 1, 0)
        return Solution(self._left(found.parameters), found.value / samples, steps, share)

    def _entered(self, parameters: Tensor) -> Tensor:
        """Parameters as the objective takes them: weights of n-grams in the samples' basis."""
        if self.basis is None:
            return parameters
        cut = self.basis.chosen.shape[1]
        inside = torch.from_numpy(self.basis.enter(parameters[:cut].numpy()))
        return torch.cat([inside, parameters[cut:]])

    def _left(self, parameters: Tensor) -> Tensor:
        """The reverse of `_entered`."""
        if self.basis is None:
            return parameters
        cut = len(self.basis.factor)
        weights = torch.from_numpy(self.basis.leave(parameters[:cut].numpy()))
        return torch.cat([weights, parameters[cut:]])

    def _minimise(
        self,
        start: Tensor,
        regularisation: float,
        tolerance: float,
        callback: Callable[[Step], None],
    ) -> Minimum:
        return minimise(
            lambda parameters: self.objective(parameters, regularisation),
            start,
            preconditioner=self.objective.preconditioner(regularisation),
            reference=self.objective.reference,
            floor=0.0,
            first_step=1.0,  # in a score, beyond which a loss that is not convex may be flat
            tolerance=tolerance,
            max_iterations=self.max_iterations,
            memory=self.memory,
            callback=callback,
            along=self.objective.on_lines(regularisation),
        )


def basis_of(features: Matrix, num_labels: int, bases: SampleBases | None) -> SampleBasis | None:
    """The samples' basis of the sparse columns, where a fit in it is quicker."""
    left = _columns_for_a_basis(features, num_labels)
    return None if left is None else (bases or SampleBases()).of(left)


def features_of_fit(features: Matrix, num_labels: int) -> int:
    """How many weights a label has during a fit: those of features, or those of samples."""
    left = _columns_for_a_basis(features, num_labels)
    num_features = int(features.shape[1])
    return num_features if left is None else num_features - left.shape[1] + left.shape[0]


def _columns_for_a_basis(features: Any, num_labels: int) -> Any:
    left = features.left if isinstance(features, MixedMatrix) else features
    samples, columns = left.shape
    if not sparse.issparse(left) or not pays(samples, columns, num_labels):
        return None
    return left if are_alike_in_length(left) else None


def _in_basis(features: Matrix, basis: SampleBasis) -> Matrix:
    """Coordinates in the place of the sparse columns, samples in the basis's order."""
    if isinstance(features, MixedMatrix):  # of two dense parts, of which one is triangular
        return MixedMatrix(basis.coordinates, features.right[basis.order])
    return basis.coordinates


class Batches(Solver):
    """Adam over shuffled batches: for a loss that changes from step to step, and for much data.

    The learning rate falls to zero along a half cosine over a round of epochs. Rounds go on until
    one gains next to nothing; a given number of epochs is one round.
    """

    def __init__(
        self,
        features: Matrix,
        labels: Any,
        config: LinearConfig,
        *,
        epochs: int | None = None,
        sample_weight: Weights | None = None,
    ) -> None:
        self.generator = torch.Generator().manual_seed(config.seed)
        loss = create_loss(config, labels, generator=self.generator, sample_weight=sample_weight)
        self.num_samples = number_of_samples(labels, sample_weight)
        self.sample_weight = None  # around 1, for batches are averaged
        if sample_weight is not None:
            self.sample_weight = (sample_weight / sample_weight.mean()).astype(np.float32)
        self.bound = bound_of(loss)
        self.loss = soften(loss, config, labels.shape[1])
        self.features = csr(features) if sparse.issparse(features) else features
        self.labels = csr(labels)
        self.seed = config.seed
        given = epochs or config.epochs
        self.epochs, self.most_rounds = (given, 1) if given else (EPOCHS, MOST_ROUNDS)
        largest = min(max(BATCH_SIZE, labels.shape[0] // 40), LARGEST_BATCH)
        self.batch_size = config.batch_size or largest
        self.learning_rate = config.learning_rate or LEARNING_RATE
        info = registry.info(config.scored_as)
        self.scale, self.convex = info.link_scale or 1.0, info.convex

    def start(self) -> Tensor:
        """No weights, and biases at the labels' log-odds."""
        parameters = torch.zeros(self.features.shape[1] + 1, self.labels.shape[1])
        parameters[-1] = log_odds(self.labels, self.scale, self.sample_weight) + self.bound
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
        saved: SavedEpoch | None = None,
        earlier: Earlier | None = None,
        *,
        roughly: bool = False,
    ) -> Solution:
        """Follow the batches' gradients of `mean loss + r/(2n) |W|^2`."""
        samples = self.labels.shape[0]
        adam = _Adam(start, self.learning_rate, self.epochs * -(-samples // self.batch_size))
        state = None if saved is None else saved.load()
        values = [] if state is None else adam.restore(state)
        while not self._has_settled(values):
            mean = self._epoch(adam, len(values) + 1, regularisation / self.num_samples)
            values.append(mean)
            if earlier is not None:
                earlier.note(len(values), adam.parameters.clone())
            if report is not None:
                report(len(values), self.epochs if self.most_rounds == 1 else 0, mean)
            if saved is not None:
                saved.save(adam.state(values))
        lowest = np.minimum.accumulate(values).tolist()  # single epochs are noisy
        return Solution(adam.parameters, values[-1], len(values), last_tenth(lowest, lowest[0]))

    def _has_settled(self, values: list[float]) -> bool:
        """Whether the last round of epochs gained next to nothing, or was the last allowed."""
        rounds, rest = divmod(len(values), self.epochs)
        if rest or not rounds:
            return False
        if rounds == self.most_rounds:
            return True
        lowest, before = min(values), min(values[: -self.epochs], default=math.inf)
        return before - lowest <= SHARE_OF_A_ROUND * (values[0] - lowest)

    def _epoch(self, adam: "_Adam", epoch: int, decay: float) -> float:
        """One pass in an order of its own; gives the mean objective on the way."""
        samples, total = self.labels.shape[0], 0.0
        if isinstance(self.loss, Softened):
            self.loss.reseed([self.seed, epoch])
        begin_epoch(self.loss, epoch)
        # Of the epoch alone, so that a resumed fit draws what it would have drawn.
        state = np.random.SeedSequence([self.seed, epoch]).generate_state(1, np.uint64)
        self.generator.manual_seed(int(state[0]))
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(samples)
        for first in range(0, samples, self.batch_size):
            rows = np.sort(shuffled[first : first + self.batch_size])
            value, gradient = self._gradient(adam.parameters, rows, decay)
            total += value * len(rows)
            adam.step(gradient)
        return float(total / samples)

    def _gradient(self, parameters: Tensor, rows: Any, decay: float) -> tuple[float, Tensor]:
        features, targets = self.features[rows], torch.from_numpy(self.labels[rows].toarray())
        weight, bias = parameters[:-1], parameters[-1]
        # scipy multiplies a small sparse batch, and its transpose, without converting it.
        scores = torch.from_numpy(features @ weight.numpy()).add_(bias)
        weights = None if self.sample_weight is None else as_tensor(self.sample_weight[rows])
        value, slopes = loss_and_slopes(self.loss, scores, targets, weights)
        gradient = torch.empty_like(parameters)
        backward = torch.from_numpy(features.T @ slopes.numpy())
        torch.add(backward, weight, alpha=decay, out=gradient[:-1])
        gradient[-1] = slopes.sum(0)
        return value + 0.5 * decay * float(weight.square().sum()), gradient


class _Adam:
    """torch's Adam over one tensor, the learning rate falling along a half cosine, over and over.

    Args:
        start: is left as it was.
        learning_rate: at the beginning of a round.
        steps: of a round.
    """

    def __init__(self, start: Tensor, learning_rate: float, steps: int) -> None:
        self.parameters = start.clone()
        self._optimiser = torch.optim.Adam([self.parameters], lr=learning_rate, fused=True)
        self._learning_rate, self._steps, self._step = learning_rate, steps, 0

    def step(self, gradient: Tensor) -> None:
        """Follow a gradient."""
        done = self._step % self._steps / self._steps
        share = 0.5 * (1.0 + math.cos(math.pi * done))
        self._optimiser.param_groups[0]["lr"] = self._learning_rate * share
        self.parameters.grad = gradient
        self._optimiser.step()
        self._step += 1

    def state(self, values: list[float]) -> dict[str, Tensor]:
        """Everything that the next steps depend on, with the objective after each epoch."""
        moments = self._optimiser.state[self.parameters]
        numbers = {
            "count": torch.tensor(self._step),
            "values": torch.tensor(values, dtype=torch.float64),
        }
        return {"parameters": self.parameters, **numbers, **moments}

    def restore(self, state: dict[str, Tensor]) -> list[float]:
        """Go on from a state; gives the objective after each epoch so far."""
        self.parameters.copy_(state["parameters"])
        self._step = int(state["count"])
        moments = {name: state[name] for name in ("step", "exp_avg", "exp_avg_sq")}
        self._optimiser.state[self.parameters].update(moments)
        return [float(value) for value in state["values"].tolist()]


def choose_solver(
    features: Matrix,
    labels: Any,
    config: LinearConfig,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int | None = None,
    sample_weight: Weights | None = None,
    bases: SampleBases | None = None,
) -> Solver:
    """L-BFGS over the whole data where it fits in memory, Adam over batches otherwise.

    Mixup and sampled pairs, which change the loss from step to step, and a loss that is another
    from some epoch on also go in batches; and so does a loss over the batch, or one that is not
    smooth, whose settings speak of batches.

    Args:
        features: of shape (samples, features), dense or CSR.
        labels: of shape (samples, labels), CSR.
        config: names the loss and its parameters.
        tolerance: of L-BFGS.
        max_iterations: of L-BFGS, or epochs of Adam; None takes `MAX_ITERATIONS`, and as many
            rounds of `EPOCHS` as it takes.
        sample_weight: above 0, of shape (samples,): how many samples each counts as; None is 1.
        bases: of the samples, where fits share them.
    """
    info = registry.info(config.scored_as)
    by_epoch = registry.info(config.loss).by_epoch
    asked = (config.epochs, config.batch_size, config.learning_rate) != (None, None, None)
    changes = bool(config.mixup) or by_epoch or info.is_random(config.loss_params)
    in_batches = changes or (asked and (info.over_batch or not info.smooth))
    inner = features_of_fit(features, labels.shape[1])
    fits = memory_of_past_steps(inner, labels.shape[1]) >= _SHORTEST_MEMORY
    at_once = MOST_CELLS_AT_ONCE if info.over_batch else MEMORY
    if fits and labels.shape[0] * labels.shape[1] <= at_once and not in_batches:
        return WholeData(
            features,
            labels,
            config,
            tolerance=tolerance,
            max_iterations=max_iterations or MAX_ITERATIONS,
            sample_weight=sample_weight,
            bases=bases,
        )
    return Batches(features, labels, config, epochs=max_iterations, sample_weight=sample_weight)


def memory_of_fit(features: Matrix, num_labels: int) -> int:
    """Bytes that a fit takes beside its features, by an estimate.

    The numbers of vectors were measured (`python bench/memory.py`): what a step needs, the past
    steps of L-BFGS or the moments of Adam, and the best weights so far.
    """
    num_samples, num_features = map(int, features.shape)
    inner = features_of_fit(features, num_labels)
    cell = 4 * num_labels
    past = memory_of_past_steps(inner, num_labels)
    cells = num_samples * num_labels
    if past < _SHORTEST_MEMORY or cells > MEMORY:
        in_batch = min(cells, LARGEST_BATCH * num_labels)
        return _VECTORS_IN_BATCHES * cell * (num_features + 1) + _BYTES_A_CELL * in_batch
    held = _BYTES_A_CELL + (_BYTES_A_CELL_ON_LINES if cells <= BLOCK_CELLS else 0)
    inside = (2 * past + _VECTORS + 1) * cell * (inner + 1) + held * cells
    if inner == num_features:
        return inside
    outside = _VECTORS_OUTSIDE * cell * (num_features + 1)
    return inside + outside + BYTES_A_PAIR * num_samples**2


def memory_of_past_steps(num_features: int, num_labels: int) -> int:
    """How many past steps of L-BFGS fit in memory, up to as many as help."""
    vector = 4 * (num_features + 1) * num_labels
    return min(_LONGEST_MEMORY, (MEMORY // max(vector, 1) - _VECTORS) // 2)
