"""A model folder predicts batches of a Ray Data set as it does texts.

The workers of Ray itself run the example of `docs/guides/frameworks/ray.md`, which compares them
with the model; to start them takes longer than all of this.
"""

import shutil

import numpy as np
import pytest

import zlpr
from zlpr import UserError
from zlpr.data import demo
from zlpr.integrations.ray import Predictor, _Worker, predict_parts
from zlpr.serving.batch_prediction import Request
from zlpr.serving.batch_prediction import predict_parts as one_process

TEXTS = list(demo.make(24).texts)


def test_batches_get_labels_scores_or_probabilities(demo_folder):
    model = zlpr.load(demo_folder)
    batch = {"text": np.array(TEXTS, dtype=object), "id": np.arange(len(TEXTS))}
    labels = Predictor(demo_folder)(batch)
    assert labels.keys() == {"text", "id", "labels"}
    assert labels["labels"].tolist() == [list(names) for names in model.predict(TEXTS)]
    scores = Predictor(demo_folder, output="scores")(batch)["scores"]
    np.testing.assert_array_equal(scores, model.predict_scores(TEXTS))
    chances = Predictor(demo_folder, output="probabilities")(batch)["probabilities"]
    np.testing.assert_array_equal(chances, model.predict_proba(TEXTS))


def test_mistakes_are_one_line(demo_folder):
    with pytest.raises(UserError, match="no column 'text'; there are: review"):
        Predictor(demo_folder)({"review": np.array(TEXTS, dtype=object)})
    with pytest.raises(UserError, match="output 'sets': expected labels"):
        Predictor(demo_folder, output="sets")


def test_a_column_that_is_there_is_not_replaced(demo_folder):
    batch = {"text": np.array(["money back"], dtype=object), "labels": np.array([["truth"]])}
    with pytest.raises(UserError, match="there is a column 'labels' already"):
        Predictor(demo_folder)(batch)


def test_files_on_a_cluster_become_the_parts_that_one_process_makes(demo_folder, tmp_path):
    pytest.importorskip("ray", reason="ray predicts over machines")
    from pyarrow import parquet, table

    sources = []
    for part in range(3):
        rows = {"id": list(range(8)), "text": TEXTS[8 * part : 8 * part + 8]}
        sources.append(tmp_path / f"part-{part}.parquet")
        parquet.write_table(table(rows), sources[-1])
    request = Request(str(demo_folder), all_labels=True)
    here, there = tmp_path / "here", tmp_path / "there"
    one_process(request, sources, here)
    shutil.copytree(here, there)
    (there / "part-1.parquet").unlink()
    (there / "part-2.parquet").unlink()
    kept = (there / "part-0.parquet").stat().st_mtime_ns
    made = {}
    done = made.__setitem__
    assert predict_parts(request, sources, there, address="local", workers=1, done=done) == 2
    assert sorted(made) == sources[1:]
    assert all(columns.text == ("text",) for columns in made.values())
    assert (there / "part-0.parquet").stat().st_mtime_ns == kept
    for source in sources:
        assert parquet.read_table(there / source.name).equals(
            parquet.read_table(here / source.name), check_metadata=True
        )
    assert predict_parts(request, sources, there, address="nowhere:1") == 0  # nothing is left to do
    with pytest.raises(UserError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        predict_parts(request, sources, tmp_path / "new", address="127.0.0.1:1")


def test_another_version_is_refused(demo_folder):
    with pytest.raises(UserError, match=r"the cluster has zlpr .*, this is 0\.0\.0"):
        _Worker(Request(str(demo_folder)), "0.0.0")
