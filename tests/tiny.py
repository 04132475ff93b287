"""Randomly initialised transformers of a few thousand weights, and texts that they can learn."""

import random
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaTokenizerFast,
)

from zlpr.data import Dataset

LABELS = ("animal", "colour", "food", "place", "tool")
WORDS = {
    "animal": ("horse", "sparrow", "trout"),
    "colour": ("crimson", "green", "violet"),
    "food": ("bread", "plum", "soup"),
    "place": ("harbour", "meadow", "village"),
    "tool": ("chisel", "hammer", "ladder"),
}
FILLERS = ("a", "and", "by", "near", "of", "old", "small", "the", "two", "with")


def bert(folder: Path, *, dropout: float = 0.1, seed: int = 0) -> Path:
    """A BERT with its tokenizer, as `from_pretrained` reads it."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FILLERS]
    vocabulary += [word for words in WORDS.values() for word in words]
    BertTokenizerFast(vocab={w: i for i, w in enumerate(vocabulary)}).save_pretrained(folder)
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **_sizes(dropout))
    torch.manual_seed(seed)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def roberta(folder: Path, *, dropout: float = 0.1, seed: int = 0, has_head: bool = True) -> Path:
    """A RoBERTa with its byte-level tokenizer, as `from_pretrained` reads it."""
    bpe = ByteLevelBPETokenizer()
    lines = [" ".join([*FILLERS, *words]) for words in WORDS.values()] * 3
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator(lines, vocab_size=400, special_tokens=special, show_progress=False)
    bpe.save_model(str(folder))
    files = str(folder / "vocab.json"), str(folder / "merges.txt")
    tokenizer = RobertaTokenizerFast(*files)
    tokenizer.save_pretrained(folder)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=66,
        pad_token_id=tokenizer.pad_token_id,
        **_sizes(dropout),
    )
    torch.manual_seed(seed)
    made = RobertaForSequenceClassification(config)
    (made if has_head else made.roberta).save_pretrained(folder)
    return folder


def _sizes(dropout: float) -> dict[str, float]:
    return {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "initializer_range": 0.2,
    }


def texts(size: int, seed: int = 0) -> Dataset:
    """Short texts of uneven length; a text has a label where it has one of the label's words."""
    chance = random.Random(seed)  # noqa: S311
    sentences, sets = [], []
    for _ in range(size):
        labels = chance.sample(LABELS, chance.choice((0, 1, 1, 2, 3)))
        words = [chance.choice(WORDS[label]) for label in labels]
        words += chance.choices(FILLERS, k=chance.randint(1, 12))
        chance.shuffle(words)
        sentences.append(" ".join(words))
        sets.append(labels)
    return Dataset.from_label_sets(sets, label_names=LABELS, texts=sentences, name="tiny")
