"""Batches hold every sample once, whatever the number of processes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny
from zlpr.models.tokens import Padding, TokenizedTexts
from zlpr.training.batches import (
    FILLER,
    FilledCollator,
    FilledRows,
    GlobalBatches,
    LabelledTexts,
    PaddedBatches,
)

LENGTHS = np.random.default_rng(0).integers(1, 40, size=1000)


def shares(processes: int, **options: object) -> list[list[list[int]]]:
    """Per process its batches of an epoch."""
    everyone = range(processes)
    samplers = [
        GlobalBatches(num_processes=processes, process_index=i, **options) for i in everyone
    ]
    return [list(sampler) for sampler in samplers]


@settings(max_examples=60, deadline=None)
@given(
    samples=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    processes=st.integers(1, 4),
    accumulation_steps=st.integers(1, 3),
    seed=st.integers(0, 5),
    grouped=st.booleans(),
)
def test_a_step_holds_the_same_samples_however_it_is_shared(
    samples: int, batch_size: int, processes: int, accumulation_steps: int, seed: int, grouped: bool
) -> None:
    options = {
        "num_samples": samples,
        "batch_size": batch_size,
        "seed": seed,
        "lengths": LENGTHS[:samples] if grouped else None,
    }
    whole = shares(1, **options)[0]
    parts = shares(processes, accumulation_steps=accumulation_steps, **options)
    assert len({len(batches) for batches in parts}) == 1
    sampler = GlobalBatches(**options, accumulation_steps=accumulation_steps)  # type: ignore[arg-type]
    assert len(sampler) == len(parts[0])
    for step, batch in enumerate(whole):
        passes = range(step * accumulation_steps, (step + 1) * accumulation_steps)
        pieces = [part[i] for i in passes for part in parts]
        assert len({len(piece) for piece in pieces}) == 1
        assert sorted(row for piece in pieces for row in piece if row >= 0) == sorted(batch)
        assert {-1 - row for piece in pieces for row in piece if row < 0} <= set(batch)
    assert sorted(row for batch in whole for row in batch) == list(range(samples))


def test_epochs_differ_and_come_back() -> None:
    sampler = GlobalBatches(50, 8, seed=1, lengths=LENGTHS[:50])
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    sampler.set_epoch(0)
    assert list(sampler) == first != second


def test_grouping_by_length_leaves_little_padding() -> None:
    def cells(batches: list[list[int]]) -> int:
        return sum(len(batch) * LENGTHS[batch].max() for batch in batches)

    grouped = cells(list(GlobalBatches(1000, 16, lengths=LENGTHS)))
    shuffled = cells(list(GlobalBatches(1000, 16)))
    assert grouped < 1.15 * LENGTHS.sum() < shuffled


def test_a_batch_is_as_wide_as_its_own_longest_text() -> None:
    texts = TokenizedTexts(np.arange(1, 10, dtype=np.int32), np.array([0, 2, 5, 9]))
    data = LabelledTexts(texts, tiny.texts(3).labels)
    batch = PaddedBatches(Padding(token=0))([data[0], data[1]])
    assert batch["input_ids"].tolist() == [[1, 2, 0], [3, 4, 5]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["labels"].dtype == torch.bool
    assert batch["labels"].tolist() == data.labels[:2].toarray().tolist()


def test_padding_goes_where_the_tokenizer_wants_it() -> None:
    texts = TokenizedTexts(
        np.array([1, 2, 3, 4], np.int32), np.array([0, 1, 4]), np.array([0, 0, 0, 1], np.int32)
    )
    batch = Padding(token=9, segment=3, left=True, multiple=4).batch(texts, np.array([0, 1]))
    assert batch["input_ids"].tolist() == [[9, 9, 9, 1], [9, 2, 3, 4]]
    assert batch["token_type_ids"].tolist() == [[3, 3, 3, 0], [3, 0, 0, 1]]
    assert batch["attention_mask"].tolist() == [[0, 0, 0, 1], [0, 1, 1, 1]]


def test_sorting_by_length_keeps_texts_and_labels_together() -> None:
    texts = TokenizedTexts(np.array([5, 6, 6, 7, 7, 7], np.int32), np.array([0, 1, 3, 6]))
    labels = tiny.texts(3).labels
    data = LabelledTexts(texts, labels).longest_first()
    assert data.lengths.tolist() == [3, 2, 1]
    assert data.texts.tokens.tolist() == [7, 7, 7, 6, 6, 5]
    assert (data.labels.toarray() == labels.toarray()[::-1]).all()
    with pytest.raises(IndexError):
        data[3]


def test_rows_that_fill_up_are_marked() -> None:
    rows = FilledRows([{"x": 10}, {"x": 11}])
    collate = FilledCollator(lambda items: {"x": torch.tensor([item["x"] for item in items])})
    batch = collate(rows.__getitems__([1, -2]))
    assert batch["x"].tolist() == [11, 11]
    assert batch[FILLER].tolist() == [False, True]
    assert FILLER not in collate(rows.__getitems__([0, 1]))
