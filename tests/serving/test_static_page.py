"""The folder of a static page: what stands in it, and which models are refused."""

import base64
import json
import re

import numpy as np
import pytest

from tests.models import fitted
from tests.serving.static_pages import model_and_review, trained
from zlpr import UserError
from zlpr.serving.review import review
from zlpr.serving.static_page import write_static_page


def test_the_folder_holds_all_that_its_page_names_and_the_weights_bit_by_bit(tmp_path):
    model, found = model_and_review()
    write_static_page(model, found, tmp_path / "a" / "page", name="tickets", example="Late.")
    folder = tmp_path / "a" / "page"
    page = (folder / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)="([\w.]+)"', page)
    assert {"model.js", "browser.js", "app.js", "app.css"} < set(named)
    assert all((folder / name).is_file() for name in named)
    assert "docs" not in page
    script = (folder / "model.js").read_text(encoding="utf-8")
    held = json.loads(script.removeprefix("globalThis.zlprModel = ").removesuffix(";\n"))
    weight = np.frombuffer(base64.b64decode(held["weight"]), dtype="<f4")
    np.testing.assert_array_equal(weight.reshape(model.weight.shape), model.weight)
    assert held["model"]["labels"] == list(model.label_names)
    assert held["example"] == "Late."
    assert base64.b64decode(held["cells"]) == found.cells_to_bytes()


def test_a_page_is_written_over_an_older_one(tmp_path):
    model, found = model_and_review()
    for example in ("first", "second"):
        write_static_page(model, found, tmp_path, example=example)
    assert '"second"' in (tmp_path / "model.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("analyzer", "decode", "said"),
    [
        ("word+subword", "threshold", "word.subword; train with --analyzer word"),
        ("word", "label_sets", "by 'label_sets'; train with --decode threshold"),
    ],
)
def test_a_model_that_the_browser_cannot_compute_is_refused(tmp_path, analyzer, decode, said):
    model = trained(analyzer, decode)
    with pytest.raises(UserError, match=said):
        write_static_page(model, review(model, fitted.parts()[1]), tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_probabilities_of_label_sets_are_refused(tmp_path):
    model, found = trained(), model_and_review()[1]
    model.calibrator = fitted.result(decode="label_sets").model.decoder
    with pytest.raises(UserError, match="from whole label sets"):
        write_static_page(model, found, tmp_path)
