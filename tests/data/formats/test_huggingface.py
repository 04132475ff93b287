import pytest

from zlpr._errors import UserError
from zlpr.data import load, read

datasets = pytest.importorskip("datasets", reason="needs the extra 'data'")


@pytest.fixture
def mood():
    features = datasets.Features(
        {
            "sentence": datasets.Value("string"),
            "labels": [datasets.ClassLabel(names=["joy", "anger", "fear"])],
        }
    )
    rows = {"sentence": ["好天气", "what now", "hm"], "labels": [[2, 0], [1], []]}
    return datasets.Dataset.from_dict(rows, features=features)


def test_a_saved_table(tmp_path, mood):
    mood.save_to_disk(tmp_path / "mood")
    for data in (load(tmp_path / "mood"), read(tmp_path / "mood", format="huggingface")):
        assert list(data.texts) == ["好天气", "what now", "hm"]
        assert data.label_names == ("joy", "anger", "fear")
        assert data.label_sets() == [("joy", "fear"), ("anger",), ()]
        assert data.split is None


def test_saved_parts(tmp_path, mood):
    parts = datasets.DatasetDict(train=mood, dev=mood.select([0]), unlabelled=mood)
    parts.save_to_disk(tmp_path / "mood")
    data = load(tmp_path / "mood")
    assert data.split.tolist() == ["train"] * 3 + ["validation"]
    assert "left out the part 'unlabelled'" in data.notes[0]


def test_all_parts_are_read_as_the_first_one(tmp_path):
    rows = {
        "headline": ["a few words"] * 2,
        "story": ["a few words and some more"] * 2,
        "labels": ["food, drink|hotel", "hotel"],
    }
    train = datasets.Dataset.from_dict(rows)
    other = {"headline": ["a longer headline"], "story": ["in short"], "labels": ["food, drink"]}
    test = datasets.Dataset.from_dict(other)
    datasets.DatasetDict(train=train, test=test).save_to_disk(tmp_path / "news")
    data = load(tmp_path / "news").part("test")
    assert list(data.texts) == ["in short"]
    assert data.label_sets() == [("food, drink",)]
    parts = datasets.DatasetDict(train=train, test=test.remove_columns("story"))
    parts.save_to_disk(tmp_path / "short")
    with pytest.raises(UserError, match="short, test part: no column 'story' for text"):
        load(tmp_path / "short")


def test_all_parts_have_the_same_features(tmp_path):
    train = datasets.Dataset.from_dict({"age": [3, 40], "colour": ["r", "g"], "old": [0, 1]})
    test = datasets.Dataset.from_dict({"age": [5, 60], "colour": ["1", "2"], "old": [0, 1]})
    datasets.DatasetDict(train=train, test=test).save_to_disk(tmp_path / "people")
    data = load(tmp_path / "people", features=["age", "colour"])
    assert data.label_names == ("old",)
    assert data.columns.features.numbers == ("age",)
    assert len(data) == 4


def test_a_name_on_the_hub(monkeypatch, mood):
    asked = []

    def load_dataset(*arguments):
        asked.append(arguments)
        return datasets.DatasetDict(train=mood, test=mood)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load("hf:somebody/mood:small").split.tolist() == ["train"] * 3 + ["test"] * 3
    assert len(load("hf:somebody/mood")) == 6
    assert asked == [("somebody/mood", "small"), ("somebody/mood", None)]


def test_a_hub_that_cannot_be_reached(monkeypatch):
    def load_dataset(*_):
        raise ConnectionError("Couldn't reach\nthe hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match=r"hf:a/b: cannot be loaded.*: Couldn't reach the hub$"):
        load("hf:a/b")


def test_a_folder_that_only_looks_saved(tmp_path):
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(UserError, match=r"state.json: expected the names of the data files"):
        load(tmp_path)


def test_bad_rows_are_numbered_as_rows(tmp_path):
    rows = {"text": ["a", None], "labels": [["x"], ["x"]]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "bad")
    with pytest.raises(UserError, match="row 2, column 'text': expected a text, got None"):
        load(tmp_path / "bad")


def test_ids_that_one_part_lacks_are_left_out_and_said(tmp_path):
    train = datasets.Dataset.from_dict({"text": ["x", "y"], "labels": ["a", "b"], "id": ["1", "2"]})
    test = datasets.Dataset.from_dict({"text": ["u", "v"], "labels": ["a", "b"]})
    datasets.DatasetDict(train=train, test=test).save_to_disk(tmp_path / "parts")
    data = load(tmp_path / "parts")
    assert len(data) == 4
    assert data.ids is None
    assert any("not every part has ids: left out" in note for note in data.notes)


def test_columns_and_groups_of_all_parts_are_those_of_the_first(tmp_path):
    first = {"nr": ["1", "2"], "story": ["wine", "bed"], "kind": [0, 3], "who": ["g1", "g2"]}
    train = datasets.Dataset.from_dict(first)
    test = datasets.Dataset.from_dict({"story": ["u", "v"], "nr": ["3", "4"], "kind": [0, 1]})
    datasets.DatasetDict(train=train, dev=train, test=test).save_to_disk(tmp_path / "parts")
    data = load(tmp_path / "parts", text=1, labels=2, group="who")
    assert list(data.texts) == ["wine", "bed", "wine", "bed", "u", "v"]
    assert data.part("test").label_sets() == [("0",), ("1",)]
    assert list(data.groups) == ["g1", "g2", "g1", "g2", "", ""]
