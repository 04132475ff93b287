from tests.data.sources.test_sources import FILES
from zlpr.data.sources import prepare


def test_titles_and_abstracts_share_six_fields():
    data = prepare("Archive", FILES / "archive").datasets
    titles, abstracts = data["Archive-Title"], data["Archive-Abstract"]
    assert titles.texts[0] == "Sorting socks in linear time"
    assert abstracts.texts[1] == 'Tea cools from the rim. We measure "rim loss" in nine cups.'
    assert titles.num_labels == 6
    assert titles.label_sets() == [
        ("Computer Science", "Mathematics"),
        ("Physics",),
        ("Statistics", "Quantitative Finance"),
    ]


def test_unlabelled_test_file_stays_aside():
    assert prepare("Archive-Title", FILES / "archive").datasets["Archive-Title"].ids == [
        "1",
        "2",
        "3",
    ]
