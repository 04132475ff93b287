"""A further layer that gives a text's first token the mean of all its tokens.

The classes of transformers that classify texts read the first token alone. Encoders that were made
for sentence vectors were trained to be read by the mean, and what lies above their first token was
never trained at all. A folder that these classes can load may not pool otherwise, but it may have a
layer more, and attention that looks at all tokens alike is their mean. So the layer begins as
one: keys of 0, values as they are, nothing from its feed-forward part, and a dense layer with tanh
in the range where that is a straight line. All of it is trained like the rest of the network.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

MEAN_TO_FIRST = 4.0
"""How much longer the mean is than the first token's own vector, which the layer adds to it."""
STRAIGHT = 0.2
"""Length of what tanh is given, for vectors whose cells are about 1: bent by about one per cent."""
_POOLER, _HEAD = ("bert",), ("roberta", "xlm-roberta", "camembert")
# In the configuration of a network that has the layer, which is saved with it.
_HAS_LAYER = "zlpr_pooling_layer"


def takes_pooling_layer(config: Any) -> bool:
    """Whether a network with this configuration is built so that the layer fits on it.

    One that has it, from when it was fine-tuned for other labels, takes no second.
    """
    fits = getattr(config, "model_type", "") in (*_POOLER, *_HEAD)
    return fits and not getattr(config, _HAS_LAYER, False)


def add_pooling_layer(network: Any) -> Callable[[], None]:
    """Put the layer on top of a network that `takes_pooling_layer`.

    What the last layer of the network is given is then, but for a factor, the mean of a text's
    token vectors, brought to one length.

    Returns:
        What takes the layer away again.
    """
    config, layers = network.config, network.base_model.encoder.layer
    dense = _dense_before_scores(network)
    before = copy.deepcopy(dense.state_dict())
    layers.append(_mean_of_tokens(layers[-1], len(layers), config.initializer_range))
    config.num_hidden_layers = len(layers)
    setattr(config, _HAS_LAYER, True)
    with torch.no_grad():
        nn.init.eye_(dense.weight).mul_(STRAIGHT)
        dense.bias.zero_()

    def take_away() -> None:
        del layers[-1]
        config.num_hidden_layers = len(layers)
        delattr(config, _HAS_LAYER)
        dense.load_state_dict(before)

    return take_away


def _mean_of_tokens(like: nn.Module, position: int, spread: float) -> nn.Module:
    """A layer whose output is the mean of its inputs, with a little of each one's own."""
    layer: Any = copy.deepcopy(like)
    attention = layer.attention.self
    attention.layer_idx = position
    with torch.no_grad():
        for part in layer.modules():
            if isinstance(part, nn.Linear):
                part.weight.normal_(std=spread)
                part.bias.zero_()
            elif isinstance(part, nn.LayerNorm):
                part.reset_parameters()
        attention.key.weight.zero_()  # not the queries too: from there no gradient leads away
        nn.init.eye_(attention.value.weight)
        nn.init.eye_(layer.attention.output.dense.weight).mul_(MEAN_TO_FIRST)
        layer.output.dense.weight.zero_()
    made: nn.Module = layer
    return made


def _dense_before_scores(network: Any) -> nn.Linear:
    """The layer with tanh between the first token and the scores."""
    is_bert = network.config.model_type in _POOLER
    found: nn.Linear = network.base_model.pooler.dense if is_bert else network.classifier.dense
    return found
