"""Texts become the vectors that an encoder's folder asks for, whatever stands beside them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from tests import tiny
from zlpr._errors import UserError
from zlpr.models.encoder import Encoder, EncoderFolder, copy_encoder, find_encoder, pool
from zlpr.models.transformer import load_network

TEXTS = [
    "the horse near the old harbour",
    "bread",
    "",
    "two small plum and the green ladder by a village with soup and soup and soup",
]


def as_sentence_transformers(
    folder: Path, pooling: dict[str, Any] | None = None, *steps: str, dense: bool = False
) -> Path:
    """What sentence-transformers writes beside a transformer."""
    kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), *steps]
    modules = [
        {
            "idx": i,
            "path": f"{i}_{kind}" if i else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    told = pooling or {"pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    if dense:
        (folder / "2_Dense").mkdir()
        shape = {"in_features": 16, "out_features": 3, "bias": True}
        shape["activation_function"] = "torch.nn.modules.activation.Tanh"
        (folder / "2_Dense" / "config.json").write_text(json.dumps(shape))
        torch.manual_seed(1)
        weights = {"linear.weight": torch.randn(3, 16), "linear.bias": torch.randn(3)}
        save_file(weights, folder / "2_Dense" / "model.safetensors")
    return folder


def hidden_states(folder: Path, text: str, max_length: int = 64) -> torch.Tensor:
    """What transformers gives for a text by itself, (tokens, width)."""
    tokens = AutoTokenizer.from_pretrained(folder)(
        text, return_tensors="pt", truncation=True, max_length=max_length
    )
    with torch.no_grad():
        hidden: torch.Tensor = AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state
    return hidden[0]


def test_a_plain_folder_is_pooled_by_the_mean_and_has_length_one(tmp_path: Path) -> None:
    folder = tiny.bert(tmp_path)
    embeddings = Encoder(str(folder)).embed(TEXTS)
    means = [hidden_states(folder, text).mean(0) for text in TEXTS]
    expected = np.stack([(mean / mean.norm()).numpy() for mean in means])
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)


@pytest.mark.parametrize("asked", [{"return_dict": False}, {"output_attentions": True}])
def test_a_configuration_that_asks_for_other_answers_changes_nothing(
    asked: dict[str, bool], tmp_path: Path
) -> None:
    expected = Encoder(str(tiny.bert(tmp_path))).embed(TEXTS)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **asked}))
    np.testing.assert_array_equal(Encoder(str(tmp_path)).embed(TEXTS), expected)
    network = load_network(str(tmp_path))
    assert network(input_ids=torch.ones(1, 3, dtype=torch.long)).logits.shape == (1, 2)
    network.save_pretrained(tmp_path / "checkpoint")  # as a training does


def test_pooling_layers_and_length_are_read_from_the_folder(tmp_path: Path) -> None:
    told = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    folder = as_sentence_transformers(tiny.bert(tmp_path), told, dense=True)
    encoder = Encoder(str(folder))
    layer = load_file(folder / "2_Dense" / "model.safetensors")
    firsts = torch.stack([hidden_states(folder, text, 9)[0] for text in TEXTS])
    expected = torch.tanh(firsts @ layer["linear.weight"].T + layer["linear.bias"])
    assert (encoder.width, encoder.max_length, encoder.files.normalise) == (3, 9, False)
    np.testing.assert_allclose(encoder.embed(TEXTS), expected.numpy(), atol=1e-5)


def test_the_order_of_texts_and_their_company_do_not_matter(tmp_path: Path) -> None:
    encoder = Encoder(str(tiny.roberta(tmp_path)))
    together = encoder.embed(TEXTS * 3)
    alone = np.concatenate([encoder.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(together, np.tile(alone, (3, 1)), atol=1e-5)
    assert encoder.embed([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("cls", [2.0]),
        ("lasttoken", [5.0]),
        ("max", [5.0]),
        ("mean", [3.5]),
        ("mean_sqrt_len_tokens", [7.0 / 2**0.5]),
    ],
)
@pytest.mark.parametrize("left", [False, True])
def test_padding_counts_for_nothing(way: str, expected: list[float], left: bool) -> None:
    hidden, mask = [[2.0], [5.0], [99.0]], [1, 1, 0]
    if left:
        hidden, mask = [hidden[2], *hidden[:2]], [0, 1, 1]
    pooled = pool(torch.tensor([hidden]), torch.tensor([mask]), way)
    torch.testing.assert_close(pooled, torch.tensor([expected]))


def test_later_tokens_weigh_more_in_a_weighted_mean() -> None:
    pooled = pool(torch.tensor([[[2.0], [5.0], [9.0]]]), torch.tensor([[1, 1, 0]]), "weightedmean")
    assert pooled.tolist() == [[4.0]]


def test_newer_names_of_pooling_are_read(tmp_path: Path) -> None:
    folder = as_sentence_transformers(tiny.bert(tmp_path), {"pooling_mode": "lasttoken"})
    assert EncoderFolder.read(folder).poolings == ("lasttoken",)


def test_the_fingerprint_is_of_what_decides_an_embedding(tmp_path: Path) -> None:
    folder = as_sentence_transformers(tiny.bert(tmp_path), None, "Normalize")
    before = EncoderFolder.read(folder).fingerprint()
    (folder / "README.md").write_text("about")
    assert EncoderFolder.read(folder).fingerprint() == before
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    pooled_otherwise = EncoderFolder.read(folder).fingerprint()
    assert pooled_otherwise != before
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.1}))
    assert EncoderFolder.read(folder).fingerprint() not in {before, pooled_otherwise}


def test_a_copy_embeds_alike_and_holds_no_pickle(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    folder = as_sentence_transformers(tiny.bert(tmp_path / "encoder"), None, dense=True)
    state = AutoModel.from_pretrained(folder).state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    encoder = Encoder(str(folder))
    copy = copy_encoder(encoder, tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("*.bin"))
    copied = Encoder("copy", folder=copy.folder)
    np.testing.assert_allclose(copied.embed(TEXTS), encoder.embed(TEXTS), atol=1e-6)


def test_half_a_surrogate_pair_stops_nothing(tmp_path: Path) -> None:
    assert np.isfinite(Encoder(str(tiny.bert(tmp_path))).embed(["bread \ud83d soup"])).all()


@pytest.mark.parametrize(
    ("modules", "fault"),
    [
        ('[{"type": "models.CNN", "path": ""}]', "step 'CNN'; known are Transformer"),
        ('[{"type": "models.Transformer", "path": "../x"}]', "'../x' leaves the folder"),
        ("[]", "lists no Transformer"),
        ('{"a": 1}', "not a list of modules"),
        ("[", "cannot be read"),
    ],
)
def test_steps_that_are_not_known_are_refused(tmp_path: Path, modules: str, fault: str) -> None:
    (tmp_path / "modules.json").write_text(modules)
    with pytest.raises(UserError, match=fault):
        EncoderFolder.read(tmp_path)


def test_a_folder_without_weights_and_a_name_that_nobody_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="no weights in"):
        find_encoder(str(tmp_path))
    with pytest.raises(UserError, match=r"cannot load the encoder './nowhere': no such folder"):
        find_encoder("./nowhere")


@pytest.mark.parametrize("length", ['"9"', "0", "-1", "true", "2.5"])
def test_a_length_that_is_none_is_refused(tmp_path: Path, length: str) -> None:
    folder = as_sentence_transformers(tiny.bert(tmp_path))
    (folder / "sentence_bert_config.json").write_text(f'{{"max_seq_length": {length}}}')
    with pytest.raises(UserError, match="expected a whole number above 0"):
        Encoder(str(folder))


def test_a_prompt_that_is_left_out_of_the_mean_is_refused(tmp_path: Path) -> None:
    pooling = {"pooling_mode_mean_tokens": True, "include_prompt": False}
    folder = as_sentence_transformers(tiny.bert(tmp_path), pooling)
    Encoder(str(folder))  # there is no prompt
    prompts = {"prompts": {"query": "the old "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with pytest.raises(UserError, match="leaves its prompt out of the mean"):
        Encoder(str(folder))
