"""How a model reads text as n-grams."""

from dataclasses import dataclass, field
from typing import Literal

from zlpr._errors import UserError

Analyzer = Literal["auto", "word", "char", "word+char"]
LONGEST_NGRAM = 100
"""The longest run of symbols: a vocabulary from a stranger takes time for each length."""


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """How the linear model reads text.

    Attributes:
        analyzer: "word", "char", both, or "auto": character n-grams for text without spaces
            (Chinese, Japanese, Thai), words otherwise.
        word_ngrams: shortest and longest run of words.
        char_ngrams: shortest and longest run of characters.
        min_count: texts an n-gram must appear in; None takes 1 below 5,000 texts, 2 below 100,000
            and 3 from there on, where rarer ones add more memory than quality.
        max_features: keep this many of the most frequent; None keeps all.
    """

    analyzer: Analyzer = field(
        default="auto",
        metadata={
            "help": "n-grams of words or characters; auto takes characters for text without spaces"
        },
    )
    word_ngrams: tuple[int, int] = field(
        default=(1, 2), metadata={"help": "shortest and longest run of words"}
    )
    char_ngrams: tuple[int, int] = field(
        default=(1, 3), metadata={"help": "shortest and longest run of characters"}
    )
    min_count: int | None = field(default=None, metadata={"help": "texts an n-gram must be in"})
    max_features: int | None = field(default=None, metadata={"help": "n-grams to keep"})

    def __post_init__(self) -> None:
        if self.analyzer not in ("auto", "word", "char", "word+char"):
            raise UserError(f"analyzer {self.analyzer!r}: expected auto, word, char or word+char")
        for name in ("word_ngrams", "char_ngrams"):
            shortest, longest = getattr(self, name)
            if not 1 <= shortest <= longest <= LONGEST_NGRAM:
                raise UserError(
                    f"{name} ({shortest}, {longest}): expected 1 <= shortest <= longest "
                    f"<= {LONGEST_NGRAM}"
                )
        for name in ("min_count", "max_features"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} {value}: expected at least 1")
