"""The head that fine-tuning starts from: the best linear layer over the encoder as it is.

A new head has random weights and no bias. Adam moves a parameter by about its learning rate a step,
so that a rate which is right for an encoder leaves such a head where it was for hundreds of steps:
with a few thousand samples training ends before its biases have got to the labels' frequencies, and
until then the encoder is bent towards random directions (Kumar et al., 2022, who fit the head first
for that). What the head is given of each text is computed once, without gradients, and one linear
layer fitted to it, at the regularisation at which validation finds the loss lowest. Its label sets
may be better at a weaker one, but there the head has learned the training samples by heart, and has
nothing left to tell the encoder about them.
"""

import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from numpy.typing import NDArray

from zlpr.data import Dataset
from zlpr.losses import registry
from zlpr.models.tokens import Padding, TokenizedTexts
from zlpr.models.transformer import last_layer, read_all
from zlpr.training.linear import LinearConfig
from zlpr.training.linear_features import ExtractedFeatures, Scaling
from zlpr.training.loss import bound_of, check_finite, create_loss
from zlpr.training.pooling_layer import add_pooling_layer, takes_pooling_layer
from zlpr.training.regularisation import MOST_VALUES, RATIO, FittedLayer, fit_layer
from zlpr.training.solvers import WholeData, choose_solver, memory_of_fit

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from zlpr.training.fine_tuning import TokenizedParts
    from zlpr.training.transformer import TransformerConfig

MOST_SAMPLES = 20_000
"""A layer of some hundred inputs needs no more; the first pass is short then."""
MOST_CELLS = 2**25
"""Of samples and labels, for what a fit on all of them takes in memory."""
KEPT = 2
"""Readings of the texts that runs share: by the first token, and by the mean of all."""
HeadInputs = tuple[NDArray[np.float32], NDArray[np.float32]]


def start_head(
    network: "PreTrainedModel",
    inputs: "TokenizedParts",
    train: Dataset,
    validation: Dataset,
    config: "TransformerConfig",
) -> bool:
    """Give the network's last layer the weights that fit best as long as nothing else moves.

    The layer is fitted to what the network gives it and, where that can be, to the mean of the
    tokens; if validation finds the mean better, the network has a `pooling_layer` from here on.

    Returns:
        Whether it was done: not for a network whose last layer scores tokens and not texts, or is
        given the same of every text.
    """
    layer = last_layer(network)
    if layer.bias is None:
        return False
    rows = _rows_of_start(train, config)
    read = functools.partial(_read, network, inputs, rows)
    fit = functools.partial(_fit, read, train.select(rows), validation)
    settings = _settings(config)
    fitted = fit(settings)
    if takes_pooling_layer(network.config):
        take_away = add_pooling_layer(network)
        pooled = fit(settings)
        is_better = [pooled is not None and (fitted is None or pooled[1] < fitted[1])]
        broadcast_object_list(is_better)  # machines may differ in last digits, networks may not
        if pooled is not None and is_better[0]:
            fitted = pooled
        else:
            take_away()
    if fitted is None:
        return False
    bound = bound_of(create_loss(config, train.labels))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(fitted[0].weight.T)))
        layer.bias.copy_(torch.from_numpy(fitted[0].bias) + bound.cpu())
    return True


def read_for_start(
    network: "PreTrainedModel",
    inputs: "TokenizedParts",
    train: Dataset,
    config: "TransformerConfig",
) -> None:
    """Read what `start_head` would, of a network that is not needed afterwards.

    The random numbers that its `pooling_layer` takes are the same if they begin at the same seed.
    """
    if last_layer(network).bias is None:
        return
    rows = _rows_of_start(train, config)
    given = _read(network, inputs, rows)
    if given is not None and takes_pooling_layer(network.config):
        add_pooling_layer(network)
        _read(network, inputs, rows)


def _rows_of_start(train: Dataset, config: "TransformerConfig") -> NDArray[np.int64]:
    """The training samples that the head is fitted to."""
    count = samples_of_start(len(train), train.num_labels)
    return np.sort(np.random.default_rng(config.seed).permutation(len(train))[:count])


