import shutil

import pytest

from tests.data.sources.test_sources import FILES
from zlpr._errors import UserError
from zlpr.data.sources import prepare


def test_films_with_plot_and_metadata():
    prepared = prepare("CMU-Movie", FILES / "cmu-movie")
    names, plots = prepared.datasets["Movie-Name"], prepared.datasets["Movie-Summary"]
    assert names.ids == ["102", "101", "103", "104"]
    assert names.texts[0] == "Night Ferry"
    assert plots.texts[0] == "A ferry loses its captain on a foggy night."
    assert prepared.left_out == {"plot of a film without metadata": 1}


def test_genres_are_told_apart_by_their_id():
    data = prepare("Movie-Name", FILES / "cmu-movie").datasets["Movie-Name"]
    assert data.label_sets() == [
        ("Film à clef", "Thriller"),
        ("Comedy (/m/g1)", "Drama"),
        (),
        ("Comedy (/m/g5)",),
    ]


@pytest.mark.parametrize(
    ("file", "row", "problem"),
    [
        ("movie.metadata.tsv", "1\t2\t3\n", "line 6: 3 columns, expected 9"),
        ("movie.metadata.tsv", "1\t2\tName\t\t\t\t{}\t{}\tDrama\n", "line 6, column 9: expected"),
        ("movie.metadata.tsv", '1\t2\tName\t\t\t\t{}\t{}\t["a"]\n', "line 6, column 9: expected"),
        ("plot_summaries.txt", "no tab\n", "line 6: 1 column, expected 2"),
    ],
)
def test_bad_rows_are_reported(file, row, problem, tmp_path):
    shutil.copytree(FILES / "cmu-movie", tmp_path, dirs_exist_ok=True)
    with (tmp_path / file).open("a") as handle:
        handle.write(row)
    with pytest.raises(UserError, match=f"{file}, {problem}"):
        prepare("Movie-Name", tmp_path)
