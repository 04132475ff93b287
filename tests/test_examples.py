"""Every example runs, says something and draws its picture, which the gallery shows."""

import runpy
import sys

import pytest

from tests.code_blocks import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
PICTURES = ROOT / "docs" / "figures" / "examples"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(script, tmp_path, monkeypatch, capsys):
    from matplotlib import pyplot

    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "picture.png")])
    runpy.run_path(str(script), run_name="__main__")
    pyplot.close("all")
    assert capsys.readouterr().out
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_gallery_has_a_picture_of_each():
    assert {path.stem for path in PICTURES.iterdir()} == {path.stem for path in SCRIPTS}
