"""Files in, label sets out: formats, sources, splits and the demo corpus."""

from zlpr.data import demo, download, plots, published, sources, statistics
from zlpr.data.columns import Columns
from zlpr.data.dataset import SPLIT_NAMES, Dataset, SplitName, split_name
from zlpr.data.digest import data_digest
from zlpr.data.feature_columns import FeatureColumns
from zlpr.data.formats import FORMATS
from zlpr.data.hierarchy import Hierarchy
from zlpr.data.label_names import list_label_names
from zlpr.data.loading import concatenate, files_behind, join_parts, load
from zlpr.data.reading import iterate, read
from zlpr.data.rows import Block, ReadOptions
from zlpr.data.saving import save
from zlpr.data.splits import (
    SplitReport,
    check_parts,
    load_split,
    make_split,
    report_split,
    save_split,
)
from zlpr.data.writing import write

__all__ = [
    "FORMATS",
    "SPLIT_NAMES",
    "Block",
    "Columns",
    "Dataset",
    "FeatureColumns",
    "Hierarchy",
    "ReadOptions",
    "SplitName",
    "SplitReport",
    "check_parts",
    "concatenate",
    "data_digest",
    "demo",
    "download",
    "files_behind",
    "iterate",
    "join_parts",
    "list_label_names",
    "load",
    "load_split",
    "make_split",
    "plots",
    "published",
    "read",
    "report_split",
    "save",
    "save_split",
    "sources",
    "split_name",
    "statistics",
    "write",
]
