"""What is kept of an ARFF file's attributes, and what stands for it where it is too much."""

import json

from zlpr.data import Columns
from zlpr.data.feature_attributes import MOST_CHARACTERS, FeatureAttributes

SONGS = [("tempo", None), ("key", ("minor", "major"))]


def test_names_and_values_survive_json():
    columns = Columns("mulan", num_features=2, attributes=FeatureAttributes.of(SONGS))
    again = Columns.from_json(json.loads(json.dumps(columns.to_json())))
    assert again == columns
    assert again.attributes.names == ("tempo", "key")
    assert again.attributes.values == {"key": ("minor", "major")}


def test_a_digest_of_the_order_stands_for_repeated_names():
    first = FeatureAttributes.of([*SONGS, ("tempo", None)])
    assert first.digest is not None
    assert (first.names, first.values) == ((), {})
    assert first == FeatureAttributes.of([*SONGS, ("tempo", None)])
    assert first != FeatureAttributes.of([SONGS[1], SONGS[0], ("tempo", None)])
    assert first != FeatureAttributes.of([SONGS[0], ("key", ("major", "minor")), SONGS[0]])


def test_a_digest_stands_for_names_and_values_that_are_too_long():
    half = "x" * (MOST_CHARACTERS // 2)
    assert FeatureAttributes.of([(half, None), ("y" + half[1:], None)]).digest is None
    assert FeatureAttributes.of([(half, None), ("y" + half, None)]).digest is not None
    assert FeatureAttributes.of([("k", (half, half, "z"))]).digest is not None
