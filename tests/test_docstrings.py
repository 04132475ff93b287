"""The examples in the docstrings run, and print what they say."""

import doctest
import importlib
import math
import os
import pkgutil
import re

import pytest
import torch

import zlpr
from zlpr.cli.main import EXTRA_OF

os.environ.setdefault("KERAS_BACKEND", "torch")  # which Keras asks for at its import

MODULES = [
    module.name
    for module in pkgutil.walk_packages(zlpr.__path__, "zlpr.")
    if not module.name.endswith("__main__")
]
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")


class NearlyEqual(doctest.OutputChecker):
    """Lets the last digits of a number differ, as they do from one processor to another."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        wanted, given = NUMBER.findall(want), NUMBER.findall(got)
        alike = len(wanted) == len(given) and all(
            math.isclose(float(w), float(g), rel_tol=1e-6)
            for w, g in zip(wanted, given, strict=True)
        )
        if alike:
            want, got = NUMBER.sub("#", want), NUMBER.sub("#", got)
        return super().check_output(want, got, optionflags)


@pytest.mark.parametrize("name", ["zlpr", *MODULES])
def test_examples_print_what_they_say(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {*EXTRA_OF, "triton"}:
            raise
        pytest.skip(f"{name} needs {package}")
    finder = doctest.DocTestFinder(exclude_empty=True)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(NearlyEqual(), optionflags=flags)
    report: list[str] = []
    for example in finder.find(module, name, globs={**vars(module), "torch": torch}):
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_a_wrong_number_fails() -> None:
    checker = NearlyEqual()
    assert checker.check_output("tensor(0.2500)\n", "tensor(0.25000001)\n", 0)
    assert not checker.check_output("tensor(0.2500)\n", "tensor(0.2501)\n", 0)
