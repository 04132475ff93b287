"""Fitted models to export, small and of every kind that can be."""

import functools

from tests.models import modes
from zlpr.data import Dataset, demo, make_split
from zlpr.training import TrainingConfig, fit


@functools.cache
def texts() -> tuple[Dataset, Dataset, Dataset]:
    """Training, validation and test part of the demo."""
    divided = make_split(demo.make(300, 0), seed=0)
    return divided.part("train"), divided.part("validation"), divided.part("test")


@functools.cache
def of_texts(model: str = "linear", **settings):
    """A model of texts."""
    train, validation, _ = texts()
    return fit(train, validation, TrainingConfig(model=model, **settings)).model


def of_features(model: str, **settings):
    """A model of five features."""
    return modes.result(model, **settings).model
