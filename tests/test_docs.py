"""The documentation tells the truth: its code runs, its links and references resolve."""

import pytest

from tests.code_blocks import ROOT, blocks_of, run_page

PAGES = sorted((ROOT / "docs").rglob("*.md"))
WITH_CODE = [
    page for page in PAGES if any(b.language in {"python", "bash"} for b in blocks_of(page))
]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_every_block_of_a_page_runs(page, tmp_path):
    assert run_page(page, tmp_path) > 0


def test_the_table_of_frameworks_has_the_versions_that_are_installed():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    page = (ROOT / "docs" / "guides" / "frameworks" / "index.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    names = {
        "PyTorch": "torch",
        "Transformers": "transformers",
        "Lightning": "lightning",
        "Keras 3": "keras",
        "JAX": "jax",
        "torchmetrics": "torchmetrics",
        "scikit-learn": "scikit-learn",
        "MLflow": "mlflow-skinny",
        "Ray Data": "ray",
        "datasets, DataLoader": "datasets",
    }
    shown = {row.partition("[")[2].partition("]")[0]: row.split("|")[4] for row in rows}
    assert shown.keys() == names.keys()
    for title, package in names.items():
        assert pins[package] in shown[title], f"{title}: constraints.txt has {pins[package]}"


@pytest.mark.parametrize(
    "picture", sorted((ROOT / "docs" / "figures").glob("*.*")), ids=lambda picture: picture.name
)
def test_every_picture_is_on_a_page(picture):
    shown = [page for page in PAGES if f"figures/{picture.name})" in page.read_text("utf-8")]
    assert shown, f"{picture.name} is on no page"
