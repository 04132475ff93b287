"""The head that fine-tuning starts from: the best linear layer over the encoder as it is.

A new head has random weights and no bias. Adam moves a parameter by about its learning rate a step,
so that a rate which is right for an encoder leaves such a head where it was for hundreds of steps:
with a few thousand samples training ends before its biases have got to the labels' frequencies, and
until then the encoder is bent towards random directions (Kumar et al., 2022, who fit the head first
for that). What the head is given of each text is computed once, without gradients, and one linear
layer fitted to it, at the regularisation that validation finds best.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr.data import Dataset
from zlpr.losses import registry
from zlpr.models.tokens import Padding, TokenizedTexts
from zlpr.models.transformer import last_layer, read_all
from zlpr.training.linear import LinearConfig
from zlpr.training.linear_features import ExtractedFeatures, Scaling
from zlpr.training.loss import bound_of, create_loss
from zlpr.training.regularisation import fit_layer
from zlpr.training.solvers import WholeData, choose_solver

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from zlpr.training.fine_tuning import TokenizedParts
    from zlpr.training.transformer import TransformerConfig

MOST_SAMPLES = 20_000
"""A layer of some hundred inputs needs no more; the first pass is short then."""
MOST_CELLS = 2**25
"""Of samples and labels, for what a fit on all of them takes in memory."""


def start_head(
    network: "PreTrainedModel",
    inputs: "TokenizedParts",
    train: Dataset,
    validation: Dataset,
    config: "TransformerConfig",
) -> bool:
    """Give the network's last layer the weights that fit best as long as nothing else moves.

    Returns:
        Whether it was done: not for a loss that is not convex, of which a fit on the whole data may
        end anywhere, nor for a network whose last layer scores tokens and not texts.
    """
    layer = last_layer(network)
    if layer.bias is None or not registry.info(config.scored_as).convex or config.mixup:
        return False
    count = min(len(train), MOST_SAMPLES, max(1, MOST_CELLS // train.num_labels))
    rows = np.sort(np.random.default_rng(config.seed).permutation(len(train))[:count])
    read = [
        head_inputs(network, texts, inputs.padding)
        for texts in (inputs.train.select(rows), inputs.validation)
    ]
    if read[0] is None or read[1] is None:
        return False
    settings: Any = LinearConfig(
        loss=config.loss,
        loss_params=config.loss_params,
        metric=config.metric,
        decode=config.decode,
        decode_metric=config.decode_metric,
        empty=config.empty,
        seed=config.seed,
        label_smoothing=config.label_smoothing,
        refit=False,
    )
    sample = train.select(rows)
    scaling = _one_scale(read[0])
    features = ExtractedFeatures(scaling.apply(read[0]), scaling.apply(read[1]), None, scaling)
    if not isinstance(choose_solver(features.train, sample.labels, settings), WholeData):
        return False
    fitted = fit_layer(sample, validation, settings, features, run={})
    bound = bound_of(create_loss(config, train.labels))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(fitted.weight.T)))
        layer.bias.copy_(torch.from_numpy(fitted.bias) + bound.cpu())
    return True


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
