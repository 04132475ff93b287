"""How each kind of model is trained; what the kinds are stands in `zlpr.models.registry`."""

from typing import TYPE_CHECKING

from zlpr._errors import UserError
from zlpr._lazy import load_object
from zlpr.models.registry import available, kind_of

if TYPE_CHECKING:
    from zlpr.training.base import ModelTrainer
    from zlpr.training.block_workers import BlockWorkers
    from zlpr.training.config import TrainingConfig

# A kind's settings and its trainer, as "module:name". The modules load nothing heavy by
# themselves: the command line makes its flags from the settings.
_CONFIGS = {
    "linear": "zlpr.training.linear:LinearConfig",
    "shortlist": "zlpr.training.shortlist:ShortlistConfig",
    "embed": "zlpr.training.embed:EmbedConfig",
    "embed-shortlist": "zlpr.training.embed_shortlist:EmbedShortlistConfig",
    "hf": "zlpr.training.transformer:TransformerConfig",
    "powerset": "zlpr.training.powerset:PowersetConfig",
    "chain": "zlpr.training.chain:ChainConfig",
    "knn": "zlpr.training.knn:NeighboursConfig",
    "mmp": "zlpr.training.perceptron:PerceptronConfig",
}
_TRAINERS = {
    "linear": "zlpr.training.linear:LinearTrainer",
    "shortlist": "zlpr.training.shortlist:ShortlistTrainer",
    "embed": "zlpr.training.embed:EmbedTrainer",
    "embed-shortlist": "zlpr.training.embed_shortlist:EmbedShortlistTrainer",
    "hf": "zlpr.training.transformer:TransformerTrainer",
    "powerset": "zlpr.training.powerset:PowersetTrainer",
    "chain": "zlpr.training.chain:ChainTrainer",
    "knn": "zlpr.training.knn:NeighboursTrainer",
    "mmp": "zlpr.training.perceptron:PerceptronTrainer",
}


def trainer_of(model: str, workers: "BlockWorkers | None" = None) -> "ModelTrainer":
    """What trains a model, given as a user names it.

    Args:
        model: such as "linear" or "hf:NAME".
        workers: among whom the training is divided; None for this process alone.

    Raises:
        UserError: workers, for a kind whose training does not divide.
    """
    if workers is not None:
        check_divides(model)
    trainer: ModelTrainer = load_object(_TRAINERS[kind_of(model).name])(workers)
    return trainer


def check_divides(model: str) -> None:
    """Refuse a model whose training workers cannot divide among them."""
    dividing = [name for name, trainer in _TRAINERS.items() if load_object(trainer).divides]
    if kind_of(model).name not in dividing:
        raise UserError(
            f"model {model} is trained by one process; a Ray cluster (--ray) is for the model "
            f"{' or '.join(dividing)}"
        )


def config_of(model: str) -> "type[TrainingConfig]":
    """The class of a model's settings, given as a user names it."""
    return config_of_kind(kind_of(model).name)


def config_of_kind(name: str) -> "type[TrainingConfig]":
    """The class of the settings of a kind."""
    config: type[TrainingConfig] = load_object(_CONFIGS[name])
    return config


def kind_of_config(config: "type[TrainingConfig]") -> str:
    """The name of the kind that a class of settings belongs to."""
    return next(name for name in available() if config_of_kind(name) is config)
