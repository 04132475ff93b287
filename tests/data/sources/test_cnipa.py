import pytest

from tests.data.sources.test_sources import FILES
from zlpr._errors import UserError
from zlpr.data.sources import prepare
from zlpr.data.statistics import describe


def test_labels_are_ipc_subclasses_and_designs_stay_out():
    prepared = prepare("CNIPA", FILES / "cnipa")
    titles, abstracts = prepared.datasets["CNIPA-Title"], prepared.datasets["CNIPA-Abstract"]
    assert titles.texts == ["一种水泵用软木密封圈", "折叠梯"]
    assert titles.label_sets() == [("F04D", "F16J"), ("E06C",)]
    assert titles.ids == ["CN101A", "CN102A"]
    assert "\n" in abstracts.texts[0]
    assert prepared.left_out == {"no IPC code": 1}
    assert describe(titles)["all"].mean_words == 6.5


def test_columns_can_be_named(tmp_path):
    (tmp_path / "table.csv").write_text("题名,内容,类\n梯子,可折叠。,E06C1/38\n", "utf-8")
    with pytest.raises(
        UserError, match=r"line 1: no column title.*题名, 内容, 类.*--column title="
    ):
        prepare("CNIPA", tmp_path)
    columns = {"title": "题名", "abstract": "内容", "ipc": "类"}
    data = prepare("CNIPA-Abstract", tmp_path, columns=columns).datasets["CNIPA-Abstract"]
    assert (data.texts, data.label_sets(), data.ids) == (["可折叠。"], [("E06C",)], ["table.csv:2"])
