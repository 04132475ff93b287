from dataclasses import replace

import numpy as np
from scipy import sparse

from zlpr.data import Dataset, data_digest, demo
from zlpr.data.digest import content_digest, joint_digest


def test_what_decides_a_model_decides_the_digest():
    data = demo.make(50)
    digest = data_digest(data)
    assert data_digest(replace(data, ids=None, name="other", notes=("n",))) == digest
    assert data_digest(data.select(np.arange(50)[::-1])) != digest
    assert data_digest(replace(data, texts=["other", *data.texts[1:]])) != digest
    assert data_digest(replace(data, label_names=data.label_names[::-1])) != digest
    flipped = data.labels.toarray()
    flipped[0, 0] ^= True
    assert data_digest(replace(data, labels=sparse.csr_array(flipped))) != digest


def test_how_a_matrix_is_held_does_not_matter():
    dense = np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 3.0]])
    narrow = sparse.csr_array(dense)
    held = sparse.csr_array(
        (
            np.array([1.0, 0.0, 2.0, 3.0]),
            np.array([2, 0, 1, 2], dtype=np.int64),
            np.array([0, 3, 4], dtype=np.int64),
        ),
        shape=(2, 3),
    )
    sets = [{"a"}, set()]
    digests = {data_digest(Dataset.from_label_sets(sets, features=m)) for m in (narrow, held)}
    assert len(digests) == 1
    other = Dataset.from_label_sets(sets, features=sparse.csr_array(dense + 1))
    assert data_digest(other) not in digests
    single = Dataset.from_label_sets(sets, features=dense.astype(np.float32))
    double = Dataset.from_label_sets(sets, features=dense)
    assert data_digest(single) == data_digest(double)


def test_the_digest_of_texts_is_that_which_saved_models_hold():
    data = Dataset.from_label_sets([{"a"}, set()], texts=["x", "y"])
    assert data_digest(data) == "899018014846cec3babbe2ebc3e89b80b1ce81975af9eb8097283b03bd17b571"


def test_contents_add_up_whatever_their_order_and_labels():
    data = demo.make(50)
    digest = content_digest(data)
    assert content_digest(data.select(np.arange(50)[::-1])) == digest
    assert content_digest(replace(data, label_names=data.label_names[::-1])) == digest
    parts = [data.select(range(20)), data.select(range(20, 50))]
    assert joint_digest(map(content_digest, parts)) == digest
    assert content_digest(parts[0]) != digest
    assert content_digest(replace(data, texts=["other", *data.texts[1:]])) != digest
    twice = data.select([0, 0])  # each row counts
    assert content_digest(twice) != content_digest(data.select([0]))
