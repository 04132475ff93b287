"""A rule that was set on the page, saved in a copy of its model's folder."""

import copy
import re
from dataclasses import replace
from pathlib import Path

from zlpr import decoding
from zlpr._errors import UserError
from zlpr.decoding.with_ancestors import bare, like
from zlpr.models.base import FittedModel
from zlpr.serving.review import Review

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,99}")


def copy_with_rule(
    model: FittedModel, thresholds: float | list[float], reviewed: Review
) -> FittedModel:
    """The same model, deciding by thresholds; its record has the figures of that.

    Args:
        model: as it was loaded; left as it is.
        thresholds: one for all labels, or one per label.
        reviewed: the data that the thresholds were chosen on.
    """
    rule: decoding.Rule
    if isinstance(thresholds, list):
        if len(thresholds) != len(model.label_names):
            raise UserError(f"expected {len(model.label_names)} thresholds, got {len(thresholds)}")
        rule = like(model.decoder, decoding.PerLabelThreshold(thresholds=thresholds))
    else:
        rule = decoding.by_hand(model.decoder, model.calibrator, threshold=thresholds)
    made = copy.copy(model)
    made.decoder = rule
    figures = reviewed.figures_with(model, rule)
    decision = {
        "rule": bare(rule).name,
        "by": "hand",
        "on": f"{reviewed.data.name}, {reviewed.part}",
        "notes": list(reviewed.notes),
    }
    kept = {"probabilities": model.record.decision.get("probabilities", {})}
    made.record = replace(model.record, metrics=figures, decision={**decision, **kept})
    return made


def save_copy(model: FittedModel, folder: Path, name: str) -> Path:
    """Save a model beside a folder, under a name that nothing there has.

    Raises:
        UserError: the name is no plain one, or something has it.
    """
    if not _NAME.fullmatch(name) or name.endswith((".", " ")):
        raise UserError(f"{name[:100]!r}: expected letters, digits, '-', '_', '.' and spaces")
    target = folder.resolve().parent / name
    if target.exists() or target.is_symlink():
        raise UserError(f"{name}: is there already; choose another name")
    model.save(target)
    return target
