"""Texts as token ids: cut early, kept ragged, padded only to the longest of their own batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr._errors import UserError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

CHARACTERS_PER_TOKEN = 64
"""A text is cut at this many characters per token that the model reads, before tokenization.

Tokenizers read a whole text before they truncate it; on a text of ten megabytes that costs minutes
and gigabytes for tokens nobody looks at. No tokenizer in use averages near 64 characters a token.
"""
LONGEST = 512  # what a model reads unless told otherwise; attention's cost is quadratic in it
_TEXTS_AT_ONCE = 1000


@dataclass(frozen=True)
class TokenizedTexts:
    """Token ids of many texts, one after the other in one flat array.

    Attributes:
        tokens: all token ids, int32.
        offsets: text `i` is `tokens[offsets[i]:offsets[i + 1]]`, shape (texts + 1,).
        segments: token types, flat like `tokens`; None where they are all 0, the models' default.
    """

    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]
    segments: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per text."""
        return np.diff(self.offsets)

    def select(self, rows: NDArray[np.int64]) -> "TokenizedTexts":
        """The texts at these positions, in this order."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        where = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        segments = None if self.segments is None else self.segments[where]
        return TokenizedTexts(self.tokens[where], offsets, segments)


@dataclass(frozen=True)
class Padding:
    """How a tokenizer fills the shorter texts of a batch.

    Attributes:
        token: the id of the padding token.
        segment: its token type.
        left: whether the padding stands before the text.
        multiple: batches are as wide as the next multiple of this (8 suits tensor cores).
    """

    token: int
    segment: int = 0
    left: bool = False
    multiple: int = 1

    @classmethod
    def of(cls, tokenizer: "PreTrainedTokenizerBase", *, multiple: int = 1) -> "Padding":
        """The padding that a tokenizer asks for."""
        return cls(
            token=int(tokenizer.pad_token_id),
            segment=int(tokenizer.pad_token_type_id),
            left=tokenizer.padding_side == "left",
            multiple=multiple,
        )

    def batch(self, texts: TokenizedTexts, rows: NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """Model inputs of some texts, as wide as the longest of them.

        Args:
            texts: all texts.
            rows: which of them, in this order.

        Returns:
            `input_ids`, `attention_mask` and, where the tokenizer has them, `token_type_ids`, each
            of shape (rows, width).
        """
        starts = texts.offsets[rows]
        lengths = texts.offsets[rows + 1] - starts
        width = -(-int(lengths.max()) // self.multiple) * self.multiple
        columns = np.arange(width)
        if self.left:
            columns = columns - (width - lengths)[:, None]
            real = columns >= 0
        else:
            real = columns < lengths[:, None]
        where = np.where(real, starts[:, None] + columns, 0)
        ids = np.where(real, texts.tokens[where], self.token).astype(np.int64)
        inputs = {"input_ids": torch.from_numpy(ids)}
        if texts.segments is not None:
            segments = np.where(real, texts.segments[where], self.segment).astype(np.int64)
            inputs["token_type_ids"] = torch.from_numpy(segments)
        inputs["attention_mask"] = torch.from_numpy(real.astype(np.int64))
        return inputs


def tokenize(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], max_length: int
) -> TokenizedTexts:
    """Token ids of texts, special tokens included, at most `max_length` each.

    A text beyond `CHARACTERS_PER_TOKEN * max_length` characters is cut there first, and half of a
    surrogate pair, at which a tokenizer would stop, is read as a question mark. An empty text
    has its special tokens; where the tokenizer adds none, one padding token stands for it.
    """
    pieces = list(_encode(tokenizer, texts, max_length))
    ids = [row for piece in pieces for row in piece[0]]
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    tokens = np.fromiter(chain.from_iterable(ids), dtype=np.int32, count=int(lengths.sum()))
    types = [row for piece in pieces for row in piece[1]]
    segments = np.fromiter(chain.from_iterable(types), dtype=np.int32) if types else None
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return TokenizedTexts(
        tokens, offsets, None if segments is None or not segments.any() else segments
    )


def _encode(
    tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str], max_length: int
) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Ids and token types, some texts at a time so that the tokenizer's own objects stay few."""
    most = CHARACTERS_PER_TOKEN * max_length
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        encoded: Any = tokenizer(
            [
                text[:most].encode("utf-8", "replace").decode("utf-8")
                for text in texts[start : start + _TEXTS_AT_ONCE]
            ],
            truncation=True,
            max_length=max_length,
            padding=False,
            return_attention_mask=False,
        )
        ids = [row or [int(tokenizer.pad_token_id)] for row in encoded["input_ids"]]
        yield ids, [row or [0] for row in encoded.get("token_type_ids", [])]


def readable_length(
    tokenizer: "PreTrainedTokenizerBase", config: "PretrainedConfig", wanted: int | None
) -> int:
    """How many tokens of a text to read: what is wanted, if the model can; else what it can.

    Raises:
        UserError: less than a token is wanted, or more than the model has positions for.
    """
    positions = getattr(config, "max_position_embeddings", None) or LONGEST
    if getattr(config, "model_type", "") in _OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    most = min(int(tokenizer.model_max_length), int(positions))
    if wanted is None:
        return min(most, LONGEST)
    if wanted < 1:
        raise UserError(f"max_length {wanted}: expected at least 1")
    if wanted > most:
        raise UserError(f"max_length {wanted}: this model reads at most {most} tokens")
    return wanted


# Families that count positions from the padding index on, as RoBERTa does.
_OFFSET_POSITIONS = frozenset(
    {
        "roberta",
        "xlm-roberta",
        "xlm-roberta-xl",
        "camembert",
        "longformer",
        "mpnet",
        "data2vec-text",
    }
)
