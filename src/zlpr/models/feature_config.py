"""How a model reads text as n-grams."""

from dataclasses import dataclass, field

from zlpr._errors import UserError

VIEWS = ("word", "subword", "char")
"""What runs are of: words, characters within words, characters across them."""
LONGEST_NGRAM = 100
"""The longest run of symbols: a vocabulary from a stranger takes time for each length."""


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """How the linear model reads text.

    Attributes:
        analyzer: what n-grams are of: "word", "subword" (characters within a word, its ends
            marked), "char" (characters across words), several joined by "+"; or "auto", which is
            "char" for text without spaces (Chinese, Japanese, Thai) and "word+subword" otherwise.
        word_ngrams: shortest and longest run of words.
        subword_ngrams: shortest and longest run of characters within a word.
        char_ngrams: shortest and longest run of characters.
        min_count: texts an n-gram must appear in; None takes 1 below 5,000 texts, 2 below 100,000
            and 3 from there on, where rarer ones add more memory than quality.
        max_features: keep this many of the most frequent; None keeps all.
    """

    analyzer: str = field(
        default="auto",
        metadata={
            "help": "what n-grams are made of: word, subword (characters within words) or char, or "
            "several joined by '+'; auto is word+subword, and char for text without spaces"
        },
    )
    word_ngrams: tuple[int, int] = field(
        default=(1, 2), metadata={"help": "shortest and longest run of words"}
    )
    subword_ngrams: tuple[int, int] = field(
        default=(4, 4), metadata={"help": "shortest and longest run of characters within a word"}
    )
    char_ngrams: tuple[int, int] = field(
        default=(1, 3), metadata={"help": "shortest and longest run of characters"}
    )
    min_count: int | None = field(
        default=None, metadata={"help": "leave out n-grams of fewer texts"}
    )
    max_features: int | None = field(
        default=None, metadata={"help": "keep at most so many n-grams"}
    )

    def __post_init__(self) -> None:
        if self.analyzer != "auto" and not _are_views(self.analyzer.split("+")):
            raise UserError(
                f"analyzer {self.analyzer!r}: expected auto, or {', '.join(VIEWS[:-1])} or "
                f"{VIEWS[-1]}, or several of them joined by '+'"
            )
        for name in ("word_ngrams", "subword_ngrams", "char_ngrams"):
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

    def ngrams(self, view: str) -> tuple[int, int]:
        """The shortest and longest run of one view."""
        runs: tuple[int, int] = getattr(self, f"{view}_ngrams")
        return runs


def _are_views(names: list[str]) -> bool:
    return set(names) <= set(VIEWS) and len(set(names)) == len(names)
