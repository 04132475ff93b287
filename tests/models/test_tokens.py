"""Texts as token ids."""

from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, RobertaConfig

from tests import tiny
from zlpr._errors import UserError
from zlpr.models.tokens import CHARACTERS_PER_TOKEN, readable_length, tokenize
from zlpr.models.transformer import load_tokenizer


@pytest.fixture(scope="module", params=[tiny.bert, tiny.roberta], ids=["bert", "roberta"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_tokenizer(str(request.param(tmp_path_factory.mktemp("model"))))


def rows(texts: Any) -> list[list[int]]:
    bounds = zip(texts.offsets, texts.offsets[1:], strict=False)
    return [texts.tokens[start:end].tolist() for start, end in bounds]


def test_tokens_are_the_tokenizers_own(tokenizer: Any) -> None:
    sentences = list(tiny.texts(2100).inputs)  # more than are encoded at once
    expected = tokenizer(sentences, truncation=True, max_length=8)["input_ids"]
    assert rows(tokenize(tokenizer, sentences, 8)) == expected


def test_an_empty_text_has_its_special_tokens(tokenizer: Any) -> None:
    assert rows(tokenize(tokenizer, ["", "   "], 8))[0] == tokenizer("")["input_ids"] != []


def test_a_tokenizer_without_special_tokens_gives_an_empty_text_one_token(tokenizer: Any) -> None:
    def bare(texts: list[str], **_: Any) -> dict[str, list[list[int]]]:
        return {"input_ids": [[7] * len(text) for text in texts]}

    bare.pad_token_id = 3  # type: ignore[attr-defined]
    assert rows(tokenize(bare, ["", "ab"], 8)) == [[3], [7, 7]]  # type: ignore[arg-type]


def test_half_a_surrogate_pair_is_a_question_mark_to_a_tokenizer(tokenizer: Any) -> None:
    texts = tokenize(tokenizer, ["bread \ud83d soup", "green"], 8)
    assert rows(texts) == tokenizer(["bread ? soup", "green"])["input_ids"]


def test_a_text_of_ten_megabytes_is_cut_before_the_tokenizer_sees_it(tokenizer: Any) -> None:
    seen: list[int] = []

    class Watched:
        pad_token_id = tokenizer.pad_token_id

        def __call__(self, texts: list[str], **options: Any) -> Any:
            seen.extend(map(len, texts))
            return tokenizer(texts, **options)

    long = "the old horse by the green harbour " * 300_000
    watched: Any = Watched()
    assert (
        rows(tokenize(watched, [long, "x" * 10_000_000], 32))[0]
        == rows(tokenize(tokenizer, [long[:2000]], 32))[0]
    )
    assert seen[:2] == [CHARACTERS_PER_TOKEN * 32] * 2


def test_a_model_reads_as_far_as_it_has_positions() -> None:
    class Tokenizer:
        model_max_length = 10**30

    tokenizer: Any = Tokenizer()
    bert, roberta = BertConfig(), RobertaConfig(max_position_embeddings=514, pad_token_id=1)
    assert readable_length(tokenizer, bert, None) == 512
    assert readable_length(tokenizer, roberta, None) == 512
    assert readable_length(tokenizer, bert, 20) == 20
    with pytest.raises(UserError, match="max_length 600: this model reads at most 512 tokens"):
        readable_length(tokenizer, roberta, 600)
    with pytest.raises(UserError, match="max_length 0: expected at least 1"):
        readable_length(tokenizer, bert, 0)


def test_segments_are_kept_only_where_they_say_something(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(tiny.bert(tmp_path)))
    assert tokenize(tokenizer, ["the horse"], 8).segments is None
