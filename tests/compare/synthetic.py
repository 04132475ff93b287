"""Run records with known figures, for everything that works from records alone."""

import random
from dataclasses import replace

from zlpr.compare.records import (
    SCHEMA,
    CellSettings,
    Curve,
    DataFacts,
    Decoded,
    Decoding,
    Evaluation,
    LossSpec,
    Made,
    Outcome,
    PerLabel,
    Reliability,
    ReliabilityBin,
    RunRecord,
    Seconds,
)

DECIDING = ("zlpr", "bce", "focal", "dice1", "dice2")
RANKING = ("ranking", "warp", "bp_mll", "lsep")
SCORE_METRICS = ("average_precision", "ranking_loss", "one_error")
BASE = {
    "subset_accuracy": 0.5,
    "example_f1": 0.6,
    "micro_f1": 0.65,
    "macro_f1": 0.45,
    "average_precision": 0.75,
    "ranking_loss": 0.05,
    "one_error": 0.2,
    "empty_predictions": 0.08,
    "cardinality_true": 1.4,
    "cardinality_predicted": 1.2,
}


def settings(data="toy", model="linear", loss="zlpr", seed=0, **changes) -> CellSettings:
    made = CellSettings(
        data=data,
        fingerprint="0" * 16,
        reading={},
        split="random",
        model=model,
        loss=LossSpec(loss, loss),
        seed=seed,
        training={"metric": "average_precision"},
        version="0.1.0",
    )
    return replace(made, **changes)


def outcome(
    loss: str, quality: float, noise: random.Random, chosen: dict[str, float], labels: int = 12
) -> Outcome:
    """Figures around `BASE`, moved by `quality` and a little chance."""

    def figures(extra: float) -> dict[str, float]:
        values = {}
        for name, base in BASE.items():
            sign = -0.2 if name in {"ranking_loss", "one_error", "empty_predictions"} else 1.0
            if name.startswith("cardinality"):
                sign = 0.0
            values[name] = max(0.0, base + sign * (quality + extra) + noise.gauss(0, 0.004))
        return values

    own, fitted = figures(0.0), figures(0.03)
    if loss in RANKING:
        own = {name: own[name] for name in SCORE_METRICS}
    for name in SCORE_METRICS:
        fitted[name] = own[name]
    decoded = Decoded(
        own, fitted, {name: fitted[name] for name in fitted if name not in SCORE_METRICS}
    )
    bins = tuple(
        ReliabilityBin(p, min(1.0, p * (0.8 + quality)), 100 + 10 * i)
        for i, p in enumerate(i / 10 + 0.05 for i in range(10))
    )
    f1 = tuple(min(1.0, max(0.0, 0.2 + 0.06 * i + quality)) for i in range(labels))
    return Outcome(
        data=DataFacts(labels=labels, cardinality=1.4, train=800, validation=100, test=100),
        chosen=chosen,
        trainings=4,
        evaluation=Evaluation(decoded, decoded),
        decoding=Decoding(
            None if loss in RANKING else {"rule": "zero"},
            {"micro_f1": {"rule": "threshold", "threshold": 0.1}},
        ),
        per_label=PerLabel(
            tuple(int(8 * 1.6**i) for i in range(labels)),
            None if loss in RANKING else f1,
            tuple(min(1.0, x + 0.05) for x in f1),
        ),
        reliability=Reliability(
            raw=None if loss in RANKING else bins,
            raw_error=None if loss in RANKING else 0.08,
            calibrated=bins,
            calibrated_error=0.02,
            raw_label_error=None if loss in RANKING else 0.31,
            calibrated_label_error=0.12,
        ),
        curves=(
            Curve("training loss: step", (1, 2, 3, 4, 5), tuple(2 / i for i in range(1, 6))),
            Curve(
                "validation: epoch",
                (1, 2, 3, 4, 5),
                tuple(0.75 + quality - 0.3 / i for i in range(1, 6)),
            ),
        ),
    )


def chosen_of(model: str) -> dict[str, float]:
    """What validation chooses for a kind of model."""
    return {"regularisation": 0.3} if model == "linear" else {"epoch": 4}


def record(
    data="toy",
    model="linear",
    loss="zlpr",
    seed=0,
    quality=0.0,
    fault: str | None = None,
    **changes,
) -> RunRecord:
    made = settings(data, model, loss, seed, **changes)
    noise = random.Random(f"{data}/{model}/{loss}/{seed}")  # noqa: S311 - figures, not secrets
    return RunRecord(
        schema=SCHEMA,
        status="failed" if fault else "done",
        settings=made,
        settings_hash=made.hash(),
        outcome=None if fault else outcome(loss, quality, noise, chosen_of(model)),
        error=fault,
        seconds=Seconds(
            prepare=0.2, fit=round(0.5 + abs(quality) * 20 + seed * 0.1, 3), evaluate=0.1
        ),
        made=Made(
            started="2026-01-01T00:00:00+00:00",
            command="zlpr compare --data toy.csv",
            threads=1,
            versions={"python": "3.12.1", "torch": "2.9.0", "zlpr": "0.1.0"},
            machine={"system": "Linux", "processor": "x86_64", "cores": "2"},
        ),
    )


def grid(
    datasets=("toy",), losses=DECIDING + RANKING, seeds=(0, 1, 2), models=("linear",)
) -> list[RunRecord]:
    """Records of a whole grid; the losses' quality falls in the order given."""
    return [
        record(data, model, loss, seed, quality=0.02 - 0.012 * place)
        for data in datasets
        for model in models
        for place, loss in enumerate(losses)
        for seed in seeds
    ]
