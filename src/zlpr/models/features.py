"""TF-IDF features of texts, with a vocabulary that saves as plain JSON.

The numbers are those of scikit-learn's `TfidfVectorizer(sublinear_tf=True)`, tokens, counts and
weights alike, but that each emoji is a word too: on Spanish posts, a quarter of which have some,
that is worth 2.6 points of Micro-F1, and nothing elsewhere (`bench/text_marks.py`). They are
computed over arrays of symbols instead of strings, since with a solver of a few dozen passes the
features would otherwise be most of the time of a fit (`TfidfVectorizer` takes 3 to 7 times as long:
`bench/by_hand.py features`). A text is a sequence of symbols (words or code points), an n-gram is
the pair of its first n-1 symbols' number and its last symbol, and one sort counts the n-grams of
all texts.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.models.feature_config import LONGEST_NGRAM, FeatureConfig
from zlpr.models.mixed_matrix import MixedMatrix

Matrix = sparse.csr_array[Any] | NDArray[Any] | MixedMatrix
Integers = NDArray[np.integer[Any]]

# Between texts that are searched for words together, and the number it gets among the symbols.
_SEPARATOR, _END = "\x1e", -2
# Greedy, so that a match always ends at a word's end: scikit-learn's `\b\w\w+\b`.
_WORD = re.compile(r"\w\w+|\x1e")
_WORD_OR_EMOJI = re.compile("\\w\\w+|[\u2600-\u27bf\U0001f1e6-\U0001faff]|\x1e")
_BETWEEN_SPACES = re.compile(r"\S+|\x1e")
_SPACES = re.compile(r"\s\s+")
# Largest key that is looked up in a table instead of by search (32 MB of table).
_TABLE = 2**22
# Texts turned into symbols at a time: a word as a Python string takes ten times its number.
_BATCH = 2_000


class TextFeatures:
    """TF-IDF with sublinear counts and rows of length one, over words, characters or both.

    An n-gram in `c` places of a text, and in `d` of `n` training texts, weighs
    `(1 + log c) (1 + log((1 + n) / (1 + d)))`; each text's weights are then scaled to length one.
    A text without any known n-gram, such as an empty one, has a row of zeros.

    Examples:
        >>> features = TextFeatures(FeatureConfig(analyzer="word", word_ngrams=(1, 1)))
        >>> features.fit_transform(["red wine", "red house"]).toarray().round(2).tolist()
        [[0.58, 0.81, 0.0], [0.58, 0.0, 0.81]]
    """

    def __init__(self, config: FeatureConfig | None = None) -> None:
        self.config = config or FeatureConfig()
        self._views: list[_View] = []

    @property
    def num_features(self) -> int:
        """Columns of the matrices that `transform` gives."""
        return sum(view.num_terms for view in self._views)

    @property
    def terms(self) -> list[str]:
        """The n-gram of each column."""
        return [term for view in self._views for term in view.terms()]

    def fit_transform(self, texts: Sequence[str]) -> sparse.csr_array[Any]:
        """Learn the vocabulary and give the texts' features, (texts, features), float32."""
        config = self.config
        analyzer = guess_analyzer(texts) if config.analyzer == "auto" else config.analyzer
        smallest = config.min_count or (
            1 if len(texts) < 5_000 else 2 if len(texts) < 100_000 else 3
        )
        self._views = []
        for name in analyzer.split("+"):
            self._views.append(_View(_VIEWS[name](), config.ngrams(name)))
        matrices = [view.learn(texts, smallest, config.max_features) for view in self._views]
        if not self.num_features:
            of = counted(len(texts), "training text")
            raise UserError(
                f"no {analyzer} n-gram appears in {smallest} of {of};"
                " lower min_count or change the analyzer"
            )
        return _side_by_side(matrices)

    def transform(self, texts: Sequence[str]) -> sparse.csr_array[Any]:
        """The features of new texts."""
        return _side_by_side([view.apply(texts) for view in self._views])

    def places(self, text: str) -> dict[int, "NGram"]:
        """The known n-grams of a text by their columns, the same that `transform` gives numbers."""
        found: dict[int, NGram] = {}
        first = 0
        for view in self._views:
            found |= {first + column: ngram for column, ngram in view.places(text).items()}
            first += view.num_terms
        return found

    def to_json(self) -> dict[str, Any]:
        """The vocabulary as plain JSON: per view its n-grams and the texts each appeared in."""
        return {"views": [view.to_json() for view in self._views]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TextFeatures":
        """What `to_json` gave."""
        features = cls()
        features._views = [_View.from_json(view) for view in value["views"]]
        return features


def guess_analyzer(texts: Sequence[str]) -> Literal["word+subword", "char"]:
    """Characters where a sample of the texts has less than a space per 20 characters."""
    sample = texts[:: max(1, len(texts) // 1_000)]
    characters = sum(len(text) for text in sample)
    spaces = sum(len(text.split()) - 1 for text in sample if text.strip())
    return "char" if 20 * spaces < characters else "word+subword"


@dataclass(frozen=True)
class NGram:
    """An n-gram and the stretches of a text, as (start, end), at which it stands."""

    term: str
    places: list[tuple[int, int]]


@dataclass(frozen=True)
class _Sequences:
    """Texts as numbers: the symbols of all of them in a row, and whose each one is."""

    symbols: Integers
    owners: Integers
    num_texts: int


class _Alphabet:
    """Symbols of one kind, with numbers."""

    name: str
    joint: str

    def units(self, texts: Sequence[str]) -> tuple[Sequence[str], sparse.csr_array[Any] | None]:
        """What n-grams are found in, and how often a text holds each; None where it is texts."""
        return texts, None

    def runs(self, text: "_Lowered") -> list["_Run"]:
        """The symbols of one text, in runs that n-grams do not cross."""
        raise NotImplementedError


class _Words(_Alphabet):
    """Symbols that are lower-case words of two characters or more."""

    name, joint = "word", " "
    pattern = _WORD

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._number = {word: number for number, word in enumerate(words)}

    def __len__(self) -> int:
        return len(self._number)

    def learn(self, texts: Sequence[str]) -> _Sequences:
        """The texts' symbols, with a number for every word."""
        self._number, sequences = _number(texts, self.pattern)
        return sequences

    def read(self, texts: Sequence[str]) -> _Sequences:
        """The texts' symbols, -1 for an unknown word."""
        number = {**self._number, _SEPARATOR: _END}.get
        return _read(texts, lambda words: map(number, words, repeat(-1)), self.pattern)

    @staticmethod
    def split(term: str) -> list[str]:
        """The symbols of an n-gram as text."""
        return term.split(" ")

    def symbols(self) -> list[str]:
        """Each symbol as text."""
        return list(self._number)

    def runs(self, text: "_Lowered") -> list["_Run"]:
        """All words of the text."""
        return [[(found.group(), text.place(*found.span())) for found in text.search(self.pattern)]]


class _WordsAndEmoji(_Words):
    """Words, and every emoji as one."""

    name = "word+emoji"
    pattern = _WORD_OR_EMOJI


def _number(texts: Sequence[str], pattern: re.Pattern[str]) -> tuple[dict[str, int], _Sequences]:
    """The words that match, with a number for each, and the texts in these numbers."""
    numbering: defaultdict[str, int] = defaultdict(None, {_SEPARATOR: _END})
    numbering.default_factory = lambda: len(numbering) - 1
    sequences = _read(texts, lambda words: map(numbering.__getitem__, words), pattern)
    del numbering[_SEPARATOR]
    return dict(numbering), sequences


def _read(
    texts: Sequence[str], number: Callable[[list[str]], Iterable[int]], pattern: re.Pattern[str]
) -> _Sequences:
    """Words of the texts, in batches so that few live as strings, and one search per batch."""
    parts = []
    for batch in _batches(texts):
        joined = _SEPARATOR.join(batch)
        if joined.count(_SEPARATOR) >= len(batch):
            joined = _SEPARATOR.join(text.replace(_SEPARATOR, " ") for text in batch)
        words = pattern.findall(joined.lower() + _SEPARATOR)
        parts.append(np.fromiter(number(words), dtype=np.int32, count=len(words)))
    symbols = np.concatenate([np.empty(0, dtype=np.int32), *parts])
    ends = symbols == _END
    owners = np.cumsum(ends, dtype=np.int32)
    return _Sequences(symbols[~ends], owners[~ends], len(texts))


class _Characters(_Alphabet):
    """Symbols that are lower-case code points, runs of white space counting as one space."""

    name, joint = "char", ""

    def __init__(self, characters: Sequence[str] = ()) -> None:
        self._known = np.array(sorted(map(ord, characters)), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, texts: Sequence[str]) -> _Sequences:
        """The texts' symbols, with a number for every code point."""
        points = self._code_points(texts)
        self._known = np.flatnonzero(np.bincount(points.symbols))
        return _Sequences(_find(self._known, points.symbols), points.owners, points.num_texts)

    def read(self, texts: Sequence[str]) -> _Sequences:
        """The texts' symbols, -1 for an unknown code point."""
        points = self._code_points(texts)
        return _Sequences(_find(self._known, points.symbols), points.owners, points.num_texts)

    @staticmethod
    def split(term: str) -> list[str]:
        """The symbols of an n-gram as text."""
        return list(term)

    def symbols(self) -> list[str]:
        """Each symbol as text."""
        return list(map(chr, self._known.tolist()))

    def runs(self, text: "_Lowered") -> list["_Run"]:
        """All characters of the text."""
        found = re.finditer(r"\s\s+|[\s\S]", text.lower)
        # As `_clean` has it: a run of white space is one space, a single one stays what it is.
        clean = ((" " if len(one.group()) > 1 else one.group(), one.span()) for one in found)
        return [[(symbol, text.place(*span)) for symbol, span in clean]]

    @staticmethod
    def _clean(text: str) -> str:
        return _SPACES.sub(" ", text.lower())

    @classmethod
    def _code_points(cls, texts: Sequence[str]) -> _Sequences:
        symbols, lengths = [], []
        for batch in _batches(texts):
            cleaned = list(map(cls._clean, batch))
            lengths.append(np.fromiter(map(len, cleaned), dtype=np.int64, count=len(cleaned)))
            joined = "".join(cleaned).encode("utf-32-le", "surrogatepass")
            symbols.append(np.frombuffer(joined, dtype="<u4").astype(np.int32))
        return _sequences(symbols, lengths)


class _Subwords(_Characters):
    """Code points of a word by itself, with a space for either of its ends.

    Words are few beside their occurrences, so each is read once: what occurs in a text is what
    occurs in its words, summed by a product of sparse matrices.
    """

    name = "subword"

    def units(self, texts: Sequence[str]) -> tuple[Sequence[str], sparse.csr_array[Any]]:
        """The distinct words, and how often each text holds each."""
        words, found = _number(texts, _BETWEEN_SPACES)
        occurrences = np.ones(len(found.symbols), dtype=np.int32)
        holds = sparse.coo_array(
            (occurrences, (found.owners, found.symbols)), shape=(len(texts), len(words))
        )
        return [f" {word} " for word in words], holds.tocsr()

    def runs(self, text: "_Lowered") -> list["_Run"]:
        """The characters of each word, with an empty place for either end."""
        runs = []
        for word in text.search(_BETWEEN_SPACES):
            start, end = word.span()
            letters = [(text.lower[i], text.place(i, i + 1)) for i in range(start, end)]
            ends = [(" ", (place, place)) for place in text.place(start, end)]
            runs.append([ends[0], *letters, ends[1]])
        return runs

    @staticmethod
    def _clean(text: str) -> str:
        return text


_Run = list[tuple[str, tuple[int, int]]]
"""Symbols in a row, each with the stretch of the text that it stands at."""


class _Lowered:
    """A text in lower case that knows where its characters come from.

    Few characters change their number in lower case, such as a capital I with a dot.
    """

    def __init__(self, text: str) -> None:
        self.lower = text.lower()
        lengths = [len(character.lower()) for character in text]
        self._origins = np.repeat(np.arange(len(text)), lengths).tolist()

    def search(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Where a pattern matches, in lower case."""
        return pattern.finditer(self.lower.replace(_SEPARATOR, " "))

    def place(self, start: int, end: int) -> tuple[int, int]:
        """The stretch of the text as it was, from one of at least a character in lower case."""
        return self._origins[start], self._origins[end - 1] + 1


_ALPHABETS: dict[str, type[_Words | _Characters]] = {
    alphabet.name: alphabet for alphabet in (_Words, _WordsAndEmoji, _Subwords, _Characters)
}
_VIEWS: dict[str, type[_Words | _Characters]] = {
    "word": _WordsAndEmoji,
    "subword": _Subwords,
    "char": _Characters,
}
"""What a view of the settings is learned as; vocabularies from before emoji were words stay so."""


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH)):
        yield batch


def _sequences(symbols: Sequence[Integers], lengths: Sequence[Integers]) -> _Sequences:
    empty = np.empty(0, dtype=np.int32)
    count = np.concatenate([empty, *lengths])
    owners = np.repeat(np.arange(len(count), dtype=np.int32), count)
    return _Sequences(np.concatenate([empty, *symbols]), owners, len(count))


class _View:
    """The n-grams of one kind of symbol.

    Level n holds the known n-grams as sorted keys `number of the first n-1 symbols * symbols +
    last symbol`; an n-gram's number is its place in its level. `columns[n]` gives the feature
    column of each, -1 for one that is only the beginning of a longer one.
    """

    def __init__(self, alphabet: _Words | _Characters, ngrams: tuple[int, int]) -> None:
        self.alphabet = alphabet
        self.ngrams = ngrams
        self.levels: list[Integers] = []
        self.columns: list[Integers] = []
        self.counts = np.empty(0, dtype=np.int64)  # texts that each column's n-gram appears in
        self.num_texts = 0

    @property
    def num_terms(self) -> int:
        return len(self.counts)

    def learn(
        self, texts: Sequence[str], min_count: int, max_features: int | None
    ) -> sparse.csr_array[Any]:
        """Find the n-grams of the texts and give the texts' features."""
        kept = self._learn_levels(texts, min_count)
        self.num_texts = len(texts)
        counts = np.concatenate([level.num_texts for level in kept])
        chosen = _most_frequent(counts, max_features)
        columns = np.full(len(counts), -1, dtype=np.int32)
        columns[chosen] = np.arange(len(chosen))
        self.counts = counts[chosen]
        self._lay_out(columns, [len(level.keys) for level in kept])
        return self._weigh(_used_up(kept, self.columns[self.ngrams[0] - 1 :]), len(texts))

    def _learn_levels(self, texts: Sequence[str], min_count: int) -> list["_Counts"]:
        """Find the n-grams of every level, and count those that are long enough."""
        units, holds = self.alphabet.units(texts)
        kept: list[_Counts] = []
        for level, (keys, owners) in enumerate(self._grow(self.alphabet.learn(units)), start=1):
            if level < self.ngrams[0]:
                self.levels.append(_distinct(keys))
                continue
            counted = _count(keys, owners, len(units)).within(holds).prune(min_count)
            self.levels.append(counted.keys)
            kept.append(counted)
        return kept

    def apply(self, texts: Sequence[str]) -> sparse.csr_array[Any]:
        """The features of texts, by the n-grams that are known."""
        units, holds = self.alphabet.units(texts)
        sequences = self.alphabet.read(units)
        pairs = []
        for level, (keys, owners) in enumerate(self._grow(sequences)):
            terms = _find(self.levels[level], keys)
            known = np.flatnonzero(terms >= 0)
            columns = self.columns[level][terms[known]]
            known, columns = known[columns >= 0], columns[columns >= 0]
            counted = _count(columns, owners[known], len(units)).within(holds)
            pairs.append((counted.keys[counted.terms], counted.owners, counted.occurrences))
        return self._weigh(pairs, len(texts))

    def _grow(self, sequences: _Sequences) -> Iterator[tuple[Integers, Integers]]:
        """Keys and owners of the n-grams of level 1, 2, …; the caller adds levels as it learns."""
        symbols, owners = sequences.symbols, sequences.owners
        starts = np.flatnonzero(symbols >= 0)
        keys = symbols[starts]
        for level in range(1, self.ngrams[1] + 1):
            yield keys, owners[starts]
            if level == self.ngrams[1]:
                return
            numbers = _find(self.levels[level - 1], keys)
            ends = starts + level
            inside = (numbers >= 0) & (ends < len(symbols))
            starts, ends, numbers = starts[inside], ends[inside], numbers[inside]
            inside = (owners[starts] == owners[ends]) & (symbols[ends] >= 0)
            starts, ends, numbers = starts[inside], ends[inside], numbers[inside]
            keys = numbers * len(self.alphabet) + symbols[ends]

    def _lay_out(self, columns: Integers, sizes: list[int]) -> None:
        """Cut the columns into levels; levels below the shortest n-gram have none."""
        shorter = [np.full(len(keys), -1, dtype=np.int64) for keys in self.levels]
        ends = np.cumsum(sizes)[:-1]
        self.columns = [*shorter[: self.ngrams[0] - 1], *np.split(columns, ends)]

    def _weigh(
        self, pairs: Iterable[tuple[Integers, Integers, Integers]], num_texts: int
    ) -> sparse.csr_array[Any]:
        """TF-IDF from (column, text, occurrences), rows scaled to length one."""
        rarity = 1.0 + np.log((1.0 + self.num_texts) / (1.0 + self.counts))
        squares = np.zeros(num_texts)
        weighed: list[tuple[NDArray[np.float32], Integers, Integers]] = []
        for columns, owners, occurrences in pairs:
            if (columns < 0).any():
                known = columns >= 0
                columns, owners, occurrences = columns[known], owners[known], occurrences[known]
            values = rarity[columns]
            repeated = np.flatnonzero(occurrences > 1)
            values[repeated] *= 1.0 + np.log(occurrences[repeated])
            squares += np.bincount(owners, weights=values * values, minlength=num_texts)
            small = (values.astype(np.float32), owners.astype(np.int32), columns.astype(np.int32))
            weighed.append(small)
        values, owners, columns = (np.concatenate(part) for part in zip(*weighed, strict=True))
        del weighed
        # By way of coordinates: each text's columns are then summed and sorted in linear time.
        shape = (num_texts, self.num_terms)
        matrix = sparse.coo_array((values, (owners, columns)), shape=shape).tocsr()
        matrix.sort_indices()
        matrix.data /= np.repeat(np.sqrt(squares).astype(np.float32), np.diff(matrix.indptr))
        return matrix

    def terms(self) -> list[str]:
        """The n-gram of each column as text."""
        symbols, joint = self.alphabet.symbols(), self.alphabet.joint
        found = [""] * self.num_terms
        begins: list[str] = []
        for level, keys in enumerate(self.levels):
            numbers, last = np.divmod(keys, max(len(symbols), 1))
            ends = [symbols[i] for i in last.tolist()]
            begins = (
                [f"{begins[n]}{joint}{end}" for n, end in zip(numbers.tolist(), ends, strict=True)]
                if level
                else ends
            )
            for column, term in zip(self.columns[level].tolist(), begins, strict=True):
                if column >= 0:
                    found[column] = term
        return found

    def places(self, text: str) -> dict[int, NGram]:
        """The known n-grams of one text, by their columns in this view."""
        found: dict[int, NGram] = {}
        for run in self.alphabet.runs(_Lowered(text)):
            for start in range(len(run)):
                for size in range(self.ngrams[0], min(self.ngrams[1], len(run) - start) + 1):
                    symbols = run[start : start + size]
                    term = self.alphabet.joint.join(symbol for symbol, _ in symbols)
                    column = self._column_of.get(term)
                    if column is not None:
                        stretch = symbols[0][1][0], symbols[-1][1][1]
                        found.setdefault(column, NGram(term, [])).places.append(stretch)
        return found

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.terms())}

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": self.alphabet.name,
            "ngrams": list(self.ngrams),
            "num_texts": self.num_texts,
            "terms": self.terms(),
            "counts": self.counts.tolist(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "_View":
        kind: type[_Words | _Characters] = _ALPHABETS[value["symbols"]]
        terms = [tuple(kind.split(term)) for term in value["terms"]]
        alphabet = kind(sorted({symbol for term in terms for symbol in term}))
        shortest, longest = map(int, value["ngrams"])
        if not 1 <= shortest <= longest <= LONGEST_NGRAM:
            raise ValueError(f"ngrams {shortest} to {longest}, expected 1 to {LONGEST_NGRAM}")
        view = cls(alphabet, (shortest, longest))
        view.num_texts = int(value["num_texts"])
        view.counts = np.array(value["counts"], dtype=np.int64)
        if len(view.counts) != len(terms):
            raise ValueError(f"{len(terms)} terms but {len(view.counts)} counts")
        view._index(terms)
        return view

    def _index(self, terms: Sequence[tuple[str, ...]]) -> None:
        """Rebuild the levels from the n-grams themselves."""
        number = {symbol: index for index, symbol in enumerate(self.alphabet.symbols())}
        column = {term: index for index, term in enumerate(terms)}
        place: dict[tuple[str, ...], int] = {(): 0}
        for level in range(1, self.ngrams[1] + 1):
            begins = {term[:level] for term in terms if len(term) >= level}
            keyed = sorted(
                (place[begin[:-1]] * len(number) + number[begin[-1]], begin) for begin in begins
            )
            place = {begin: index for index, (_, begin) in enumerate(keyed)}
            self.levels.append(np.array([key for key, _ in keyed], dtype=np.int64))
            self.columns.append(
                np.array([column.get(begin, -1) for _, begin in keyed], dtype=np.int64)
            )


@dataclass(frozen=True)
class _Counts:
    """Which keys occur, in which texts, how often.

    Attributes:
        keys: the distinct keys, sorted.
        num_texts: texts that each key occurs in.
        terms: per pair, the place of its key in `keys`.
        owners: per pair, its text.
        occurrences: per pair, how often the key occurs in the text.
    """

    keys: Integers
    num_texts: Integers
    terms: Integers
    owners: Integers
    occurrences: Integers

    def within(self, holds: sparse.csr_array[Any] | None) -> "_Counts":
        """From what occurs in words to what occurs in texts that hold these so often."""
        if holds is None:
            return self
        shape = (holds.shape[1], len(self.keys))
        words = sparse.coo_array((self.occurrences, (self.owners, self.terms)), shape=shape)
        texts = holds @ words.tocsr()
        return _Counts(
            self.keys,
            np.bincount(texts.indices, minlength=len(self.keys)),
            texts.indices,
            np.repeat(np.arange(holds.shape[0], dtype=np.int32), np.diff(texts.indptr)),
            texts.data,
        )

    def prune(self, min_count: int) -> "_Counts":
        """Without the keys that occur in fewer texts."""
        if min_count <= 1:
            return self
        keep = self.num_texts >= min_count
        pairs = keep[self.terms]
        places = np.cumsum(keep, dtype=np.int32) - 1
        return _Counts(
            self.keys[keep],
            self.num_texts[keep],
            places[self.terms[pairs]],
            self.owners[pairs],
            self.occurrences[pairs],
        )


def _count(keys: Integers, owners: Integers, num_texts: int) -> _Counts:
    """Count by one sort of key and text packed into 64 bits."""
    largest = int(keys.max(initial=0))
    if (largest + 1) * num_texts >= 2**63:
        known, places = np.unique(keys, return_inverse=True)
        packed = _count(places, owners, num_texts)
        return _Counts(known, packed.num_texts, packed.terms, packed.owners, packed.occurrences)
    pairs = keys.astype(np.int64) * num_texts + owners
    pairs.sort()
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    occurrences = np.diff(starts, append=len(pairs))
    pair_keys, pair_owners = np.divmod(pairs[starts], max(num_texts, 1))
    firsts = np.diff(pair_keys, prepend=-1) != 0
    key_starts = np.flatnonzero(firsts)
    return _Counts(
        pair_keys[key_starts],
        np.diff(key_starts, append=len(pair_keys)),
        (np.cumsum(firsts) - 1).astype(np.int32),
        pair_owners.astype(np.int32),
        occurrences.astype(np.int32),
    )


def _used_up(
    counted: list[_Counts], columns: list[Integers]
) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Columns, texts and occurrences of each level, which is let go once it is asked for."""
    for own in columns:
        level = counted.pop(0)
        yield own[level.terms], level.owners, level.occurrences


def _distinct(keys: Integers) -> Integers:
    """The keys (at least 0) that occur, sorted, each once."""
    if keys.max(initial=0) >= _TABLE:
        return np.unique(keys)
    occurs = np.zeros(_TABLE, dtype=bool)
    occurs[keys] = True
    return np.flatnonzero(occurs)


def _find(known: Integers, wanted: Integers) -> Integers:
    """The place of each wanted key (at least 0) among the sorted known ones, -1 if it is none."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    if known[-1] < _TABLE:  # a table beats a search
        table = np.full(int(known[-1]) + 2, -1, dtype=np.int64)
        table[known] = np.arange(len(known))
        found: Integers = table[np.minimum(wanted, known[-1] + 1)]
        return found
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[places] == wanted, places, -1)


def _most_frequent(counts: Integers, limit: int | None) -> Integers:
    """N-grams by how many texts they appear in, the most frequent first, up to a limit.

    In this order the weights that most texts need stand close together, and a product with them
    takes a quarter less time; of equally frequent ones the first stays first.
    """
    return np.argsort(-counts, kind="stable")[:limit]


def _side_by_side(matrices: list[sparse.csr_array[Any]]) -> sparse.csr_array[Any]:
    return matrices[0] if len(matrices) == 1 else sparse.csr_array(sparse.hstack(matrices))
