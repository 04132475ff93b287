"""Frozen encoders in scikit-learn's pipelines."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tests import tiny
from zlpr._errors import UserError
from zlpr.integrations.sklearn import MultiLabelClassifier, TextEmbedder
from zlpr.models.encoder import Encoder


def test_texts_are_embedded_in_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZLPR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "encoder").mkdir()
    folder = str(tiny.bert(tmp_path / "encoder"))
    data = tiny.texts(60)
    embedder = TextEmbedder(folder)
    vectors = embedder.fit_transform(data.texts)
    np.testing.assert_allclose(vectors, Encoder(folder).embed(data.texts), atol=1e-6)
    assert len(embedder.get_feature_names_out()) == vectors.shape[1]
    pipeline = make_pipeline(clone(embedder), MultiLabelClassifier(decode="zero"))
    sets = [set(labels) for labels in data.label_sets()]
    assert len(pipeline.fit(data.texts, sets).predict(data.texts[:3])) == 3
    with pytest.raises(UserError, match="this model reads texts"):
        embedder.transform("one text")
