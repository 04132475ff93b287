"""The definitions of the metrics written out sample by sample, in plain Python."""

import itertools
import math
from fractions import Fraction


def example_f1(true, predicted, empty):
    def one(t, p):
        both = set(t) | set(p)
        if not both:
            return 1.0 if empty == "paper" else 0.0
        return 2 * len(set(t) & set(p)) / (len(t) + len(p))

    return mean(one(t, p) for t, p in zip(sets(true), sets(predicted), strict=True))


def jaccard(true, predicted, empty):
    def one(t, p):
        both = set(t) | set(p)
        if not both:
            return 1.0 if empty == "paper" else 0.0
        return len(set(t) & set(p)) / len(both)

    return mean(one(t, p) for t, p in zip(sets(true), sets(predicted), strict=True))


def label_f1(true, predicted, label, empty):
    cells = [(bool(t[label]), bool(p[label])) for t, p in zip(true, predicted, strict=True)]
    tp = sum(t and p for t, p in cells)
    wrong = sum(t != p for t, p in cells)
    if tp + wrong == 0:
        return 1.0 if empty == "paper" else 0.0
    return 2 * tp / (2 * tp + wrong)


def macro_f1(true, predicted, empty):
    return mean(label_f1(true, predicted, label, empty) for label in range(len(true[0])))


def micro_f1(true, predicted, empty):
    cells = list(zip(itertools.chain(*true), itertools.chain(*predicted), strict=True))
    tp = sum(bool(t) and bool(p) for t, p in cells)
    wrong = sum(bool(t) != bool(p) for t, p in cells)
    if tp + wrong == 0:
        return 1.0 if empty == "paper" else 0.0
    return 2 * tp / (2 * tp + wrong)


def average_precision(true, scores, empty):
    def one(t, s):
        if not t:
            return 0.0 if empty == "paper" else 1.0
        return mean(
            sum(s[k] >= s[j] for k in t) / sum(s[k] >= s[j] for k in range(len(s))) for j in t
        )

    return mean(one(t, s) for t, s in zip(sets(true), scores, strict=True))


def ranking_loss(true, scores, empty):
    def one(t, s):
        others = [k for k in range(len(s)) if k not in t]
        if not t or not others:
            return 0.0
        return sum(s[k] >= s[j] for j in t for k in others) / (len(t) * len(others))

    return mean(one(t, s) for t, s in zip(sets(true), scores, strict=True))


def coverage_error(true, scores, empty):
    def one(t, s):
        return max((sum(x >= s[j] for x in s) for j in t), default=0)

    return mean(one(t, s) for t, s in zip(sets(true), scores, strict=True))


def one_error(true, scores, empty):
    def one(t, s):
        if not t:
            return 1.0 if empty == "paper" else 0.0
        others = [s[k] for k in range(len(s)) if k not in t]
        return float(bool(others) and max(others) >= max(s[j] for j in t))

    return mean(one(t, s) for t, s in zip(sets(true), scores, strict=True))


def at_k(true, scores, k, gain, best):
    """Mean over all orders of each sample's labels that agree with its scores."""

    def one(t, s):
        if not t:
            return 0.0
        orders = [
            order
            for order in itertools.permutations(range(len(s)))
            if all(s[a] >= s[b] for a, b in itertools.pairwise(order))
        ]
        return mean(
            sum(gain(r) for r, j in enumerate(order[:k]) if j in t) for order in orders
        ) / best(t)

    return mean(one(t, s) for t, s in zip(sets(true), scores, strict=True))


def precision_at_k(true, scores, k):
    return at_k(true, scores, k, lambda rank: 1.0, lambda labels: k)


def recall_at_k(true, scores, k):
    return at_k(true, scores, k, lambda rank: 1.0, len)


def ndcg_at_k(true, scores, k):
    def discount(rank):
        return 1 / math.log2(rank + 2)

    return at_k(
        true,
        scores,
        k,
        discount,
        lambda labels: sum(discount(r) for r in range(min(k, len(labels)))),
    )


def sets(matrix):
    return [[label for label, value in enumerate(row) if value] for row in matrix]


def mean(values):
    values = list(values)
    return float(sum(Fraction(float(value)) for value in values) / len(values))
