"""The torchmetrics classes give the figures of the package, in one process and in two."""

import pytest
import torch
import torch.distributed as dist
from torchmetrics import MetricCollection

from tests.processes import run
from zlpr import metrics
from zlpr.integrations import torchmetrics as ours

SIX = {
    "subset_accuracy": ours.SubsetAccuracy,
    "example_f1": ours.ExampleF1,
    "micro_f1": ours.MicroF1,
    "macro_f1": ours.MacroF1,
    "average_precision": ours.AveragePrecision,
    "ranking_loss": ours.RankingLoss,
}


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of uneven size, some samples and one label without anything."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(23, 5, generator=generator)
    targets = torch.rand(23, 5, generator=generator) < 0.3
    targets[:2], targets[:, 3] = False, False
    return list(zip(scores.split([4, 9, 10]), targets.split([4, 9, 10]), strict=True))


def expected(empty: str = "paper") -> dict[str, float]:
    scores, targets = (torch.cat(parts) for parts in zip(*batches(), strict=True))
    return metrics.evaluate(targets, scores, scores > 0, empty=empty)


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
def test_figures_are_those_of_the_package(empty):
    figures = expected(empty)
    whole = ours.MetricSet(5, empty=empty)
    collection = MetricCollection({name: kind(5, empty=empty) for name, kind in SIX.items()})
    for scores, targets in batches():
        whole.update(scores, targets)
        collection.update(scores, targets)
    found = {name: value.item() for name, value in whole.compute().items()}
    assert found == pytest.approx(figures, rel=1e-12)
    found = {name: value.item() for name, value in collection.compute().items()}
    assert found == pytest.approx({name: figures[name] for name in SIX}, rel=1e-12)
    assert len(collection.compute_groups) == 1  # one update for all six


def test_a_batch_in_forward_is_that_batch_and_reset_forgets():
    metric = ours.ExampleF1(5)
    for scores, targets in batches():
        assert metric(scores, targets).item() == metrics.example_f1(targets, scores > 0)
    assert metric.compute().item() == pytest.approx(expected()["example_f1"], rel=1e-12)
    metric.reset()
    scores, targets = batches()[0]
    metric.update(scores, targets)
    assert metric.compute().item() == metrics.example_f1(targets, scores > 0)


def test_thresholds_decide():
    (scores, targets), *_ = batches()
    bounds = [0.1, -0.2, 0.3, 0.0, 1.0]
    metric = ours.MicroF1(5, threshold=bounds)
    metric.update(scores, targets)
    predicted = scores > torch.tensor(bounds)
    assert metric.compute().item() == metrics.micro_f1(targets, predicted)


def check_two_processes() -> None:
    collection = MetricCollection({name: kind(5) for name, kind in SIX.items()})
    whole = ours.MetricSet(5)
    mine = batches()[:2] if dist.get_rank() == 0 else batches()[2:]
    for scores, targets in mine:
        collection.update(scores, targets)
        whole.update(scores, targets)
    figures = expected()
    found = collection.compute()
    for name in SIX:
        assert found[name].item() == pytest.approx(figures[name], rel=1e-12)
    for name, value in whole.compute().items():
        assert value.item() == pytest.approx(figures[name], rel=1e-12)


def test_two_processes_have_the_figures_of_all_samples(tmp_path):
    run(check_two_processes, 2, tmp_path)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bfloat16, torch.float16])
def test_a_threshold_is_not_rounded_to_the_scores_dtype(dtype):
    scores, targets = torch.tensor([[1, 0]]).to(dtype), torch.tensor([[1, 1]])
    metric = ours.MicroF1(2, threshold=-0.5)
    metric.update(scores, targets)
    assert metric.compute() == 1.0
    close = torch.tensor([[0.1]]).to(torch.bfloat16)  # is 0.10009765625
    metric = ours.MicroF1(1, threshold=0.1)
    metric.update(close, torch.tensor([[1]]))
    assert metric.compute() == 1.0


def test_a_threshold_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="threshold is NaN"):
        ours.MicroF1(1, threshold=float("nan"))
    for threshold in ([0.0], [0.0, 1.0, 2.0], [[0.0, 1.0]]):
        with pytest.raises(ValueError, match=r"expected a number or \(2,\)"):
            ours.MetricSet(2, threshold=threshold)


def test_metrics_of_two_thresholds_stay_apart_in_a_collection():
    cuts = {"low": 0.0, "high": 0.5, "each": (0.0, 0.5)}
    both = MetricCollection({name: ours.MicroF1(2, threshold=cut) for name, cut in cuts.items()})
    alone = {name: ours.MicroF1(2, threshold=cut) for name, cut in cuts.items()}
    batches = [([[2.0, -1.0]], [[1, 0]]), ([[0.3, 0.2], [0.4, 0.9]], [[1, 1], [0, 1]])]
    for scores, targets in batches:  # the first is decided alike by all
        both.update(torch.tensor(scores), torch.tensor(targets))
        for metric in alone.values():
            metric.update(torch.tensor(scores), torch.tensor(targets))
    expected = {name: metric.compute().item() for name, metric in alone.items()}
    assert {name: value.item() for name, value in both.compute().items()} == expected
    assert len(set(expected.values())) == 3


def test_metrics_of_one_threshold_share_their_sums_in_a_collection():
    names = {"a": 0.0, "b": -0.0, "c": 0}
    both = MetricCollection({name: ours.MicroF1(2, threshold=cut) for name, cut in names.items()})
    both.update(torch.tensor([[2.0, -1.0]]), torch.tensor([[1, 0]]))
    assert list(both.compute_groups.values()) == [["a", "b", "c"]]
