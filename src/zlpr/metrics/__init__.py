"""Multi-label metrics: true labels and predictions in, numbers out.

The six of the paper and what stands around them, exact, in scikit-learn's argument order, with
empty cases counted as the paper's tables do or as scikit-learn does. Nothing here guesses whether
scores are probabilities: metrics of sets take sets, and `zlpr.decoding` makes them.
"""

from zlpr.metrics._inputs import Empty, Labels, Scores
from zlpr.metrics.at_k import ndcg_at_k, precision_at_k, recall_at_k
from zlpr.metrics.classification import (
    LabelReport,
    cardinality,
    empty_share,
    example_f1,
    hamming_loss,
    jaccard,
    label_report,
    macro_f1,
    micro_f1,
    subset_accuracy,
    weighted_f1,
)
from zlpr.metrics.frequency import FrequencyGroup, LabelFrequencies, by_frequency
from zlpr.metrics.hierarchical import (
    hierarchical_f1,
    hierarchical_precision,
    hierarchical_recall,
)
from zlpr.metrics.propensity import ps_ndcg_at_k, ps_precision_at_k, ps_recall_at_k
from zlpr.metrics.ranking import average_precision, coverage_error, one_error, ranking_loss
from zlpr.metrics.registry import (
    DECISION_METRICS,
    PAPER_METRICS,
    MetricInfo,
    available,
    info,
)
from zlpr.metrics.streaming import MetricSet, evaluate
from zlpr.metrics.top_scores import LabelLists, TopScores

__all__ = [
    "DECISION_METRICS",
    "PAPER_METRICS",
    "Empty",
    "FrequencyGroup",
    "LabelFrequencies",
    "LabelLists",
    "LabelReport",
    "Labels",
    "MetricInfo",
    "MetricSet",
    "Scores",
    "TopScores",
    "available",
    "average_precision",
    "by_frequency",
    "cardinality",
    "coverage_error",
    "empty_share",
    "evaluate",
    "example_f1",
    "hamming_loss",
    "hierarchical_f1",
    "hierarchical_precision",
    "hierarchical_recall",
    "info",
    "jaccard",
    "label_report",
    "macro_f1",
    "micro_f1",
    "ndcg_at_k",
    "one_error",
    "precision_at_k",
    "ps_ndcg_at_k",
    "ps_precision_at_k",
    "ps_recall_at_k",
    "ranking_loss",
    "recall_at_k",
    "subset_accuracy",
    "weighted_f1",
]
