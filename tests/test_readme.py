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


def test_the_readme_is_short_and_reads_the_same_wherever_it_is_shown():
    """Away from its folder, as on a package index, a relative link would lead nowhere."""
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) < 700
    picture, *links = re.findall(r"\]\(([^)#]+)", text)
    assert (ROOT / picture).is_file()
    assert all(link.startswith("https://") for link in links)
    for name in re.findall(r"`((?:docs|examples)/[^`]*|[A-Z]+\.\w+)`", text):
        assert (ROOT / name).exists(), name


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
