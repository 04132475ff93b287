"""The README tells the truth: every code block of it runs."""

import re
import subprocess

from tests.code_blocks import ROOT, blocks_of, run_page

README = ROOT / "README.md"
RULES = ("zero", "threshold", "auto")


def test_every_block_of_the_readme_runs(tmp_path):
    assert run_page(README, tmp_path) >= 4


def test_the_readme_names_the_two_commands():
    code = "\n".join(block.code for block in blocks_of(README))
    assert "make demo" in code
    assert "make test" in code


def test_the_readme_fits_two_screens_and_its_links_are_there():
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) < 900
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_what_make_demo_tells_to_type_works():
    printed = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True)
    assert ".venv/bin/zlpr train" in printed.stdout
    assert ".venv/bin/zlpr" in README.read_text(encoding="utf-8")


def test_the_results_of_the_readme_are_those_of_the_decision():
    """The table's means stand in docs/decision.md, in its columns for the three decisions."""
    decision = (ROOT / "docs" / "decision.md").read_text(encoding="utf-8")
    head = re.search(r"^\| data \|(.*)$", decision, re.MULTILINE)[1].split("|")
    means = [row.split("|") for row in re.findall(r"^\| mean \|(.*)$", decision, re.MULTILINE)]
    columns = [[name.strip() for name in head].index(name) for name in RULES]
    expected = [[row[column].strip() for row in means] for column in columns]
    table = re.search(r"\| cut at zero.*?\n\n", README.read_text(encoding="utf-8"), re.DOTALL)[0]
    assert [re.findall(r"\d+\.\d", row) for row in table.strip().splitlines()] == expected
