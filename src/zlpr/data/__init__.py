"""Files in, label sets out: formats, sources, splits and the demo corpus."""

from zlpr.data.dataset import SPLIT_NAMES, Dataset, SplitName

__all__ = ["SPLIT_NAMES", "Dataset", "SplitName"]
