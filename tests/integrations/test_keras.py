"""The losses and metrics in Keras are those of the package, on the torch and the JAX backend."""

import os
import subprocess
import sys

import pytest

from tests.code_blocks import ROOT


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_losses_and_metrics_are_ours(backend):
    environment = {**os.environ, "KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    finished = subprocess.run(
        [sys.executable, "-m", "tests.integrations.keras_checks"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout == f"all checks passed on {backend}\n"
