"""The kinds of models: what each is called, reads and needs, and the class that scores.

How a kind is trained stands in `zlpr.training.registry` under the same name. Nothing here loads
more than it must, so that a list of the kinds costs nothing.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zlpr._errors import UserError
from zlpr._lazy import load_object
from zlpr._names import find, unknown

if TYPE_CHECKING:
    from zlpr.models.base import FittedModel

Inputs = Literal["texts", "features"]


@dataclass(frozen=True)
class ModelKind:
    """One kind of model.

    Attributes:
        name: what `--model` says, before the colon where there is one.
        help: one line on it.
        reads: what its samples may be.
        needs: extras of the package that it cannot do without.
        saved_as: what `config.json` calls it.
        place: its class, as "module:name".
        has_features: whether a decoding rule may read what it reads, as numbers in columns.
        argument: what stands behind the colon of its name; empty where nothing does.
    """

    name: str
    help: str
    reads: tuple[Inputs, ...]
    needs: tuple[str, ...]
    saved_as: str
    place: str
    has_features: bool = False
    argument: str = ""

    @property
    def usage(self) -> str:
        """How a user writes it, as `hf:NAME_OR_PATH`."""
        return f"{self.name}:{self.argument}" if self.argument else self.name

    def load_class(self) -> "type[FittedModel]":
        """The class that scores, saves and loads."""
        kind: type[FittedModel] = load_object(self.place)
        return kind


_KINDS = {
    kind.name: kind
    for kind in (
        ModelKind(
            "linear",
            "TF-IDF of words or characters, or given features, and one linear layer",
            ("texts", "features"),
            ("text",),
            "zlpr_linear",
            "zlpr.models.linear:LinearModel",
            has_features=True,
        ),
        ModelKind(
            "shortlist",
            "for thousands of labels: centroids name candidates, sparse weights score these",
            ("texts", "features"),
            ("text",),
            "zlpr_shortlist",
            "zlpr.models.shortlist:ShortlistModel",
            has_features=True,
        ),
        ModelKind(
            "embed",
            "a frozen encoder's embeddings beside TF-IDF, and one linear layer over both",
            ("texts",),
            ("text",),
            "zlpr_embed",
            "zlpr.models.embed:EmbedModel",
            has_features=True,
            argument="NAME_OR_PATH",
        ),
        ModelKind(
            "embed-shortlist",
            "a frozen encoder's embeddings beside TF-IDF, for thousands of labels as shortlist",
            ("texts",),
            ("text",),
            "zlpr_embed_shortlist",
            "zlpr.models.embed_shortlist:EmbedShortlistModel",
            has_features=True,
            argument="NAME_OR_PATH",
        ),
        ModelKind(
            "hf",
            "a transformers encoder, fine-tuned, by its name on the hub or its folder",
            ("texts",),
            ("text",),
            "zlpr_transformer",
            "zlpr.models.transformer:TransformerModel",
            argument="NAME_OR_PATH",
        ),
        ModelKind(
            "powerset",
            "softmax over the label sets seen in training, of all labels or of random subsets",
            ("texts", "features"),
            ("text",),
            "zlpr_powerset",
            "zlpr.models.powerset:PowersetModel",
            has_features=True,
        ),
        ModelKind(
            "chain",
            "one label after another, each given those before it (classifier chains)",
            ("texts", "features"),
            ("text",),
            "zlpr_chain",
            "zlpr.models.chain:ChainModel",
            has_features=True,
        ),
        ModelKind(
            "knn",
            "what the labels of the nearest training samples say (ML-kNN)",
            ("texts", "features"),
            ("text",),
            "zlpr_knn",
            "zlpr.models.knn:NeighboursModel",
            has_features=True,
        ),
        ModelKind(
            "mmp",
            "an averaged perceptron that ranks labels (MMP)",
            ("texts", "features"),
            ("text",),
            "zlpr_perceptron",
            "zlpr.models.perceptron:PerceptronModel",
            has_features=True,
        ),
    )
}
DEFAULT = "linear"
NO_LOSS = "none"
"""What a kind that is not trained with a loss has for the name of one."""


def available() -> tuple[str, ...]:
    """The kinds' names."""
    return tuple(_KINDS)


def info(name: str) -> ModelKind:
    """What is known of a kind; a `UserError` where there is none of that name."""
    return find("model", name, _KINDS)


def kind_of(model: str) -> ModelKind:
    """The kind that a model is of.

    Raises:
        UserError: there is none, or what it needs behind the colon is missing.

    Examples:
        >>> kind_of("hf:roberta-base").name
        'hf'
        >>> kind_of("hf")
        Traceback (most recent call last):
        zlpr._errors.UserError: model 'hf': expected hf:NAME_OR_PATH
    """
    name, colon, argument = str(model).partition(":")
    kind = _KINDS.get(name)
    if model == "auto":
        raise UserError(
            "model 'auto': zlpr train alone chooses by the number of labels; name the model here, "
            "linear for fewer than 500 labels or few features, and shortlist for more"
        )
    if kind is None:
        raise unknown("model", model, (known.usage for known in _KINDS.values()))
    if bool(kind.argument) != bool(argument) or (colon and not kind.argument):
        raise UserError(f"model {model!r}: expected {kind.usage}")
    return kind


def argument_of(model: str) -> str:
    """What stands behind the colon of a model's name; empty where nothing does.

    A `~` at its beginning is the user's home, which no shell puts there behind a colon.

    Examples:
        >>> argument_of("hf:./encoder:2")
        './encoder:2'
    """
    return os.path.expanduser(model.partition(":")[2])  # noqa: PTH111 (a name stays as it is)


def saved_as(name: str) -> ModelKind:
    """The kind that a model folder's `config.json` calls by this name."""
    return find("kind of saved model", name, {kind.saved_as: kind for kind in _KINDS.values()})
