"""The examples in the docstrings run, and print what they say."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import zlpr
from zlpr.cli.main import EXTRA_OF

MODULES = [
    module.name
    for module in pkgutil.walk_packages(zlpr.__path__, "zlpr.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", ["zlpr", *MODULES])
def test_examples_print_what_they_say(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        pytest.skip(f"{name} needs {package}")
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    for example in finder.find(module, name, globs={**vars(module), "torch": torch}):
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)