def samples_of_start(num_samples: int, num_labels: int) -> int:
    """Of so many training samples those that the head is fitted to.

    Examples:
        >>> samples_of_start(500, 28), samples_of_start(10**6, 28), samples_of_start(10**6, 2**20)
        (500, 20000, 32)
    """
    return min(num_samples, MOST_SAMPLES, max(1, MOST_CELLS // num_labels))


def memory_of_start(num_samples: int, width: int, num_labels: int) -> int:
    """Bytes that the fit of the head takes, what it is given among them, by an estimate.

    Args:
        num_samples: of the training part.
        width: of the encoder.
        num_labels: of the head.
    """
    given = np.broadcast_to(np.float32(0), (samples_of_start(num_samples, num_labels), width))
    return 2 * given.size * 4 + memory_of_fit(given, num_labels)  # as read, and scaled


def _settings(config: "TransformerConfig") -> Any:
    """Of the fit of the last layer alone.

    A loss that is not convex may end anywhere if it is fitted to the whole data; ZLPR, which
    is cut at 0 like all that decide, gives it a place to start from.
    """
    convex = registry.info(config.scored_as).convex
    return LinearConfig(
        loss=config.loss if convex else "zlpr",
        loss_params=config.loss_params if convex else {},
        metric=config.metric,
        decode=config.decode,
        decode_metric=config.decode_metric,
        empty=config.empty,
        seed=config.seed,
        label_smoothing=config.label_smoothing,
        refit=False,
    )


def _read(
    network: "PreTrainedModel", inputs: "TokenizedParts", rows: NDArray[np.int64]
) -> HeadInputs | None:
    """What the last layer is given of some training texts and of the validation texts.

    Runs that share their tokens begin with the same encoder whatever their loss, and read it once.
    """
    key = _digest_below_head(network, rows)
    if key not in inputs.given_to_head:
        train = head_inputs(network, inputs.train.select(rows), inputs.padding)
        validation = head_inputs(network, inputs.validation, inputs.padding)
        if train is None or validation is None:
            return None
        while len(inputs.given_to_head) >= KEPT:
            del inputs.given_to_head[next(iter(inputs.given_to_head))]
        inputs.given_to_head[key] = (train, validation)
    return inputs.given_to_head[key]


def _digest_below_head(network: "PreTrainedModel", rows: NDArray[np.int64]) -> bytes:
    """Equal where networks give the same of the same texts to their last layers."""
    digest = hashlib.blake2b(rows.tobytes(), digest_size=16)
    head = {id(weight) for weight in last_layer(network).parameters()}
    for name, tensor in itertools.chain(network.named_parameters(), network.named_buffers()):
        if id(tensor) not in head:
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.digest()


def _fit(
    read: Callable[[], HeadInputs | None], train: Dataset, validation: Dataset, settings: Any
) -> tuple[FittedLayer, float] | None:
    """The layer that fits best to what a network gives it, and its loss on validation."""
    given = read()
    if given is None:
        return None
    scaling = _one_scale(given[0])
    features = ExtractedFeatures(scaling.apply(given[0]), scaling.apply(given[1]), None, scaling)
    solver = choose_solver(features.train, train.labels, settings)
    if not isinstance(solver, WholeData):
        return None
    start = solver.balance()
    check_finite(start, settings)
    if start == 0.0:
        return None
    loss = create_loss(settings, train.labels)
    targets = torch.from_numpy(validation.labels.toarray())

    def fit(regularisation: float) -> tuple[FittedLayer, float]:
        asked = replace(settings, regularisation=regularisation)
        fitted = fit_layer(train, validation, asked, features, run={})
        with torch.no_grad():
            scores = torch.from_numpy(fitted.validation_scores) + bound_of(loss)
            return fitted, float(loss(scores, targets))

    return _lowest(fit, start)


def _lowest(
    fit: Callable[[float], tuple[FittedLayer, float]], start: float
) -> tuple[FittedLayer, float]:
    """The fit with the lowest loss, down the hill from a regularisation in either direction."""
    best = fit(start)
    for ratio in (1.0 / RATIO, RATIO):
        first = best
        for power in range(1, MOST_VALUES):
            found = fit(start * ratio**power)
            if not found[1] < best[1]:
                break
            best = found
        if best is not first:
            break
    return best


def _one_scale(given: NDArray[np.float32]) -> Scaling:
    """Centres what the head is given and divides it by one number, its mean distance from there.

    A number for each column would blow up those that hardly vary, and with them what the encoder
    is told to change.
    """
    mean = given.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(given.var(axis=0, dtype=np.float64).sum())) or 1.0
    return Scaling(mean.astype(np.float32), np.full(given.shape[1], spread, dtype=np.float32))


def head_inputs(
    network: "PreTrainedModel", texts: TokenizedTexts, padding: Padding
) -> NDArray[np.float32] | None:
    """What the last layer is given of each text, (texts, width); None where that is per token."""
    layer = last_layer(network)
    given: list[torch.Tensor] = []

    def read(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        given.clear()
        network(**batch)
        return given[-1]

    hook = layer.register_forward_pre_hook(lambda _, arguments: given.append(arguments[0]))
    try:
        one = texts.select(np.zeros(1, dtype=np.int64))
        if read_all(network, one, padding, read).shape != (1, layer.in_features):
            return None
        return read_all(network, texts, padding, read)
    finally:
        hook.remove()
