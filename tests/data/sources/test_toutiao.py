import pytest

from tests.data.sources.test_sources import FILES
from zlpr._errors import UserError
from zlpr.data.sources import prepare
from zlpr.data.sources.toutiao import SOURCE
from zlpr.data.statistics import describe


def test_labels_are_the_first_step_of_each_code():
    prepared = prepare("Toutiao", FILES / "toutiao")
    data = prepared.datasets["Toutiao"]
    assert data.ids == ["7001", "7002", "7003"]
    assert data.label_sets() == [("news_car", "news_tech"), ("digital",), ("news_food",)]
    assert prepared.left_out == {"no category": 1}
    assert describe(data)["all"].unit == "characters"


def test_what_is_not_known_of_the_papers_set_is_said():
    assert "142 categories" in SOURCE.not_known
    assert "659,870" in SOURCE.not_known


def test_the_list_of_categories_is_no_headline_file(tmp_path):
    (tmp_path / "all_cat.txt").write_text("news_car\n")
    with pytest.raises(UserError, match=r"all_cat\.txt, line 1: no '\|,\|'"):
        prepare("Toutiao", tmp_path)
    (tmp_path / "part.txt").write_text("1|,|news_car|,|自行车|,||,|\n", "utf-8")
    assert prepare("Toutiao", tmp_path).datasets["Toutiao"].texts == ["自行车"]


def test_a_cut_line_is_reported(tmp_path):
    (tmp_path / "mlc_dataset.txt").write_text("1|,|news_car|,|自行车|,||,|\n2|,|news\n", "utf-8")
    with pytest.raises(
        UserError, match=r"line 2: 2 fields divided by '\|,\|', expected at least 4"
    ):
        prepare("Toutiao", tmp_path)
