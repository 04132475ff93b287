"""A small fitted model to save, load and break."""

import functools

from zlpr.data import demo, make_split
from zlpr.training import FitResult, TrainingConfig, fit


@functools.cache
def parts(size: int = 300, seed: int = 0):
    divided = make_split(demo.make(size, seed), seed=seed)
    return divided.part("train"), divided.part("validation"), divided.part("test")


@functools.cache
def result(loss: str = "zlpr", decode: str = "auto") -> FitResult:
    train, validation, _ = parts()
    return fit(train, validation, TrainingConfig(loss=loss, decode=decode, regularisation=0.3))
