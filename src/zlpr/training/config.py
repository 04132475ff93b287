"""What a training run is told: what all kinds of models share, and how a kind adds its own.

A kind's settings are a subclass of `TrainingConfig` beside its trainer; `TrainingConfig(...)` gives
the one that its model is of, and refuses by name what that kind does not have. A field's help
stands with it, and becomes that of the command line's flag.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from zlpr._errors import UserError
from zlpr._named_values import name_with_values
from zlpr._names import unknown
from zlpr._typed_json import from_plain
from zlpr.models.registry import DEFAULT, NO_LOSS, available, kind_of

AUTO = "auto"
MOST_SEEDS = 2**32
"""Seeds are below: the most that every library takes that draws."""

USUAL_METRIC = "micro_f1"
"""What is decided for where nobody says."""

EmptyCases = Literal["sklearn", "paper"]


def setting(default: Any, help: str, **shown: Any) -> Any:  # noqa: A002
    """A field of a configuration with the words that explain it.

    Args:
        default: its value where none is given.
        help: what it does, in one line.
        **shown: how the command line shows it, such as `metavar="N"`.
    """
    return field(default=default, metadata={"help": help, **shown})


def regularisation_setting() -> Any:
    """The strength of L2, the same words for every kind that has it."""
    words = (
        "strength r of L2, as in 'sum of losses + r/2 |W|^2' (default: chosen on validation data)"
    )
    return setting(None, words, metavar="R")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything that decides what a run computes; a field left at None takes its kind's default.

    Made by this name it is of the class that belongs to `model`, as `pathlib.Path(...)` is a path
    of the system's own kind; it then takes that kind's settings as well, and no others.

    Attributes:
        model: a kind of `zlpr.models`, as `linear`, `embed:NAME_OR_PATH` or `hf:NAME_OR_PATH`.
        loss: a name of the losses' registry, with parameters behind it as in
            `zlpr:pos_weight=2.7`; `NO_LOSS` for a kind that has that as its default.
        loss_params: the loss's own parameters, such as `{"pos_weight": 2.7}`.
        choose: numbers for parameters of the loss, such as `{"pos_weight": (1, 2, 4)}`, of which
            validation picks by `metric`; with several parameters, of all combinations.
        seed: of initialisation, shuffling and dropout; the same seed gives the same bits.
        decode: the rule that turns scores into label sets. "auto" takes the one that
            cross-validation on the validation part finds best; "zero" keeps the paper's bound;
            the other names are those of `zlpr.decoding`, of which those that read features are
            for kinds of models that have some.
        decode_metric: what the rule is chosen and fitted for, on validation; None is `metric` where
            that is one of label sets, and Micro-F1 otherwise.
        threshold: predict the labels with a score above it; nothing is fitted.
        top: predict so many labels for every sample; nothing is fitted.
        min_probability: leave out labels below it, whatever the rule says.
        metric: what validation chooses by (regularisation, checkpoint, early stopping); None is
            `decode_metric`, what the model will be judged by. To name one of the two is to name
            both, as far as both can be that. A metric of label sets is that of a
            rule fitted there and then, so that it does not collapse while early models are unsure.
        empty: what empty cases count in every figure, see `zlpr.metrics`; None is scikit-learn's
            convention, and the paper's where `preset` is "paper".

    Examples:
        >>> TrainingConfig(loss="bce", regularisation=1.0)
        LinearConfig(model='linear', loss='bce', ..., regularisation=1.0, ...)
        >>> TrainingConfig(max_length=64)
        Traceback (most recent call last):
        zlpr._errors.UserError: model linear has no setting 'max_length' (embed, embed-...
    """

    model: str = DEFAULT
    loss: str = setting(
        "zlpr", "a name from 'zlpr losses', with parameters as in zlpr:pos_weight=2.7"
    )
    loss_params: Mapping[str, Any] = field(default_factory=dict)
    # Any, for whole numbers stay such, as a loss may ask; `_check_choose` looks at them.
    choose: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    seed: int = setting(0, "random seed of initialisation, shuffling and dropout")
    decode: str = setting(
        AUTO,
        "how scores become label sets: auto takes the rule that cross-validation on the validation "
        "part finds best; zero keeps the paper's bound; or a rule of zlpr.decoding",
        metavar="RULE",
    )
    decode_metric: str | None = setting(
        None,
        "metric that the rule is chosen and fitted for (default: --metric where it judges label "
        "sets, micro_f1 otherwise)",
        metavar="METRIC",
    )
    threshold: float | None = setting(
        None, "predict the labels with a score above T, and fit no rule", metavar="T"
    )
    top: int | None = setting(
        None, "predict K labels for every sample, and fit no rule", metavar="K"
    )
    min_probability: float | None = setting(
        None, "never predict a label with a probability below P", metavar="P"
    )
    metric: str | None = setting(
        None, "metric by which validation chooses (default: --decode-metric)", metavar="METRIC"
    )

    empty: EmptyCases | None = setting(
        None,
        "count empty cases as scikit-learn does or as the paper does (default: sklearn, and paper "
        "with --preset paper)",
    )

    def __new__(cls, **settings: Any) -> Self:
        """The class of the model's kind, once its settings are known to be among those it has."""
        from zlpr.training.registry import config_of

        if cls is TrainingConfig:
            kind = config_of(settings.get("model", DEFAULT))
            check_names(kind, settings)
            return object.__new__(kind)  # type: ignore[return-value]
        return object.__new__(cls)

    def __post_init__(self) -> None:
        from zlpr import decoding, losses, metrics

        kind = kind_of(self.model)
        self._check_kind()
        self._spell_loss_out()
        if not self.takes_loss() and (self.loss != NO_LOSS or self.loss_params or self.choose):
            raise UserError(f"model {kind.name} is not trained with a loss; leave it out")
        if not 0 <= self.seed < MOST_SEEDS:
            raise UserError(f"seed {self.seed}: expected a number from 0 to {MOST_SEEDS - 1}")
        if self.empty is None:
            by_preset = "paper" if getattr(self, "preset", "") == "paper" else "sklearn"
            object.__setattr__(self, "empty", by_preset)
        if self.decode_metric is None:
            asked = self.metric in decoding.DECISION_METRICS
            object.__setattr__(self, "decode_metric", self.metric if asked else USUAL_METRIC)
        judging = map(metrics.info, metrics.available())
        judged = [metric.name for metric in judging if metric.larger_is_better is not None]
        for name, given, what, allowed in (
            (
                "loss",
                self.loss,
                "loss",
                losses.available() if self.takes_loss() else (NO_LOSS,),
            ),
            ("decode", self.decode, "rule", (AUTO, *decoding.available())),
            (
                "decode_metric",
                self.decision_metric,
                "metric of label sets",
                decoding.DECISION_METRICS,
            ),
            ("metric", self.choice_metric, "metric", judged),
            ("empty", self.empty, "way to count empty cases", get_args(EmptyCases)),
        ):
            if given not in allowed:
                raise UserError(f"{name}: {unknown(what, given, allowed)}")
        by_scores = (AUTO, *decoding.rules_of_scores())
        if self.decode not in by_scores and not kind.has_features:
            raise UserError(
                f"decode {self.decode!r} reads features, and model {kind.name} has none to give; "
                f"its rules are: {', '.join(by_scores)}"
            )
        self._check_decisions_by_hand()
        self._check_choose()

    def _check_kind(self) -> None:
        """Refuse settings of one kind for a model of another, which would not look at them."""
        from zlpr.training.registry import config_of, kind_of_config

        if (wanted := config_of(self.model)) is not type(self):
            raise UserError(
                f"{type(self).__name__} is for model {kind_of_config(type(self))}, and model "
                f"{self.model!r} takes {wanted.__name__}; TrainingConfig(model=...) takes the "
                "right one by itself"
            )

    def _spell_loss_out(self) -> None:
        """`loss="zlpr:pos_weight=2.7"` as a name and parameters."""
        name, params = name_with_values(self.loss, f"loss {self.loss!r}:")
        if twice := set(params) & set(self.loss_params):
            raise UserError(f"loss {self.loss!r}: {', '.join(sorted(twice))} given twice")
        object.__setattr__(self, "loss", name)
        object.__setattr__(self, "loss_params", {**params, **self.loss_params})

    def _check_choose(self) -> None:
        for name, values in self.choose.items():
            if name in self.loss_params:
                raise UserError(f"choose {name}: a parameter that is given as well")
            if any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
                raise UserError(f"choose {name}: expected numbers, as in {name}=1,2,4")
            if len(set(values)) < 2:
                raise UserError(f"choose {name}: expected at least two values to choose from")

    def alternatives(self) -> list[Self]:
        """These settings with each combination of what there is to choose from, and no choice."""
        names = list(self.choose)
        return [
            dataclasses.replace(
                self,
                choose={},
                loss_params={**self.loss_params, **dict(zip(names, values, strict=True))},
            )
            for values in itertools.product(*self.choose.values())
        ]

    def _check_decisions_by_hand(self) -> None:
        from zlpr import decoding

        if self.decode != AUTO and (self.threshold, self.top) != (None, None):
            raise UserError(f"decode {self.decode!r} and a threshold or top: give one of them")
        decoding.by_hand(
            decoding.ZeroBound(),
            decoding.Calibrator(),
            threshold=self.threshold,
            top=self.top,
            min_probability=self.min_probability,
        )

    @classmethod
    def takes_loss(cls) -> bool:
        """Whether this kind is trained with a loss."""
        return cls.loss != NO_LOSS

    @property
    def scored_as(self) -> str:
        """The loss whose bound and link the scores have; without one they are log-odds."""
        if not self.takes_loss():
            return "bce"
        inner = self.loss_params.get("loss")  # of one around another
        return inner if isinstance(inner, str) else self.loss

    @property
    def decision_metric(self) -> str:
        """The metric that label sets are decided for."""
        return self.decode_metric or USUAL_METRIC

    @property
    def choice_metric(self) -> str:
        """The metric that validation chooses by."""
        return self.metric or self.decision_metric

    @property
    def convention(self) -> EmptyCases:
        """What empty cases count, as the metrics take it."""
        return "paper" if self.empty == "paper" else "sklearn"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "TrainingConfig":
        """The configuration from plain values, as TOML, JSON and the command line have them.

        Raises:
            UserError: a setting that the kind does not have, or a value of the wrong type.
        """
        from zlpr.training.registry import config_of

        kind = config_of(values.get("model", DEFAULT))
        check_names(kind, values)
        try:
            return from_plain(kind, values)
        except UserError:
            raise
        except ValueError as fault:
            raise UserError(str(fault)) from fault

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return dataclasses.asdict(self)


