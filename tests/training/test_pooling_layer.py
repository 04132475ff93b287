"""The layer that makes the first token the mean of all tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, DistilBertConfig

from tests import tiny
from zlpr.models.transformer import last_layer, load_network
from zlpr.training import TrainingConfig
from zlpr.training.fine_tuning import read_tokens
from zlpr.training.head_start import head_inputs
from zlpr.training.pooling_layer import add_pooling_layer, takes_pooling_layer

TEXTS = tiny.texts(30, seed=3)


def means_of_tokens(network: Any, texts: Any, padding: Any) -> np.ndarray:
    """Token vectors of the encoder as it comes, averaged over each text, in float64."""
    found = []
    with torch.inference_mode():
        for row in range(len(texts)):
            batch = padding.batch(texts, np.array([row]))
            vectors = network.base_model(**batch).last_hidden_state[0]
            found.append(vectors.double().mean(0).numpy())
    return np.array(found)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_head_is_given_the_mean_of_the_tokens(
    kind: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    config: Any = TrainingConfig(model=f"hf:{folder}")
    inputs = read_tokens(TEXTS, TEXTS, config)
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True).eval()
    means = means_of_tokens(network, inputs.train, inputs.padding)
    assert takes_pooling_layer(network.config)
    add_pooling_layer(network)
    given = head_inputs(network, inputs.train, inputs.padding)
    for text, mean in zip(given, means, strict=True):
        assert np.corrcoef(text, mean)[0, 1] > 0.95  # the rest is the first token's own


def test_every_weight_of_the_layer_can_be_learned(bert: Path) -> None:
    network = load_network(str(bert), num_labels=5, ignore_mismatched_sizes=True)
    add_pooling_layer(network)
    layer = network.base_model.encoder.layer[-1]
    descent = torch.optim.SGD(network.parameters(), lr=0.1)
    tokens = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 8, 15, 3]])
    for _ in range(2):  # queries move once keys are no longer 0
        descent.zero_grad()
        network(input_ids=tokens).logits[0].square().sum().backward()
        descent.step()
    for name, weight in layer.named_parameters():
        if not name.endswith("key.bias"):  # of which softmax knows nothing
            assert weight.grad.abs().sum() > 0, name


def test_the_network_with_the_layer_is_one_that_transformers_loads(
    bert: Path, tmp_path: Path
) -> None:
    network = load_network(str(bert), num_labels=5, ignore_mismatched_sizes=True).eval()
    tokens = torch.tensor([[2, 5, 6, 7, 3]])
    add_pooling_layer(network)
    network.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    for (name, weight), (other, same) in zip(
        network.state_dict().items(), again.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(weight, same)
    # The last bit of a product may hang on where its factors lie in memory.
    torch.testing.assert_close(again(input_ids=tokens).logits, network(input_ids=tokens).logits)
    assert not takes_pooling_layer(again.config)  # a second time, for other labels


def test_the_layer_can_be_taken_away(roberta: Path) -> None:
    network = load_network(str(roberta), num_labels=5, ignore_mismatched_sizes=True)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    add_pooling_layer(network)()
    after = network.state_dict()
    assert network.config.num_hidden_layers == 1
    assert takes_pooling_layer(network.config)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert last_layer(network).out_features == 5


def test_other_encoders_stay_as_they_are() -> None:
    assert not takes_pooling_layer(DistilBertConfig())
