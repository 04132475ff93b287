"""The models that are served: each with its name, its worker and what it reads."""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._names import unknown
from zlpr.data import Columns
from zlpr.models.answers import Answer, answer, answer_scores
from zlpr.models.base import FittedModel
from zlpr.models.explanation import Explanation
from zlpr.serving.batching import Batcher
from zlpr.serving.limits import Limits

if TYPE_CHECKING:
    from concurrent.futures import Future


_HALF = re.compile("[\ud800-\udfff]")


def names_of(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by the names that they are served by: their last parts, as many as tell them apart.

    Raises:
        UserError: one is given twice.

    Examples:
        >>> list(names_of([Path("a/model"), Path("b/model")]))
        ['a-model', 'b-model']
    """
    parts = [folder.resolve().parts[1:] for folder in folders]
    for length in range(1, 1 + max(map(len, parts), default=0)):
        names = ["-".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return dict(zip(names, folders, strict=True))
    raise UserError(f"{folders[0]}: a folder is given twice")


class UnknownModelError(UserError):
    """There is no model of that name."""


class ServedModel:
    """One model and the thread that answers for it.

    Args:
        name: by which clients ask for it.
        model: what answers.
        limits: of a request and of what waits.
        folder: where it was read from, where it was.

    Attributes:
        num_features: columns of the features that it reads; None where it reads texts.
    """

    def __init__(
        self, name: str, model: FittedModel, limits: Limits, folder: Path | None = None
    ) -> None:
        self.name, self.model, self.limits, self.folder = name, model, limits, folder
        self.num_features = Columns.from_json(model.record.data.get("columns", {})).num_features
        self.batcher = Batcher(most_samples=limits.batch, most_waiting=limits.waiting)

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        return self.batcher.alive

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that are too many, too long, or not what the model reads."""
        if self.num_features is not None:
            raise UserError(f"{self.name} reads features, not texts: ask /v2/models/{self.name}")
        if not texts:
            raise UserError("no texts: give at least one")
        if len(texts) > self.limits.texts:
            raise UserError(f"{len(texts):,} texts: at most {self.limits.texts:,} in a request")
        for place, text in enumerate(texts):
            if len(text) > self.limits.text_characters:
                raise UserError(
                    f"text {place} has {len(text):,} characters: at most "
                    f"{self.limits.text_characters:,}"
                )
            if not text.isascii() and _HALF.search(text):
                raise UserError(f"text {place} holds half of a surrogate pair, which is no text")

    def answer_texts(
        self, texts: Sequence[str], *, scores_only: bool = False
    ) -> "Future[list[Answer]]":
        """Ask about texts: all there is to say, or their scores alone, which costs less."""
        self.check_texts(texts)
        return self.batcher.submit(self._scores if scores_only else self._answer, texts)

    def answer_features(self, rows: Any, *, scores_only: bool = False) -> "Future[list[Answer]]":
        """As `answer_texts`, about samples by their features, (samples, columns)."""
        if self.num_features is None:
            raise UserError(f"{self.name} reads texts, not features")
        if not len(rows):
            raise UserError("no samples: give at least one")
        if len(rows) > self.limits.texts:
            raise UserError(f"{len(rows):,} samples: at most {self.limits.texts:,} in a request")
        if rows.shape[1] != self.num_features or not np.isfinite(rows).all():
            wanted = counted(self.num_features, "finite number")
            raise UserError(f"expected {wanted} a sample, got an array of shape {rows.shape}")
        return self.batcher.submit(self._scores if scores_only else self._answer, list(rows))

    def explain(
        self, text: str, label: str | None, top: int
    ) -> "Future[list[tuple[Explanation, ...]]]":
        """Ask why labels come out for a text; the explanations come as the one result."""
        self.check_texts([text])
        return self.batcher.submit(functools.partial(self._explain, label, top), [text])

    def _answer(self, samples: list[Any]) -> list[Answer]:
        return answer(self.model, self._together(samples))

    def _scores(self, samples: list[Any]) -> list[Answer]:
        return answer_scores(self.model, self._together(samples))

    def _together(self, samples: list[Any]) -> Any:
        return samples if self.num_features is None else np.stack(samples)

    def _explain(
        self, label: str | None, top: int, texts: list[str]
    ) -> list[tuple[Explanation, ...]]:
        return [self.model.explain(text, label, top) for text in texts]


class Service:
    """All models that are served.

    Args:
        models: by name, the one that is asked where no name is given first.
        limits: of a request and of what waits.
        folders: where they were read from, by name.
    """

    def __init__(
        self,
        models: Mapping[str, FittedModel],
        limits: Limits,
        folders: Mapping[str, Path] | None = None,
    ) -> None:
        if not models:
            raise UserError("no models to serve: give at least one")
        self.limits = limits
        self.models = {
            name: ServedModel(name, model, limits, (folders or {}).get(name))
            for name, model in models.items()
        }

    def find(self, name: str | None = None) -> ServedModel:
        """A model by name; the first where none is given."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UnknownModelError(str(unknown("model", name[:100], self.models)))
        return self.models[name]

    @property
    def ready(self) -> bool:
        """Whether every model answers."""
        return all(served.ready for served in self.models.values())

    def stop(self) -> None:
        """Answer what waits and end the workers."""
        for served in self.models.values():
            served.batcher.stop()
