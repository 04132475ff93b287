"""The losses over pairs: by sorting as by the pairs, and nothing where there is no pair."""

import math
import threading

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests import reference
from tests.losses.samples import PAIRS, scores_and_targets
from zlpr import losses
from zlpr.losses import (
    LSEPLoss,
    _hinge,
    bp_mll_loss,
    circle_loss,
    cross_entropy_loss,
    lsep_loss,
    ranking_loss,
    two_way_loss,
    warp_loss,
)
from zlpr.losses.pairwise import draw_distinct

RANKING = ["ranking", "warp", "bp_mll", "lsep", "decoupled_softmax", "cross_entropy"]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    labels=st.integers(1, 30),
    margin=st.sampled_from([-0.5, 0.0, 1.0, 3.0]),
    share=st.sampled_from([0.0, 0.05, 0.3, 0.7]),
    infinite=st.booleans(),
    loss=st.sampled_from([ranking_loss, warp_loss]),
)
def test_few_pairs_give_what_sorting_gives(  # type: ignore[no-untyped-def]
    seed: int, labels: int, margin: float, share: float, infinite: bool, loss
) -> None:
    random = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=random)

    scores = (20 * drawn(2, 3, labels) - 10).round(decimals=seed % 3)  # with ties
    if infinite:
        scores[drawn(2, 3, labels) < 0.1] = torch.inf
        scores[drawn(2, 3, labels) < 0.1] = -torch.inf
    targets, mask = drawn(2, 3, labels) < share, drawn(labels) < 0.9
    weight = drawn(labels) * (drawn(labels) < 0.8)
    found = []
    for few in (math.inf, -1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_hinge, "FEW", few)
            leaf = scores.clone().requires_grad_()
            values = loss(
                leaf,
                targets,
                margin=margin,
                label_mask=mask,
                label_weight=weight,
                pos_weight=3.0,
                reduction="none",
            )
            found.append((values.detach(), *torch.autograd.grad(values.sum(), leaf)))
    for pairs, by_sorting in zip(*found, strict=True):
        torch.testing.assert_close(pairs, by_sorting, rtol=1e-5, atol=1e-6)


