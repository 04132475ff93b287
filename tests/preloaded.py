"""What the server of `tests.processes` loads before it forks: what most processes would load."""

import gc

import accelerate  # noqa: F401
import sklearn.feature_extraction.text  # noqa: F401
import transformers.trainer  # noqa: F401

import zlpr.cli.train
import zlpr.compare.processes
import zlpr.training.linear
import zlpr.training.transformer  # noqa: F401

gc.freeze()  # processes that are forked need not look through all this for garbage
