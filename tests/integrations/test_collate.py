"""Label sets become numbers, and ragged ones a padded batch that the losses take."""

import datasets
import pytest
import torch
from torch.utils.data import DataLoader

from zlpr import UserError
from zlpr.integrations.collate import EncodeLabels, collate_indices, pad_indices
from zlpr.losses import sparse_zlpr_loss, zlpr_loss

NAMES = ["red", "green", "blue"]
ROWS = {"text": ["a", "b", "c"], "labels": [["blue", "red"], [], ["green", "green"]]}


def test_a_datasets_map_encodes_names():
    data = datasets.Dataset.from_dict(ROWS)
    hot = data.map(EncodeLabels(NAMES), batched=True)
    assert hot["labels"][:] == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    ragged = data.map(EncodeLabels(NAMES, form="indices"), batched=True)
    assert ragged["labels"][:] == [[0, 2], [], [1]]
    assert hot["text"][:] == ROWS["text"]


def test_a_data_loader_pads_and_the_loss_is_that_of_the_dense_targets():
    ragged = EncodeLabels(NAMES, form="indices")(ROWS)["labels"]
    inputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    head = torch.nn.Linear(4, 3)
    pairs = list(zip(inputs, ragged, strict=True))
    ((x, indices),) = DataLoader(pairs, batch_size=3, collate_fn=collate_indices)
    dense = torch.tensor(EncodeLabels(NAMES)(ROWS)["labels"])
    torch.testing.assert_close(sparse_zlpr_loss(head(x), indices), zlpr_loss(head(x), dense))
    samples = [{"x": x, "labels": labels} for x, labels in pairs]
    (batch,) = DataLoader(samples, batch_size=3, collate_fn=collate_indices)
    assert torch.equal(batch["labels"], indices)
    assert torch.equal(batch["x"], inputs)


def test_padding_takes_what_holds_indices():
    assert pad_indices([]).shape == (0, 1)
    assert pad_indices([[], []]).tolist() == [[-1], [-1]]
    assert pad_indices([torch.tensor([1]), [0, 5]]).tolist() == [[1, -1], [0, 5]]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: pad_indices([[0.5]]), "labels of sample 0 are not whole numbers"),
        (lambda: pad_indices([[1], [-1]]), "labels of sample 1 are not whole numbers"),
        (lambda: pad_indices([3]), r"labels of sample 0 have the shape \(\)"),
        (lambda: EncodeLabels(["a", "a"]), "label_names holds 'a' twice"),
        (lambda: EncodeLabels(NAMES)({"labels": [["pink"]]}), "'pink', which is not among"),
        (lambda: EncodeLabels(NAMES)({"labels": ["red"]}), "expected a list of names"),
        (lambda: EncodeLabels(NAMES)({"tags": []}), "no column 'labels'; there are: tags"),
        (lambda: EncodeLabels(NAMES, form="hot"), "expected multi_hot or indices"),
        (lambda: collate_indices([{"x": 1}]), "sample 0 has no 'labels'; it has: x"),
    ],
)
def test_mistakes_are_one_line(call, line):
    with pytest.raises(UserError, match=line):
        call()


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: pad_indices([["a"]]), "sample 0 are no list of numbers: \\['a'\\]"),
        (lambda: pad_indices([[1], None]), "sample 1 are no list of numbers: None"),
        (lambda: collate_indices([]), "no sample"),
        (
            lambda: collate_indices([{"x": 1.0, "labels": [1]}, {"x": 2.0}]),
            "sample 1 has no 'labels'; it has: x",
        ),
        (lambda: EncodeLabels(["a"])({"labels": [None]}), "holds None, expected a list"),
        (lambda: EncodeLabels("ab"), "label_names 'ab': expected a list of names"),
    ],
)
def test_what_is_no_list_of_labels_is_refused_in_one_line(make, fault):
    with pytest.raises(UserError, match=fault):
        make()
