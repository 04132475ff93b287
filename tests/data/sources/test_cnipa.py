import gzip

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


def test_a_file_that_is_no_part_beside_parts_is_refused(tmp_path):
    """Divided anew with them, the publisher's test rows would be trained on."""
    for name in ("train.csv", "test.csv.gz", "claims2023.csv"):
        with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wt") as file:
            file.write("title,abstract,ipc\nladder,folds,E06C1/38\n")
    for source in ("CNIPA", "USPTO"):
        with pytest.raises(UserError, match=r"test.csv, train.csv are parts .* claims2023.csv is"):
            prepare(source, tmp_path)
    (tmp_path / "claims2023.csv").unlink()
    assert sorted(prepare("CNIPA", tmp_path).datasets["CNIPA-Title"].split) == ["test", "train"]
