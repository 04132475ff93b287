from tests.data.sources.test_sources import FILES
from zlpr.data.sources import prepare
from zlpr.data.sources.toxic import LABELS


def test_comments_keep_their_lines_and_empty_sets():
    data = prepare("Toxic", FILES / "toxic").datasets["Toxic"]
    assert data.label_names == LABELS
    assert data.ids == ["0001aa", "0002bb", "0003cc", "0004dd"]
    assert data.texts[1].endswith("silly goose.\n\nGo away.")
    assert '"citation needed"' in data.texts[2]
    assert data.label_sets() == [(), ("toxic", "insult"), (), ("toxic", "threat")]
