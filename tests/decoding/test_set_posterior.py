import math

import numpy as np
import torch

from tests.metrics.cases import random_case
from zlpr.decoding import Calibrator
from zlpr.decoding._candidates import propose
from zlpr.decoding._rule import Validation
from zlpr.decoding._seen_sets import SeenSets
from zlpr.decoding.set_posterior import TERMS, SetPosterior, set_terms

CASE = random_case(samples=60, labels=5, density=0.4, seed=60)


def test_terms_written_out():
    seen = SeenSets(5, ((0, 2), (1,), (), (0, 2, 3)), (6, 3, 2, 1))
    scores = torch.from_numpy(CASE.scores[:8]).double()
    logits = 1.7 * scores - 0.2
    candidates = propose(scores, logits, seen)
    terms = set_terms(candidates, scores, logits, seen, None)
    counts = dict(zip(seen.sets, seen.counts, strict=True))
    chance = (seen.label_counts + 0.5) / 13
    for row in range(8):
        labels = candidates.labels[row]
        for column in range(terms.shape[1]):
            inside = sorted(labels[candidates.sets[row, column] > 0].tolist())
            outside = [label for label in range(5) if label not in inside]
            s, count = scores[row], counts.get(tuple(inside), 0)
            pairs = sum(float(seen.attraction[i, j]) for i in inside for j in inside if i < j)
            expected = [
                float(logits[row, inside].sum()),
                -math.log1p(sum(math.exp(-s[label]) for label in inside)),
                -math.log1p(sum(math.exp(s[label]) for label in outside)),
                len(inside),
                float(seen.size_log_chances[len(inside)]),
                math.log1p(count),
                float(count > 0),
                float(chance[inside].logit().sum()),
                pairs / max(len(inside) - 1, 1),
            ]
            assert len(expected) == len(TERMS)
            np.testing.assert_allclose(terms[row, column], expected, rtol=1e-6, atol=1e-9)


def test_a_samples_own_set_is_not_counted_for_it():
    seen = SeenSets(5, ((0,), (1,)), (2, 1))
    scores = torch.zeros(2, 5).double()
    candidates = propose(scores, scores, seen)
    own = torch.stack([seen.keys[0], seen.keys[1]])
    with_own, without = (set_terms(candidates, scores, scores, seen, x) for x in (None, own))
    difference = (with_own - without)[:, :, 5]
    assert difference[candidates.keys == own[:, None]].unique().numpy().round(6).tolist() == [
        round(math.log(3 / 2), 6),
        round(math.log(2), 6),
    ]
    assert not difference[candidates.keys != own[:, None]].any()


def test_chances_sum_to_one_and_marginals_are_theirs():
    data = Validation.check(CASE.true, CASE.scores, "micro_f1", "paper")
    posterior = SetPosterior()
    posterior.learn(data)
    for _, block in posterior.posteriors(CASE.scores):
        np.testing.assert_allclose(block.chances.sum(1), 1)
        assert not block.chances[~block.candidates.valid].any()
        assert ((block.inside >= 0) & (block.inside <= 1)).all()
        # All thirty-two sets of five labels are candidates, so nothing is left outside.
        assert (block.candidates.valid.sum(1) == 32).all()
        assert (block.inside > 0.97).all()
        found = torch.einsum("nc,ncm->nm", block.chances, block.candidates.sets)
        inside = block.inside[:, None]
        marginals = block.marginals().gather(1, block.candidates.labels)
        np.testing.assert_allclose(marginals, inside * found + (1 - inside) * block.outside)


def test_what_was_learned_from_the_same_data_is_not_learned_again(monkeypatch):
    case = random_case(labels=5, seed=41)
    first, again, other = SetPosterior(), SetPosterior(), SetPosterior()
    first.learn(Validation.check(case.true, case.scores, "micro_f1", "paper"))
    learn, learned = SetPosterior._learn, []

    def counting(self, data):
        learned.append(data)
        learn(self, data)

    monkeypatch.setattr(SetPosterior, "_learn", counting)
    again.learn(Validation.check(case.true, case.scores, "example_f1", "sklearn"))
    assert learned == []
    assert again.to_config() == first.to_config()
    again.calibrator.bias = 7.0
    again.weights[0] = 7.0
    assert first.to_config() != again.to_config()
    flipped = case.true.copy()
    flipped[0, 0] ^= True
    for true, train in ((flipped, None), (case.true, case.true), (case.true, flipped)):
        other = SetPosterior()
        other.learn(Validation.check(true, case.scores, "micro_f1", "paper", train))
    assert len(learned) == 3


def test_a_calibrator_that_is_fitted_to_other_data_changes_nothing_that_was_learned():
    case, other = random_case(labels=5, seed=42), random_case(labels=5, seed=43)
    data = Validation.check(case.true, case.scores, "micro_f1", "paper")
    given = Calibrator()
    first, again = SetPosterior(given), SetPosterior()
    first.learn(data)
    expected = first.to_config()
    given.learn(Validation.check(other.true, other.scores, "micro_f1", "paper"))
    assert given.to_config() != expected["calibrator"]
    again.learn(data)
    assert first.to_config() == again.to_config() == expected
