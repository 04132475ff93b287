import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import Dataset, Hierarchy, files_behind, load
from zlpr.data.hierarchy import MOST_LINKS

LINKS = "label,parent\nfootball,ball games\nball games,sports\nball games,games\n"


@pytest.fixture
def links(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text(LINKS)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("links.csv", LINKS),
        ("links.csv", LINKS.partition("\n")[2]),
        ("links.csv", "Parent,Child\nball games,football\nsports,ball games\ngames,ball games\n"),
        ("links.tsv", LINKS.replace(",", "\t") + "\n\nfootball\tball games\n"),
        ("links.csv", LINKS.replace("ball games", '"ball games"')),
    ],
)
def test_links_are_read_with_or_without_a_header(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert Hierarchy.read(tmp_path / name).parents == {
        "football": ("ball games",),
        "ball games": ("sports", "games"),
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\nc,c\n", r"links\.csv, line 2: 'c' is its own parent"),
        ("a,b\nb,c\nc,a\nd,a\n", r"links\.csv, line \d: '.' is its own ancestor \('.' > '.' > '.'"),
        ("a,b\nc\n", r"links\.csv, line 2: 1 column, expected 2 \(label, parent\)"),
        ("a,b,c\n", r"line 1: 3 columns, .* a name that holds a comma stands in double quotes"),
        ("a,b\nc,\n", r"line 2: the parent is empty"),
        (",b\n", r"line 1: the label is empty"),
        ('a,"b\n', r"line 1: unexpected end of data"),
        ("label,parent\n", r"links\.csv: no links"),
    ],
)
def test_what_is_no_link_is_refused_with_its_line(tmp_path, text, words):
    path = tmp_path / "links.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        Hierarchy.read(path)


def test_a_file_with_too_many_links_is_refused(links, monkeypatch):
    assert MOST_LINKS > 10**7
    monkeypatch.setattr("zlpr.data.hierarchy.MOST_LINKS", 2)
    with pytest.raises(UserError, match="more than 2 links"):
        Hierarchy.read(links)


def test_names_spell_a_hierarchy_out():
    made = Hierarchy.by_separator(["Sports > Football", "Sports > Ball > Hand", "Cooking"], ">")
    assert made.parents == {
        "Sports > Football": ("Sports",),
        "Sports > Ball > Hand": ("Sports > Ball",),
        "Sports > Ball": ("Sports",),
    }
    for names, mark, words in (
        (["a//b"], "/", r"label 'a//b': nothing on one side of '/'"),
        (["/a"], "/", r"label '/a': nothing"),
        (["a b"], " ", "needs a character that is no space"),
    ):
        with pytest.raises(UserError, match=words):
            Hierarchy.by_separator(names, mark)


def test_deep_names_and_chains_need_no_recursion():
    name = "/".join(["x"] * 10_000)
    assert len(Hierarchy.by_separator([name], "/").parents) == 9_999
    chain = Hierarchy({str(i): (str(i + 1),) for i in range(10_000)})
    assert len(chain.with_ancestors(["0"])) == 10_001
    assert chain.cycle() == []


def test_numbers_and_names_are_the_same_hierarchy(links):
    made = Hierarchy.read(links)
    names = made.with_ancestors(["football", "chess"])
    assert names == ("football", "chess", "ball games", "games", "sports")
    assert made.numbered(names) == [[2], [], [4, 3], [], []]
    assert Hierarchy.of_numbers(names, made.numbered(names)) == made
    assert made.joined(Hierarchy({"chess": ("games",)})).parents == {
        **made.parents,
        "chess": ("games",),
    }


def test_data_is_closed_upwards_once(links):
    data = Dataset.from_label_sets([{"football"}, {"chess"}, set()], texts=list("abc"))
    closed = data.with_ancestors(Hierarchy.read(links))
    assert closed.label_sets() == [("football", "ball games", "games", "sports"), ("chess",), ()]
    assert closed.label_names[: data.num_labels] == data.label_names
    again = closed.with_ancestors(Hierarchy.read(links))
    assert again.label_names == closed.label_names
    assert (again.labels != closed.labels).nnz == 0
    assert closed.select([1]).hierarchy is closed.hierarchy
    with pytest.raises(UserError, match="is its own ancestor"):
        data.with_ancestors(Hierarchy({"football": ("chess",), "chess": ("football",)}))


def test_load_closes_and_says_what_it_adds(tmp_path, links, caplog):
    table = tmp_path / "texts.csv"
    table.write_text("text,labels\na kick,football\na move,chess\n")
    data = load(table, hierarchy=links)
    assert data.label_sets()[0] == ("football", "ball games", "games", "sports")
    assert "adds 3 ancestors that were no labels: 'ball games', 'games', 'sports'" in caplog.text
    assert files_behind(table, hierarchy=str(links)) == [table, links]
    other = tmp_path / "other.csv"
    other.write_text("cricket,sports\n")
    with pytest.raises(UserError, match=r"other\.csv: gives none of 2 labels of .* a parent"):
        load(table, hierarchy=other)
    with pytest.raises(UserError, match="'/' stands in none of 2 labels"):
        load(table, hierarchy_separator="/")
    for part in ({"hierarchy": other}, {"hierarchy_separator": "/"}):  # of data that has links
        assert load(table, **part, may_be_flat=True).label_names == ("chess", "football")
    with pytest.raises(UserError, match="give one of them"):
        load(table, hierarchy=links, hierarchy_separator="/")
    table.write_text("text,labels\na kick,Sports/Football\na move,Chess\n")
    assert load(table, hierarchy_separator="/").label_sets()[0] == ("Sports/Football", "Sports")
    assert np.asarray(load(table).labels.sum()) == 2
