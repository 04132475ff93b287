"""The head that fine-tuning starts from."""

import copy
import dataclasses
import json
import operator
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from zlpr.losses import zlpr_loss
from zlpr.models.transformer import last_layer
from zlpr.training import TrainingConfig, fine_tuning, head_start
from zlpr.training.fine_tuning import read_tokens
from zlpr.training.head_start import head_inputs, start_head

TRAIN, VALIDATION = tiny.texts(200, seed=3), tiny.texts(50, seed=4)


def begin(folder: Path, **settings: Any) -> tuple[Any, ...]:
    config: Any = TrainingConfig(model=f"hf:{folder}", **settings)
    inputs = read_tokens(TRAIN, VALIDATION, config)
    network, is_new = fine_tuning._network(TRAIN, config, inputs)
    return config, inputs, network, is_new


def loss_of(network: Any, inputs: Any) -> float:
    with torch.inference_mode():
        given = torch.from_numpy(head_inputs(network, inputs.train, inputs.padding))
        targets = torch.from_numpy(TRAIN.labels.toarray())
        return float(zlpr_loss(last_layer(network)(given), targets))


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_head_starts_better_than_the_labels_frequencies(
    kind: str, request: pytest.FixtureRequest
) -> None:
    config, inputs, network, is_new = begin(request.getfixturevalue(kind))
    assert is_new
    others = {k: v.clone() for k, v in network.named_parameters()}
    assert start_head(network, inputs, TRAIN, VALIDATION, config)
    layer = last_layer(network)
    after = loss_of(network, inputs)
    with torch.no_grad():
        layer.weight.zero_()
    shares = torch.from_numpy(TRAIN.labels.toarray()).float().mean(0)
    bias = torch.nn.Parameter(torch.logit(shares.clamp(0.01, 0.99)))
    descent = torch.optim.Adam([bias], lr=0.05)
    targets = torch.from_numpy(TRAIN.labels.toarray())
    for _ in range(200):
        descent.zero_grad()
        constant = zlpr_loss(bias.expand(len(targets), -1), targets)
        constant.backward()
        descent.step()
    assert after < 0.98 * constant.item()
    pools = len(network.base_model.encoder.layer) > 1
    moved = ("classifier.", "bert.pooler." if pools else "classifier.")
    now = dict(network.named_parameters())
    for name, weight in others.items():
        assert name.startswith(moved) or torch.equal(weight, now[name]), name


def test_what_the_head_is_given_does_not_depend_on_the_order_of_texts(still_bert: Path) -> None:
    _, inputs, network, _ = begin(still_bert)
    given = head_inputs(network, inputs.validation, inputs.padding)
    backwards = np.arange(len(VALIDATION))[::-1].copy()
    turned = head_inputs(network, inputs.validation.select(backwards), inputs.padding)
    np.testing.assert_allclose(turned[::-1], given, atol=1e-5)
    assert not last_layer(network)._forward_pre_hooks


