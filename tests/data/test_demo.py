import numpy as np
import pytest

from zlpr.data import demo


def test_same_seed_gives_the_same_tickets_and_a_prefix_of_more():
    few, many = demo.make(200, seed=3), demo.make(500, seed=3)
    assert few.texts == many.texts[:200]
    assert (few.labels != many.labels[:200]).nnz == 0
    assert demo.make(200, seed=4).texts != few.texts


def test_tickets_of_the_first_seed_stay_what_they_are():
    # Published figures rest on this corpus: a change here changes all of them.
    assert demo.make(1).texts[0] == FIRST_TICKET


FIRST_TICKET = (
    "The trial was supposed to be free, and now $14.99 is gone from my account. I was"
    " talking to Olga from your team about it. Nobody rang the bell, there was just a"
    " card saying they had missed me. How long does it take until the money is "
    "returned? Many thanks, Mina"
)


def test_at_least_twelve_labels_with_25_distinct_fragments_each():
    sections = demo.fragments()
    assert len(demo.LABELS) >= 12
    for label in demo.LABELS:
        assert len(set(sections[f"label {label}"])) >= 25, label


def test_no_fragment_belongs_to_two_sections():
    lines = [line for title, ls in demo.fragments().items() if "slot" not in title for line in ls]
    assert len(lines) == len(set(lines))


def test_joint_is_a_distribution_with_the_stated_empty_share():
    joint = demo.joint()
    assert joint.shape == (2,) * 12
    assert (joint >= 0).all()
    assert joint.sum() == pytest.approx(1, abs=1e-12)
    assert joint[(0,) * 12] == pytest.approx(0.08)


def _marginal(*labels):
    keep = {demo.LABELS.index(label) for label in labels}
    return demo.joint().sum(axis=tuple(i for i in range(12) if i not in keep))


@pytest.mark.parametrize(
    ("one", "other"), [("crash", "slow"), ("damaged", "refund"), ("login", "security")]
)
def test_labels_that_come_together(one, other):
    assert _marginal(one, other)[1, 1] > 1.4 * _marginal(one)[1] * _marginal(other)[1]


@pytest.mark.parametrize(("one", "other"), [("cancellation", "praise"), ("praise", "refund")])
def test_labels_that_exclude_each_other(one, other):
    assert _marginal(one, other)[1, 1] == 0


def test_the_tail_is_long():
    shares = sorted(_marginal(label)[1] for label in demo.LABELS)
    assert shares[0] < 0.02
    assert shares[1] < 0.03
    assert shares[-1] > 0.3


def test_label_sets_follow_the_joint():
    size = 20_000
    sets = demo.make(size, seed=11).labels.toarray().astype(int)
    codes = sets @ (1 << np.arange(11, -1, -1))
    counts = np.bincount(codes, minlength=4096)
    expected = demo.joint().ravel() * size
    common = expected >= 5
    chi_squared = ((counts - expected)[common] ** 2 / expected[common]).sum()
    degrees = common.sum() - 1
    assert chi_squared < degrees + 5 * np.sqrt(2 * degrees)
    assert counts[expected == 0].sum() == 0


def test_slots_and_choices_are_all_filled():
    text = " ".join(demo.make(3000, seed=2).texts)
    assert not set("{}|()") & set(text)
    assert " a a" not in text
    assert "  " not in text


def test_a_linear_model_is_right_on_60_to_85_percent_of_the_label_sets():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    tickets = demo.make(6000, seed=0)
    truth = tickets.labels.toarray().astype(int)
    features = TfidfVectorizer(sublinear_tf=True).fit(tickets.texts[:4800]).transform(tickets.texts)
    model = OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear"))
    predicted = model.fit(features[:4800], truth[:4800]).predict(features[4800:])
    assert 0.60 < (predicted == truth[4800:]).all(axis=1).mean() < 0.85


def test_size_must_be_positive():
    with pytest.raises(ValueError, match="size is 0"):
        demo.make(0)