def check_names(kind: type[TrainingConfig], names: Iterable[str]) -> None:
    """Refuse a setting that a kind of model does not have, and say which kind does."""
    known = [entry.name for entry in dataclasses.fields(kind)]
    for name in names:
        if name not in known:
            raise _unknown_setting(kind, name, known)


def _unknown_setting(kind: type[TrainingConfig], name: str, known: Iterable[str]) -> UserError:
    from zlpr.training.registry import config_of_kind, kind_of_config

    others = [
        other
        for other in available()
        if name in {entry.name for entry in dataclasses.fields(config_of_kind(other))}
    ]
    hint = f" ({', '.join(others)} {'has' if len(others) == 1 else 'have'})" if others else ""
    if hint:
        listed = f"; there are: {', '.join(known)}"
    else:
        listed = str(unknown("setting", name, known)).partition(repr(name))[2]
    return UserError(f"model {kind_of_config(kind)} has no setting {name!r}{hint}{listed}")


def check_above_zero(config: TrainingConfig, names: Iterable[str]) -> None:
    """Refuse a number that is given and not above 0."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{name} {value!r}: expected a number above 0")


def check_at_least_zero(config: TrainingConfig, names: Iterable[str]) -> None:
    """Refuse a negative number."""
    for name in names:
        if not getattr(config, name) >= 0:
            raise UserError(f"{name} {getattr(config, name)!r}: expected a number of at least 0")


def check_share(config: TrainingConfig, name: str) -> None:
    """Refuse a number outside [0, 1)."""
    if not 0 <= getattr(config, name) < 1:
        raise UserError(f"{name} {getattr(config, name)!r}: expected a number in [0, 1)")