def test_a_head_for_the_same_labels_is_kept(bert: Path, tmp_path: Path) -> None:
    _, inputs, network, _ = begin(bert)
    network.save_pretrained(tmp_path)
    inputs.tokenizer.save_pretrained(tmp_path)
    *_, again, is_new = begin(tmp_path)
    assert not is_new
    assert torch.equal(last_layer(again).weight, last_layer(network).weight)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_head_for_as_many_other_labels_is_replaced(
    preset: str, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, inputs, network, _ = begin(bert)
    network.save_pretrained(tmp_path)
    inputs.tokenizer.save_pretrained(tmp_path)
    turned = dataclasses.replace(TRAIN, label_names=TRAIN.label_names[::-1])
    monkeypatch.setitem(globals(), "TRAIN", turned)
    *_, again, is_new = begin(tmp_path, preset=preset)
    assert is_new
    assert not torch.isclose(last_layer(again).weight, last_layer(network).weight).any()


def test_runs_that_share_their_tokens_read_the_encoder_once(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    as_it_was = head_start.head_inputs

    def counted(network: Any, texts: Any, padding: Any) -> Any:
        read.append(len(texts))
        return as_it_was(network, texts, padding)

    monkeypatch.setattr(head_start, "head_inputs", counted)
    heads, shared = [], begin(bert)[1]
    for loss in ("zlpr", "bce", "bce"):
        torch.manual_seed(0)
        config, alone, network, _ = begin(bert, loss=loss)
        torch.manual_seed(0)
        inputs = shared if len(heads) < 2 else alone
        assert start_head(network, inputs, TRAIN, VALIDATION, config)
        heads.append(last_layer(network))
    assert read == [200, 50] * 4  # by the first token and by the mean; again for the last alone
    assert torch.equal(heads[1].weight, heads[2].weight)
    assert torch.equal(heads[1].bias, heads[2].bias)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_was_read_is_not_taken_for_another_encoder_or_other_texts(
    seed: int, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_start, "MOST_SAMPLES", 100)
    config, inputs, network, _ = begin(bert, seed=seed)
    assert start_head(network, inputs, TRAIN, VALIDATION, config)
    config, other, moved, _ = begin(bert, seed=1)
    with torch.no_grad():
        moved.base_model.embeddings.word_embeddings.weight.mul_(1.0 if seed == 0 else 1.5)
    twin = copy.deepcopy(moved)
    for network, tokens in ((moved, inputs), (twin, other)):
        torch.manual_seed(0)
        assert start_head(network, tokens, TRAIN, VALIDATION, config)
    assert torch.equal(last_layer(moved).weight, last_layer(twin).weight)
    assert len(inputs.given_to_head) == 2


def test_a_loss_that_is_not_convex_starts_from_a_fit_of_zlpr(bert: Path) -> None:
    config, inputs, network, _ = begin(bert, loss="dice1")
    assert start_head(network, inputs, TRAIN, VALIDATION, config)
    other, _, same, _ = begin(bert)
    assert start_head(same, inputs, TRAIN, VALIDATION, other)
    assert torch.equal(last_layer(network).weight, last_layer(same).weight)


def test_another_bound_of_the_loss_moves_the_biases_alone(bert: Path) -> None:
    starts = []
    for threshold in (0.0, 5.0):
        config, inputs, network, _ = begin(bert, loss_params={"threshold": threshold})
        torch.manual_seed(0)  # for what the layer of the mean starts from
        assert start_head(network, inputs, TRAIN, VALIDATION, config)
        starts.append((len(network.base_model.encoder.layer), last_layer(network)))
    (layers, plain), (others, moved) = starts
    assert layers == others
    torch.testing.assert_close(moved.weight, plain.weight, rtol=0.01, atol=0.01)
    torch.testing.assert_close(moved.bias, plain.bias + 5.0, rtol=0.01, atol=0.05)


def judged_as(losses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let validation find these losses: of the first token, then of the mean."""
    as_it_was, found = head_start._fit, iter(losses)
    monkeypatch.setattr(head_start, "_fit", lambda *a: (as_it_was(*a)[0], next(found)))


@pytest.mark.parametrize("pools", [True, False])
def test_validation_says_whether_the_mean_of_the_tokens_is_read(
    pools: bool, still_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, inputs, network, _ = begin(still_bert)
    judged_as([3.0, 2.0] if pools else [2.0, 3.0], monkeypatch)
    assert start_head(network, inputs, TRAIN, VALIDATION, config)
    assert len(network.base_model.encoder.layer) == 1 + pools


@pytest.mark.parametrize("pools", [True, False])
def test_all_processes_read_what_the_first_one_finds_better(
    pools: bool, still_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, inputs, network, _ = begin(still_bert)
    judged_as([2.0, 3.0] if pools else [3.0, 2.0], monkeypatch)
    of_the_first = operator.methodcaller("__setitem__", 0, pools)
    monkeypatch.setattr(head_start, "broadcast_object_list", of_the_first)
    assert start_head(network, inputs, TRAIN, VALIDATION, config)
    assert len(network.base_model.encoder.layer) == 1 + pools


def test_an_encoder_that_gives_the_same_of_every_text_is_left_as_it_is(
    still_bert: Path, tmp_path: Path
) -> None:
    """A decoder's first token sees itself alone."""
    shutil.copytree(still_bert, tmp_path / "decoder")
    file = tmp_path / "decoder" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "is_decoder": True}))
    config, inputs, network, _ = begin(tmp_path / "decoder")
    assert not start_head(network, inputs, TRAIN, VALIDATION, config)
    assert len(network.base_model.encoder.layer) == 1


def test_the_papers_preset_starts_with_a_random_head() -> None:
    assert not fine_tuning.RECIPES["paper"].head_first
    assert fine_tuning.RECIPES["default"].head_first
