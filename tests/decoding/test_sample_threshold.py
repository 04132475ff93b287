import numpy as np
import pytest
from scipy import sparse

from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import FeatureThreshold, LabelCount, SampleThreshold, Threshold
from zlpr.decoding.sample_threshold import _least_errors


def levelled(seed, samples=500, spread=3.0):
    """Scores around a level of each sample's own."""
    generator = np.random.default_rng(seed)
    true = generator.random((samples, 8)) < 0.3
    level = generator.normal(scale=spread, size=(samples, 1))
    return true, level, level + 2.0 * true + generator.normal(scale=0.5, size=true.shape)


def test_samples_with_levels_of_their_own_need_thresholds_of_their_own():
    (true, _, scores), (fresh, _, fresh_scores) = levelled(0), levelled(1)
    own = SampleThreshold().fit(true, scores)(fresh_scores)
    one = Threshold().fit(true, scores)(fresh_scores)
    assert metrics.micro_f1(fresh, own) > metrics.micro_f1(fresh, one) + 0.2


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_features_move_the_threshold(kind):
    generator = np.random.default_rng(2)
    true = generator.random((600, 2)) < 0.5  # two labels: the scores do not tell the level
    level = generator.normal(scale=3.0, size=(600, 1))
    scores = level + 2.0 * true + generator.normal(scale=0.3, size=true.shape)
    wide = np.concatenate([level, generator.normal(size=(600, 1))], axis=1)

    def reached(rule):
        rule.fit(true[:300], scores[:300], features=kind(wide[:300]))
        return metrics.micro_f1(true[300:], rule(scores[300:], features=kind(wide[300:])))

    assert reached(FeatureThreshold()) > reached(SampleThreshold()) + 0.05


def test_many_columns_of_chance_cost_little():
    (true, _, scores), (fresh, _, fresh_scores) = levelled(5, 300), levelled(6, 1000)
    noise = np.random.default_rng(7).normal(size=(1300, 128))
    plain = SampleThreshold().fit(true, scores)(fresh_scores)
    rule = FeatureThreshold().fit(true, scores, features=noise[:300])
    told = rule(fresh_scores, features=noise[300:])
    assert metrics.micro_f1(fresh, told) > metrics.micro_f1(fresh, plain) - 0.02


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_the_aim_is_the_cut_with_the_fewest_errors(step):
    generator = np.random.default_rng(3)
    scores, true = generator.normal(size=(200, 5)), generator.random((200, 5)) < 0.4
    aims = _least_errors(scores, true, step)
    errors = ((scores > aims[:, None]) != true).sum(axis=1)
    cuts = np.concatenate([scores, np.full((200, 1), -np.inf)], axis=1)
    tried = ((scores[:, None] > cuts[:, :, None]) != true[:, None]).sum(axis=2)
    np.testing.assert_array_equal(errors, tried.min(axis=1))


def test_impossible_labels_and_few_labels():
    true, _, scores = levelled(4, samples=60)
    scores[:, 7], true[:, 7] = -np.inf, False
    assert not SampleThreshold().fit(true, scores)(scores)[:, 7].any()
    single = SampleThreshold().fit([[1], [0]], [[1.0], [-1.0]])
    assert single(np.array([[1.0]])).shape == (1, 1)
    assert np.isfinite(SampleThreshold().fit(true[:, 7:], scores[:, 7:]).weights).all()


@pytest.mark.parametrize("odd", [-np.inf, np.inf])
def test_a_sample_of_infinite_scores_leaves_the_other_thresholds(odd):
    # A text without a known word has no candidate of a shortlist: -inf for every label.
    (true, _, scores), (fresh, _, fresh_scores) = levelled(8), levelled(9)
    plain = metrics.micro_f1(fresh, SampleThreshold().fit(true, scores)(fresh_scores))
    scores[0], scores[1, :3] = odd, odd
    assert metrics.micro_f1(fresh, SampleThreshold().fit(true, scores)(fresh_scores)) > plain - 0.02


def test_unfitted_and_broken_rules_say_so():
    with pytest.raises(UserError, match="call fit first"):
        SampleThreshold()(np.zeros((1, 2)))
    with pytest.raises(UserError, match="sample_threshold expects 11 numbers in each list"):
        SampleThreshold(weights=[1.0, 2.0])
    with pytest.raises(UserError, match="columns must be a whole number"):
        FeatureThreshold(columns=-1)
    with pytest.raises(UserError, match="feature_threshold needs the features of the samples"):
        FeatureThreshold().fit([[1, 0]], [[1.0, 0.0]])


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("rule", [SampleThreshold, LabelCount])
def test_a_sample_is_decided_alike_alone_and_among_others(rule, share):
    # Scores in tenths tie often, and with nothing or all true the cut lies at the last score.
    for seed in range(40):
        generator = np.random.default_rng(seed)
        true = generator.random((9, 10)) < share
        scores = np.asfortranarray(generator.normal(size=true.shape).round(1))
        fitted = rule().fit(true, scores)
        alone = np.concatenate([fitted(scores[row : row + 1]) for row in range(9)])
        assert np.array_equal(alone, fitted(scores)), seed


@pytest.mark.parametrize("rule", [SampleThreshold, FeatureThreshold])
@pytest.mark.parametrize(("scale", "offset"), [(1e-3, 0.0), (0.03, 5.0), (1e4, 0.0), (1e8, -1e8)])
def test_scores_in_other_units_are_decided_alike(rule, scale, offset):
    """Some samples have no label, and some all: no score tells how far off their cut is."""
    generator = np.random.default_rng(11)
    true = generator.random((600, 7)) < 0.3
    true[::9], true[::10] = False, True
    scores = generator.normal(size=(600, 1)) + 3 * true + 0.7 * generator.normal(size=true.shape)
    kept = {"features": scores[:, :1]} if rule is FeatureThreshold else {}
    usual = rule().fit(true, scores, "example_f1", **kept)(scores, **kept)
    other = scale * scores + offset
    decided = rule().fit(true, other, "example_f1", **kept)(other, **kept)
    assert (decided == usual).mean() > 0.999


@pytest.mark.parametrize("rule", [SampleThreshold, FeatureThreshold])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_what_rounding_leaves_of_scores_that_add_up_to_zero_decides_nothing(rule, scale):
    """The scores of a perceptron that ranks do: one label rises by as much as others fall."""
    generator = np.random.default_rng(12)
    true = generator.random((300, 12)) < 0.3
    scores = 40.0 * (2.0 * true + generator.normal(size=true.shape))
    scores = scale * (scores - scores.mean(axis=1, keepdims=True))
    kept = {"features": generator.normal(size=(300, 3))} if rule is FeatureThreshold else {}

    def rounded():
        """As another order of summation would have rounded them."""
        return scores.astype(np.float32) * (1 + 1e-7 * generator.normal(size=scores.shape))

    fitted = rule().fit(true, rounded(), **kept)
    decided = [fitted(rounded(), **kept) for _ in range(5)]
    assert sum((other != decided[0]).sum() for other in decided[1:]) <= 5
