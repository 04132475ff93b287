"""From scores to label sets and probabilities.

Every rule is fitted on validation scores for a metric of the user's choice, decodes numpy arrays
and tensors, and is kept as plain JSON:

    >>> import numpy as np
    >>> from zlpr.decoding import Threshold, from_config
    >>> rule = Threshold().fit([[1, 0], [0, 1]], np.array([[0.9, 0.2], [0.1, 0.4]]))
    >>> from_config(rule.to_config())(np.array([[0.5, 0.1]]))
    array([[ True, False]])
"""

from zlpr.decoding._rule import Features, Rule
from zlpr.decoding.by_hand import by_hand
from zlpr.decoding.calibration import Calibrator
from zlpr.decoding.choice import Choice, JudgedRule, by_preference, choose, weigh
from zlpr.decoding.expected_f1 import ExpectedF1, expected_f1_curve
from zlpr.decoding.floor import ProbabilityFloor
from zlpr.decoding.label_count import FeatureCount, LabelCount
from zlpr.decoding.label_sets import LabelSets
from zlpr.decoding.probabilities import (
    Probabilities,
    ProbabilityChoice,
    choose_probabilities,
    probabilities_from_config,
)
from zlpr.decoding.registry import available, create, from_config, info, rules_of_scores
from zlpr.decoding.reliability import (
    ReliabilityCurve,
    expected_calibration_error,
    label_calibration_error,
    reliability_curve,
)
from zlpr.decoding.sample_threshold import FeatureThreshold, SampleThreshold
from zlpr.decoding.set_posterior import SetPosterior
from zlpr.decoding.threshold import PerLabelThreshold, Threshold, ZeroBound
from zlpr.decoding.top_k import TopK
from zlpr.decoding.with_ancestors import WithAncestors
from zlpr.metrics import DECISION_METRICS

__all__ = [
    "DECISION_METRICS",
    "Calibrator",
    "Choice",
    "ExpectedF1",
    "FeatureCount",
    "FeatureThreshold",
    "Features",
    "JudgedRule",
    "LabelCount",
    "LabelSets",
    "PerLabelThreshold",
    "Probabilities",
    "ProbabilityChoice",
    "ProbabilityFloor",
    "ReliabilityCurve",
    "Rule",
    "SampleThreshold",
    "SetPosterior",
    "Threshold",
    "TopK",
    "WithAncestors",
    "ZeroBound",
    "available",
    "by_hand",
    "by_preference",
    "choose",
    "choose_probabilities",
    "create",
    "expected_calibration_error",
    "expected_f1_curve",
    "from_config",
    "info",
    "label_calibration_error",
    "probabilities_from_config",
    "reliability_curve",
    "rules_of_scores",
    "weigh",
]
