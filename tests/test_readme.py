"""The README tells the truth: every code block of it runs."""

from tests.code_blocks import ROOT, blocks_of, run_page

README = ROOT / "README.md"


def test_every_block_of_the_readme_runs(tmp_path):
    assert run_page(README, tmp_path) >= 4


def test_the_readme_names_the_two_commands():
    code = "\n".join(block.code for block in blocks_of(README))
    assert "make demo" in code
    assert "make test" in code
