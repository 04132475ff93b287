"""What fine-tuning a network will take of memory, before it is loaded."""

import os
from typing import TYPE_CHECKING, Any

import torch

from zlpr._errors import UserError
from zlpr.models.registry import argument_of
from zlpr.models.transformer import cannot_load, load_encoder_config, quiet
from zlpr.training.head_start import KEPT, memory_of_start, samples_of_start
from zlpr.training.pooling_layer import takes_pooling_layer
from zlpr.training.transformer import RECIPES, TransformerConfig

if TYPE_CHECKING:
    from zlpr.training.fine_tuning import TokenizedParts

# Of each parameter: itself, its gradient, and Adam's two means; before training itself alone.
BYTES_A_PARAMETER, BYTES_A_WEIGHT = 16, 4
# What the backward pass needs of each token in each layer: so many bytes for each hidden unit, and
# so many for each pair of an attention head and another token (measured: `bench/memory.py`).
BYTES_A_UNIT, BYTES_A_HEAD = 120, 13


def memory_of_fine_tuning(
    num_labels: int, config: TransformerConfig, inputs: "TokenizedParts"
) -> int:
    """Bytes that one process takes beside its inputs, by an estimate.

    Args:
        num_labels: of the new head.
        config: names the encoder, and how many samples go through it at a time.
        inputs: tells how long texts are.

    Returns:
        The estimate; 0 where a graphics card has the network, whose memory is another.
    """
    if torch.accelerator.is_available():
        return 0
    name = argument_of(config.model)
    encoder = load_encoder_config(name)
    head_first = RECIPES[config.preset].head_first
    if head_first and takes_pooling_layer(encoder):
        encoder.num_hidden_layers += 1
    batch = config.batch_size or RECIPES[config.preset].batch_size
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    samples = min(-(-batch // (config.accumulation_steps * processes)), len(inputs.train))
    passes = 1 + bool(config.r_drop) + bool(config.vat)
    longest = int(inputs.train.lengths.max(initial=0))
    parameters = count_parameters(name, num_labels, encoder)
    training = BYTES_A_PARAMETER * parameters + passes * (
        samples * longest * bytes_of_token(encoder, longest)
    )
    if not head_first:
        return training
    width = int(getattr(encoder, "hidden_size", 0) or 0)
    start = BYTES_A_WEIGHT * parameters + memory_of_start(len(inputs.train), width, num_labels)
    read = samples_of_start(len(inputs.train), num_labels) + len(inputs.validation)
    return max(training, start) + KEPT * BYTES_A_WEIGHT * read * width


def bytes_of_token(encoder: Any, length: int) -> int:
    """What the backward pass needs of one token, over all layers.

    Args:
        encoder: its configuration; one that does not say how large its layers are counts as 0.
        length: tokens of the text.
    """
    layers, units, heads = (
        int(getattr(encoder, name, 0) or 0)
        for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    return layers * (BYTES_A_UNIT * units + BYTES_A_HEAD * heads * length)


def count_parameters(name_or_path: str, num_labels: int, encoder: Any = None) -> int:
    """Parameters of an encoder with a head, without making them.

    Args:
        name_or_path: of the encoder.
        num_labels: of the head.
        encoder: another configuration than the encoder's own.

    Raises:
        UserError: there is no such encoder, or it is none that classifies texts.
    """
    from transformers import AutoModelForSequenceClassification

    encoder = encoder or load_encoder_config(name_or_path)
    encoder.num_labels = num_labels
    kind: Any = AutoModelForSequenceClassification
    with quiet(), torch.device("meta"):
        try:
            network = kind.from_config(encoder, trust_remote_code=False)
        except Exception as error:
            raise UserError(cannot_load("model", name_or_path, error)) from error
    return sum(weight.numel() for weight in network.parameters())