def test_pairs_are_gone_through_where_they_are_few_and_known() -> None:
    targets = torch.zeros(10, 50, dtype=torch.bool)
    targets[:, :4] = True
    scores = torch.randn(10, 50)
    assert _hinge.has_few(targets, scores)
    targets[0, 4] = True
    assert not _hinge.has_few(targets, scores)
    assert not _hinge.has_few(targets[:0], scores[:0])
    alone = torch.stack([warp_loss(*row) for row in zip(scores, targets, strict=True)])
    together = torch.vmap(lambda s, y: warp_loss(s, y))(scores, targets)
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("loss", [ranking_loss, warp_loss])
def test_vmap_goes_through_scores_or_masks_of_the_same_targets(loss) -> None:  # type: ignore[no-untyped-def]
    scores, masks = torch.randn(4, 3, 6), torch.rand(4, 3, 6) < 0.7
    targets = torch.zeros(3, 6, dtype=torch.bool)
    targets[:, 1] = True

    def of_scores(given: Tensor) -> Tensor:
        return loss(given, targets)

    def of_mask(mask: Tensor) -> Tensor:
        return loss(scores[0], targets, label_mask=mask)

    for function, stack in ((of_scores, scores), (of_mask, masks)):
        alone = torch.stack([function(one) for one in stack])
        torch.testing.assert_close(torch.vmap(function)(stack), alone)
    slopes = torch.stack([torch.func.grad(of_scores)(one) for one in scores])
    torch.testing.assert_close(torch.vmap(torch.func.grad(of_scores))(scores), slopes)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    labels=st.integers(1, 30),
    margin=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    whole=st.booleans(),
)
def test_sorting_gives_what_the_pairs_give(
    seed: int, labels: int, margin: float, whole: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(3, labels, generator=generator, dtype=torch.float64)
    if whole:
        scores = scores.round()  # many ties, among labels and at the margin
    targets = torch.rand(3, labels, generator=generator) < 0.4
    upstream = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    for fast, slow in ((ranking_loss, reference.ranking), (warp_loss, reference.warp)):
        one, two = (scores.clone().requires_grad_() for _ in range(2))
        value = fast(one, targets, margin=margin, reduction="none")
        expected = slow(two, targets, margin=margin)
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
        (slope,) = torch.autograd.grad(value, one, upstream)
        (wanted,) = torch.autograd.grad(expected, two, upstream)
        torch.testing.assert_close(slope, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", [ranking_loss, warp_loss])
def test_weights_multiply_the_pairs(loss) -> None:  # type: ignore[no-untyped-def]
    scores, targets = scores_and_targets(shape=(1, 6))
    w, u = torch.rand(6, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    total = 0.0
    for i in targets[0].nonzero().flatten().tolist():
        rank = 1 + int((scores[0] > scores[0, i]).sum())
        for j in (~targets[0]).nonzero().flatten().tolist():
            hinge = max(0.0, 1.0 + float(scores[0, j] - scores[0, i]))
            total += float(w[i] * u[i] * w[j]) * hinge * (rank if loss is warp_loss else 1)
    actual = loss(scores, targets, label_weight=w, pos_weight=u)
    assert actual.item() == pytest.approx(total)


@pytest.mark.parametrize("loss", [ranking_loss, warp_loss])
@pytest.mark.parametrize("offset", [1e4, -1e4])
def test_a_common_offset_costs_no_digits(loss, offset: float) -> None:  # type: ignore[no-untyped-def]
    scores = torch.randn(4, 200, generator=torch.Generator().manual_seed(0))
    targets = torch.rand(4, 200, generator=torch.Generator().manual_seed(1)) < 0.1
    moved = scores + offset
    slow = reference.ranking if loss is ranking_loss else reference.warp
    expected = slow(moved, targets)
    actual = loss(moved, targets, reduction="none")
    torch.testing.assert_close(actual.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("truth", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_no_pair_no_loss(name: str, truth: bool, dtype: torch.dtype) -> None:
    scores = torch.randn(3, 5).to(dtype).requires_grad_()
    value = losses.info(name).function(scores, torch.full((3, 5), truth))
    assert value == 0
    (slope,) = torch.autograd.grad(value, scores)
    assert (slope == 0).all()


@pytest.mark.parametrize("name", [name for name in RANKING if name != "cross_entropy"])
def test_impossible_labels_have_no_pair(name: str) -> None:
    scores, targets = scores_and_targets(dtype=torch.float32)
    targets[:, 3] = False
    function = losses.info(name).function
    rest = [0, 1, 2, 4, 5, 6]
    expected = function(scores[:, rest], targets[:, rest], reduction="none")
    barred = scores.clone()
    barred[:, 3] = -torch.inf
    barred.requires_grad_()
    actual = function(barred, targets, reduction="none")
    torch.testing.assert_close(actual, expected)
    (slope,) = torch.autograd.grad(actual.sum(), barred)
    assert slope.isfinite().all()
    assert (slope[:, 3] == 0).all()


@pytest.mark.parametrize("name", RANKING)
def test_only_differences_count(name: str) -> None:
    scores, targets = scores_and_targets()
    function = losses.info(name).function
    torch.testing.assert_close(function(scores + 3.0, targets), function(scores, targets))
    assert losses.info(name).bound is None


@pytest.mark.parametrize("name", RANKING)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_large_scores(name: str, dtype: torch.dtype) -> None:
    scores = torch.tensor([[1e4, -1e4, 0.0]], dtype=dtype).requires_grad_()
    value = losses.info(name).function(scores, torch.tensor([[False, True, False]]))
    (slope,) = torch.autograd.grad(value, scores)
    assert value.isfinite()
    assert slope.isfinite().all()
    apart = 2e4
    expected = {
        "ranking": 2 + apart + 1e4,
        "warp": 3 * (2 + apart + 1e4),
    }.get(name, apart)
    assert value.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["ranking", "warp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinite_scores_that_are_right_cost_nothing(name: str, dtype: torch.dtype) -> None:
    """Gaps times the weight of twenty labels would overflow, and no negative stands above them."""
    scores = torch.tensor([*[5.0] * 20, torch.inf, -torch.inf], dtype=dtype).requires_grad_()
    targets = torch.arange(22) < 21
    value = losses.info(name).function(scores, targets)
    (slope,) = torch.autograd.grad(value, scores)
    assert value == 0
    assert (slope == 0).all()


def test_memory_of_ranking_grows_with_the_labels_not_the_pairs() -> None:
    labels = 100_000
    scores = torch.randn(2, labels, requires_grad=True)
    targets = torch.zeros(2, labels, dtype=torch.bool)
    targets[:, ::2] = True  # 2.5e9 pairs a sample, 20 GB in float64
    for loss in (ranking_loss, warp_loss):
        (slope,) = torch.autograd.grad(loss(scores, targets), scores)
        assert slope.isfinite().all()


def test_lsep_is_its_product_form() -> None:
    scores, targets = scores_and_targets()
    a = torch.where(targets, 0.0, scores.exp()).sum(dim=1)
    b = torch.where(targets, (-scores).exp(), 0.0).sum(dim=1)
    torch.testing.assert_close(lsep_loss(scores, targets, reduction="none"), torch.log(1 + a * b))


def test_sampled_lsep_of_all_pairs_is_lsep() -> None:
    scores, targets = scores_and_targets()
    torch.testing.assert_close(
        lsep_loss(scores, targets, pairs=100, reduction="none"),
        lsep_loss(scores, targets, reduction="none"),
    )


def test_sampled_lsep_sums_distinct_pairs() -> None:
    labels = 40
    # All pairs have the same difference, so that the value tells how many were drawn.
    targets = torch.zeros(50, labels, dtype=torch.bool)
    targets[:, :10] = True
    targets[0] = False  # no pair
    targets[1, 1:] = False  # 39 pairs
    scores = torch.zeros(50, labels, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    value = lsep_loss(scores, targets, pairs=60, generator=generator, reduction="none")
    drawn = torch.expm1(value).round()
    assert drawn[0] == 0
    assert drawn[1] == 39
    assert (drawn[2:] == 60).all()  # out of 300
    again = lsep_loss(
        scores, targets, pairs=60, generator=torch.Generator().manual_seed(0), reduction="none"
    )
    assert torch.equal(value, again)


@pytest.mark.parametrize(("total", "size"), [(25, 24), (6, 2), (5, 5), (3, 7), (4000, 3)])
def test_pairs_are_drawn_without_repetition_and_evenly(total: int, size: int) -> None:
    rows = 4000
    generator = torch.Generator().manual_seed(0)
    numbers, counted = draw_distinct(torch.full((rows, 1), total), size, generator)
    assert numbers.shape == (rows, size)
    assert (counted.sum(dim=1) == min(size, total)).all()
    for row, which in zip(numbers[:200], counted[:200], strict=True):
        drawn = row[which].tolist()
        assert len(set(drawn)) == len(drawn)
        assert all(0 <= number < total for number in drawn)
    share = torch.bincount(numbers[counted] * 5 // total, minlength=5) / counted.sum()
    even = torch.bincount(torch.arange(total) * 5 // total, minlength=5) / total
    torch.testing.assert_close(share, even, atol=0.02, rtol=0)


def test_every_set_of_pairs_is_as_likely_as_any_other() -> None:
    """Two of six, and by the other way two of twelve: 15 and 66 sets."""
    for total, sets in ((6, 15), (12, 66)):
        generator = torch.Generator().manual_seed(1)
        numbers, _ = draw_distinct(torch.full((33_000, 1), total), 2, generator)
        low, high = numbers.sort(dim=1).values.T
        counts = torch.bincount(low * total + high)
        counts = counts[counts > 0].double()
        expected = 33_000 / sets
        assert len(counts) == sets
        # Chi squared has the mean `sets - 1` and the variance twice that.
        squared = ((counts - expected) ** 2 / expected).sum().item()
        assert abs(squared - (sets - 1)) < 5 * math.sqrt(2 * (sets - 1))


def test_the_module_draws_from_its_own_generator() -> None:
    scores, targets = scores_and_targets(shape=(5, 30))
    loss = LSEPLoss(pairs=4, generator=torch.Generator().manual_seed(7))
    again = LSEPLoss(pairs=4, generator=torch.Generator().manual_seed(7))
    before = torch.get_rng_state()
    first, second = loss(scores, targets), loss(scores, targets)
    assert torch.equal(torch.get_rng_state(), before)
    assert first != second
    assert (again(scores, targets), again(scores, targets)) == (first, second)


def test_sampled_lsep_has_the_gradient_of_its_pairs() -> None:
    scores, targets = scores_and_targets(shape=(3, 30))
    s = scores.requires_grad_()
    value = lsep_loss(s, targets, pairs=5, generator=torch.Generator().manual_seed(0))
    (slope,) = torch.autograd.grad(value, s)
    assert (slope[targets] <= 0).all()
    assert (slope[~targets] >= 0).all()
    assert ((slope != 0).sum(dim=1) <= 10).all()
    torch.testing.assert_close(slope.sum(dim=1), torch.zeros(3).double())


def test_plain_bp_mll_is_the_exponential_of_the_log_form() -> None:
    scores, targets = scores_and_targets()
    log_form = bp_mll_loss(scores, targets, reduction="none")
    plain = bp_mll_loss(scores, targets, log=False, reduction="none")
    torch.testing.assert_close(plain, log_form.exp())
    torch.testing.assert_close(plain, reference.bp_mll(scores, targets))
    torch.testing.assert_close(
        log_form,
        torch.stack(
            [
                torch.logsumexp(s[~y], 0) + torch.logsumexp(-s[y], 0)
                for s, y in zip(scores, targets, strict=True)
            ]
        ),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_plain_bp_mll_has_a_gradient_where_it_would_overflow(dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.0, 1000.0, 1000.0]], dtype=dtype, requires_grad=True)
    value = bp_mll_loss(scores, torch.tensor([[1, 0, 0]]), log=False)
    (slope,) = torch.autograd.grad(value, scores)
    assert value > torch.finfo(value.dtype).max / 2
    assert torch.isfinite(value)
    assert not slope.isnan().any()
    assert slope[0, 0] < 0 < slope[0, 1]


@pytest.mark.parametrize("weight", [2.0, 1e6])
def test_plain_bp_mll_has_a_gradient_where_a_weight_makes_it_overflow(weight: float) -> None:
    scores = torch.tensor([[0.0, 1000.0, -500.0]], requires_grad=True)
    heavy = torch.tensor([weight])
    value = bp_mll_loss(scores, torch.tensor([[1, 0, 0]]), log=False, sample_weight=heavy)
    (slope,) = torch.autograd.grad(value, scores)
    largest = torch.finfo(torch.float32).max
    torch.testing.assert_close(slope, torch.tensor([[-largest, largest, 0.0]]))


def test_cross_entropy_is_torchs() -> None:
    scores = torch.randn(6, 9, dtype=torch.float64, requires_grad=True)
    label = torch.randint(0, 9, (6,))
    targets = F.one_hot(label, 9)
    expected = F.cross_entropy(scores, label, reduction="none")
    actual = cross_entropy_loss(scores, targets, reduction="none")
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(actual, reference.cross_entropy(scores, targets))
    upstream = torch.rand(6, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(actual, scores, upstream)[0],
        torch.autograd.grad(expected, scores, upstream)[0],
    )
    soft = torch.softmax(torch.randn(6, 9, dtype=torch.float64), dim=1)
    torch.testing.assert_close(cross_entropy_loss(scores, soft), F.cross_entropy(scores, soft))


def test_cross_entropy_shares_the_target_and_is_zero_without_one() -> None:
    scores, targets = scores_and_targets()
    share = targets.double() / targets.sum(dim=1, keepdim=True)
    torch.testing.assert_close(cross_entropy_loss(scores, targets), F.cross_entropy(scores, share))
    s = scores.requires_grad_()
    value = cross_entropy_loss(s, torch.zeros_like(targets))
    assert value == 0
    assert (torch.autograd.grad(value, s)[0] == 0).all()


def test_an_impossible_label_is_at_circles_optimum() -> None:
    targets = torch.tensor([[True, False, False]])
    barred = torch.tensor([[0.5, 0.1, -torch.inf]], requires_grad=True)
    far = circle_loss(torch.tensor([[0.5, 0.1, -100.0]]), targets)
    value = circle_loss(barred, targets)
    torch.testing.assert_close(value, far)
    (slope,) = torch.autograd.grad(value, barred)
    assert slope.isfinite().all()
    assert slope[0, 2] == 0


def test_circle_without_weights_is_lsep() -> None:
    """At scores that all have the same distance from their optimum, its weights are constant."""
    targets = torch.tensor([[True, False, False]])
    scores = torch.tensor([[0.5, 0.5, 0.5]], dtype=torch.float64)
    a = 0.75  # 1 + m - s = s + m = 0.75 for m = 0.25
    expected = torch.log1p(torch.tensor(2 * math.exp(a * (0.25) - a * (0.5 - 0.75))))
    torch.testing.assert_close(circle_loss(scores, targets), expected.double())


def test_two_way_joins_sums_and_maxima() -> None:
    """Two processes in threads, each with a part of the batch, reach the whole batch's value.

    So they do its slopes in weights, of labels that count in no process, or not in one, as well.
    """
    scores, targets = scores_and_targets(shape=(8, 7))
    targets[:, 3], targets[:, 4] = False, False
    weight = torch.ones_like(scores)
    weight[:, 3], weight[:5, 4] = 0.0, 0.0
    weight.requires_grad_()
    whole = two_way_loss(scores, targets, label_weight=weight)
    (slope,) = torch.autograd.grad(whole, weight)

    class Group:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)
            self.slots: list[Tensor | None] = [None, None]

        def exchange(self, rank: int, values: Tensor) -> list[Tensor]:
            self.slots[rank] = values
            self.barrier.wait(timeout=30)
            both = [slot for slot in self.slots if slot is not None]
            self.barrier.wait(timeout=30)
            return both

    group = Group()

    class Member:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def sum(self, values: Tensor) -> Tensor:
            return torch.stack(group.exchange(self.rank, values)).sum(dim=0)

        def max(self, values: Tensor) -> Tensor:
            return torch.stack(group.exchange(self.rank, values)).amax(dim=0)

    results: list[Tensor] = [torch.empty(0)] * 2
    parts = [slice(0, 5), slice(5, 8)]

    def work(rank: int) -> None:
        part = parts[rank]
        options = {"label_weight": weight[part], "batch": Member(rank)}
        results[rank] = two_way_loss(scores[part], targets[part], **options)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for result in results:
        torch.testing.assert_close(result, whole)
        found = torch.autograd.grad(result, weight, retain_graph=True)[0]
        torch.testing.assert_close(found, slope)


@pytest.mark.parametrize("name", ["identity", "harmonic", "log"])
def test_warp_weighs_ranks_by_a_named_function_or_any(name: str) -> None:
    scores, targets = scores_and_targets()
    expected = reference.warp(scores, targets, rank_weight=name)
    actual = warp_loss(scores, targets, rank_weight=name, reduction="none")
    torch.testing.assert_close(actual, expected)
    by_hand = {"identity": lambda r: r, "harmonic": None, "log": lambda r: (1 + r).log()}[name]
    if by_hand is not None:
        own = warp_loss(scores, targets, rank_weight=by_hand, reduction="none")
        torch.testing.assert_close(own, expected)


def test_a_function_of_ranks_is_given_those_of_all_labels() -> None:
    scores, targets = torch.arange(12.0).reshape(2, 6), torch.zeros(2, 6, dtype=torch.bool)
    targets[:, 1] = True  # of rank 5, and in few pairs
    seen = []

    def relative(ranks: Tensor) -> Tensor:
        seen.append(ranks)
        return ranks / ranks.amax(dim=-1, keepdim=True)

    actual = warp_loss(scores, targets, rank_weight=relative, reduction="none")
    expected = 5 / 6 * ranking_loss(scores, targets, reduction="none")
    torch.testing.assert_close(actual, expected)
    assert seen[0].tolist() == [[6, 5, 4, 3, 2, 1]] * 2


@pytest.mark.parametrize("name", ["label_weight", "pos_weight"])
@pytest.mark.parametrize("loss", [losses.ranking_loss, losses.warp_loss])
def test_a_weight_that_would_get_no_gradient_is_refused(loss, name: str) -> None:  # type: ignore[no-untyped-def]
    scores, targets = scores_and_targets()
    weight = torch.ones(scores.shape[-1], requires_grad=True)
    with pytest.raises(ValueError, match="get no gradient here; detach them"):
        loss(scores, targets, **{name: weight})
    with torch.no_grad():
        value = loss(scores, targets, **{name: weight})
    assert value == loss(scores, targets)


def test_warp_refuses_a_weight_that_is_none() -> None:
    scores, targets = scores_and_targets()
    with pytest.raises(ValueError, match="rank_weight must be one of 'identity', 'harmonic'"):
        warp_loss(scores, targets, rank_weight="square")
    with pytest.raises(ValueError, match="rank_weight must give one weight for each rank"):
        warp_loss(scores, targets, rank_weight=lambda ranks: ranks[..., :1])
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite and not negative"):
            warp_loss(scores, targets, rank_weight=lambda ranks, w=wrong: w * ranks)


def test_a_single_positive_makes_the_decoupled_softmax_the_cross_entropy() -> None:
    scores, targets = scores_and_targets()
    targets = torch.zeros_like(targets)
    targets[:, 2] = True
    torch.testing.assert_close(
        losses.decoupled_softmax_loss(scores, targets), cross_entropy_loss(scores, targets)
    )
