import argparse

from zlpr.cli import _reading


def arguments(*words):
    parser = argparse.ArgumentParser()
    _reading.add_reading_arguments(parser)
    return parser.parse_args(words)


def test_columns_by_name_or_position(tmp_path):
    (tmp_path / "a.csv").write_text("one,two,rude,spam\nhello,there,1,0\n")
    args = arguments("--text", "one", "--text", "1", "--labels", "rude", "--labels", "spam")
    data = _reading.load_data(str(tmp_path / "a.csv"), args)
    assert data.texts == ["hello there"]
    assert data.label_names == ("rude", "spam")
