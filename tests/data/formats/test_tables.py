import csv
import io

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import Dataset, files, read, write


def _read(tmp_path, content, name="a.csv", **how):
    path = tmp_path / name
    path.write_bytes(content.encode())
    return read(path, **how)


@pytest.mark.parametrize(
    ("cells", "delimiter"), [("a|b", "|"), ('"a,b"', ","), ("a;b", ";"), ('"a, b"', ",")]
)
def test_the_delimiter_of_labels_is_found(tmp_path, cells, delimiter):
    content = f"text,labels\nx,{cells}\ny,b\nz,\n"
    expected = [("a", "b"), ("b",), ()]
    assert _read(tmp_path, content).label_sets() == expected
    assert _read(tmp_path, content, label_delimiter=delimiter).label_sets() == expected


def test_a_surer_delimiter_leaves_the_others_to_the_names(tmp_path):
    data = _read(tmp_path, 'text,labels\nx,"food, drink|travel"\ny,travel\n')
    assert data.label_names == ("food, drink", "travel")


def test_one_label_per_cell_when_said_so(tmp_path):
    data = _read(tmp_path, 'text,labels\nx,"food, drink"\ny,"[a]"\n', label_delimiter="")
    assert data.label_names == ("[a]", "food, drink")


def test_lists_in_cells_as_json_and_as_python_prints_them(tmp_path):
    data = _read(tmp_path, 'text,labels\nx,"[\'a\', \'b, c\']"\ny,"[""a"", 3]"\nz,[]\n')
    assert data.label_sets() == [("a", "b, c"), ("3", "a"), ()]


@pytest.mark.parametrize("cell", ["[a]", "[__import__('os')]", "[1.5]", "[{}]"])
def test_brackets_that_hold_no_list_of_labels(tmp_path, cell):
    with pytest.raises(UserError, match=r"line 2, column 'labels': expected"):
        _read(tmp_path, f'text,labels\nx,"{cell}"\n')


def test_a_delimiter_that_first_shows_late_is_refused_not_read_as_a_name(tmp_path):
    content = "text,labels\n" + "x,a\n" * 5000 + "y,a|b\n"
    with pytest.raises(UserError, match=r"line 5002, column 'labels': 'a\|b' has a '\|', but the"):
        _read(tmp_path, content)
    data = _read(tmp_path, content, label_delimiter="|")
    assert data.label_sets()[-1] == ("a", "b")


def test_a_column_per_label(tmp_path):
    content = "id,text,rude,spam,score\n7,hello,0,1,5\n8,bye,1,1,3\n9,hm,0,0,0\n"
    data = _read(tmp_path, content)
    assert data.label_names == ("rude", "spam")
    assert data.label_sets() == [("spam",), ("rude", "spam"), ()]
    assert data.ids == ["7", "8", "9"]
    assert _read(tmp_path, content, labels=["spam"]).label_names == ("spam",)
    with pytest.raises(UserError, match=r"line 2, column 'score': expected 0 or 1, got '5'"):
        _read(tmp_path, content, labels=["spam", "score"])


def test_a_label_column_of_zeros_and_ones_is_a_column_of_names(tmp_path):
    assert _read(tmp_path, "text,label\nx,0\ny,1\n").label_names == ("0", "1")


def test_quoted_line_breaks_count_as_lines(tmp_path):
    content = 'text,labels\n"one\ntwo\r\nthree",a\n"four",b\nfive\n"six\n\n",c,d\n'
    data = _read(tmp_path, content, skip_bad_rows=True)
    assert list(data.texts) == ["one\ntwo\r\nthree", "four"]
    assert "line 6: 1 column, expected 2 (text, labels)" in data.notes[0]
    assert "line 7: 3 columns, expected 2 (text, labels)" in data.notes[0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"a"b,c', "line 3: not a row of a table: ',' expected after '\"'"),
        ("a", r"line 3: 1 column, expected 2 \(text, labels\)"),
        ("a,b,c", r"line 3: 3 columns, expected 2 \(text, labels\)"),
    ],
)
def test_a_bad_row(tmp_path, row, message):
    with pytest.raises(UserError, match=f"a.csv, {message}"):
        _read(tmp_path, f"text,labels\nx,y\n{row}\nz,w\n")
    assert len(_read(tmp_path, f"text,labels\nx,y\n{row}\nz,w\n", skip_bad_rows=True)) == 2


def test_a_quote_that_is_never_closed_is_found_where_it_opens(tmp_path):
    content = 'text,labels\nx,a\n"y,b\n' + "z,c\n" * 100
    with pytest.raises(UserError, match=r"line 3: .*unexpected end of data.*\(read to line 103\)"):
        _read(tmp_path, content)


def test_huge_fields_up_to_the_limit(tmp_path, monkeypatch):
    huge = "x" * 1_000_000  # the csv module alone stops at 131,072
    assert len(_read(tmp_path, f'text,labels\n"{huge}",a\n').texts[0]) == 1_000_000
    monkeypatch.setattr(files, "MAX_LINE", 500_000)
    with pytest.raises(UserError, match="line 2: longer than 500,000 characters"):
        _read(tmp_path, f'text,labels\n"{huge}",a\n')


def test_against_the_csv_module_on_awkward_fields(tmp_path):
    rows = [['say "hi"', "a"], ["x,y", "b"], ["l1\nl2", "a|b"], [" spaced ", ""], ["", "a"]]
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["text", "labels"], *rows])
    data = _read(tmp_path, stream.getvalue())
    assert list(data.texts) == [text for text, _ in rows]


def test_semicolons_between_columns(tmp_path):
    data = _read(tmp_path, "text;labels\nhello, you;a|b\n")
    assert list(data.texts) == ["hello, you"]
    assert data.label_sets() == [("a", "b")]


def test_positions_instead_of_a_header(tmp_path):
    content = 'a text with "quotes" in it\t0,2\tid1\n"unbalanced\t1\tid2\n\n"x" y\t\tid3\n'
    names = ["joy", "anger", "fear"]
    data = _read(tmp_path, content, "a.tsv", text=0, labels=1, id=2, label_names=names)
    assert list(data.texts) == ['a text with "quotes" in it', '"unbalanced', '"x" y']
    assert data.label_sets() == [("joy", "fear"), ("anger",), ()]
    assert data.ids == ["id1", "id2", "id3"]


def test_a_position_that_does_not_exist(tmp_path):
    with pytest.raises(UserError, match="labels=5 is not a column; there are 2, counted from 0"):
        _read(tmp_path, "x\ta\n", "a.tsv", text=0, labels=5)


def test_a_table_whose_header_cannot_be_told(tmp_path):
    with pytest.raises(UserError, match=r"a.csv, line 1: is this a header\? None of 'q', 'r'"):
        _read(tmp_path, "q,r\nx,a\n")
    assert _read(tmp_path, "q,r\nx,a\n", text="q", labels="r").label_sets() == [("a",)]
    assert _read(tmp_path, "q,r\nx,a\n", text=0, labels=1).label_sets() == [("r",), ("a",)]


@pytest.mark.parametrize(
    "content", ["{0},r\nx,a\n", "text,{0}\nx,a\n", "{0}\tlabel\nx,a\n", "text,{0}\nx,1\ny,7\n"]
)
def test_a_refusal_is_short_where_a_columns_name_is_not(tmp_path, content):
    for how in ({}, {"text": "w" * 5000}):
        with pytest.raises(UserError) as refused:
            _read(tmp_path, content.format("long name " * 500), **how)
        assert len(str(refused.value).removeprefix(str(tmp_path))) < 400


@pytest.mark.parametrize("sign", [";", ",", "\t"])
def test_the_line_by_which_excel_is_told_the_separator(tmp_path, sign):
    rows = [("text", "labels"), ("a; long, text", "x|y"), ("b", "")]
    lines = [sign.join(f'"{cell}"' for cell in row) for row in rows]
    data = _read(tmp_path, "\r\n".join([f"sep={sign}", *lines, ""]))
    assert list(data.texts) == ["a; long, text", "b"]
    assert data.label_sets() == [("x", "y"), ()]
    with pytest.raises(UserError, match="line 5: 1 column, expected 2"):
        _read(tmp_path, "\n".join([f"sep={sign}", *lines, "c"]))


def test_carriage_returns_alone_end_no_line(tmp_path):
    with pytest.raises(UserError, match=r"line 1: .*carriage return within a line; save the file"):
        _read(tmp_path, "text,labels\rx,a\ry,b\r")


def test_tsv_in_the_quoting_of_spreadsheets(tmp_path):
    data = _read(tmp_path, 'text\tlabels\n"say ""hi""\tall"\ta\nplain\tb\n', "a.tsv")
    assert list(data.texts) == ['say "hi"\tall', "plain"]


def test_tsv_quotes_that_first_show_late_are_refused(tmp_path):
    content = "text\tlabels\n" + "plain words here\ta\n" * 30_000 + '"quoted"\tb\n'
    with pytest.raises(UserError, match=r"line 30002: a field begins with a double quote.*quoted="):
        _read(tmp_path, content, "a.tsv")
    assert _read(tmp_path, content, "a.tsv", quoted=True).texts[-1] == "quoted"
    assert _read(tmp_path, content, "a.tsv", quoted=False).texts[-1] == '"quoted"'


def test_small_tables_with_tabs_quotes_and_line_breaks_come_back(tmp_path):
    """As `write` has them, and as the csv module writes the least of quotes."""
    draw = np.random.default_rng(0)
    path = tmp_path / "a.tsv"
    for _ in range(300):
        pieces = ["a", "\t", '"', "\n", " ", "x y", "\r"]
        texts = ["".join(draw.choice(pieces, draw.integers(9))) for _ in range(3)]
        labels = [["u"], draw.permutation(["u", "v w", 'q"r'])[:2].tolist(), []]
        write(Dataset.from_label_sets(labels, texts=texts), path)
        assert list(read(path).texts) == texts
        texts = [text.replace("\r", "") for text in texts]
        with path.open("w", newline="") as stream:
            table = csv.writer(stream, delimiter="\t", lineterminator="\n")
            rows = zip(texts, map("|".join, labels), strict=True)
            table.writerows([["text", "labels"], *rows])
        data = read(path)
        assert (list(data.texts), data.label_sets()[1]) == (texts, tuple(sorted(labels[1])))


def test_a_cell_of_several_lines_with_as_many_tabs_as_a_row(tmp_path):
    content = "text\tlabels\n" + "plain words\ta\n" * 30 + '"Name:\tBob\nsoup was cold"\tb\n'
    data = _read(tmp_path, content, "a.tsv")
    assert list(data.texts[-2:]) == ["plain words", "Name:\tBob\nsoup was cold"]
    assert "line 32: a cell in quotes was read as going over 2 lines" in data.notes[0]


def test_a_pair_of_quotes_over_lines_that_end_in_labels_is_text(tmp_path):
    rows = ["plain words\ta", '"he came in\tb', "and left\ta", 'for good"\tb', "more words\tb"]
    data = _read(tmp_path, "text\tlabels\n" + "\n".join(rows) + "\n", "a.tsv")
    assert data.texts[1:4] == ['"he came in', "and left", 'for good"']
    assert not data.notes


def test_lines_that_could_be_rows_or_a_long_cell_are_refused(tmp_path):
    rows = [f"words {place}\tonly {place}" for place in range(30)]
    rows[5], rows[25] = f'"{rows[5]}', 'words"\tonly 25'
    content = "text\tlabels\n" + "\n".join(rows) + "\n"
    with pytest.raises(UserError, match=r"line 7: a field begins with a double quote.*quoted="):
        _read(tmp_path, content, "a.tsv")
    assert len(_read(tmp_path, content, "a.tsv", quoted=True)) == 10
    assert len(_read(tmp_path, content, "a.tsv", quoted=False)) == 30


def test_a_row_of_words_above_columns_by_position_is_said(tmp_path):
    data = _read(tmp_path, "Inhalt\tArt\nein langer Satz\tx\n", "a.tsv", text=0, labels=1)
    assert data.label_names == ("Art", "x")
    assert data.notes[0].endswith(
        "line 1: 'Inhalt', 'Art' was read as a row, for columns are given by position; where it "
        "names them, say so (header=True, --header)"
    )
    for first, header in (("ein langer Satz mit Punkt\ty", None), ("Inhalt\tArt", False)):
        content = f"{first}\nein langer Satz\tx\n"
        data = _read(tmp_path, content, "a.tsv", text=0, labels=1, header=header)
        assert not data.notes


def test_which_column_holds_the_text(tmp_path):
    content = "label,heading,lead\na,x,y\n"
    message = "which column holds the text.*'label', 'heading', 'lead'; name it, as text='heading'"
    with pytest.raises(UserError, match=message):
        _read(tmp_path, content)
    assert list(_read(tmp_path, content, text=["heading", "lead"]).texts) == ["x y"]


def test_which_column_holds_the_labels(tmp_path):
    with pytest.raises(UserError, match=r"which column holds the labels.*name it, as labels="):
        _read(tmp_path, "text,mood\nx,good\n")


def test_a_column_that_appears_twice(tmp_path):
    with pytest.raises(UserError, match="line 1: the column 'text' appears twice"):
        _read(tmp_path, "text,text,labels\nx,y,a\n")


def test_a_header_of_a_hundred_thousand_labels(tmp_path):
    names = [f"l{i}" for i in range(100_000)]
    cells = ["1" if i in (7, 99_999) else "0" for i in range(100_000)]
    content = ",".join(["text", *names]) + "\n" + ",".join(["x", *cells]) + "\n"
    data = _read(tmp_path, content)
    assert data.labels.shape == (1, 100_000)
    assert data.label_sets() == [("l7", "l99999")]


def test_a_header_alone(tmp_path):
    with pytest.raises(UserError, match=r"a.csv: no rows"):
        _read(tmp_path, "text,labels\n")


def test_chinese_columns_and_labels(tmp_path):
    data = _read(tmp_path, "标签,内容\n家电-坏|厨房,水壶漏水\n", labels="标签")
    assert list(data.texts) == ["水壶漏水"]
    assert data.label_sets() == [("厨房", "家电-坏")]


def test_tabs_separate_the_columns_of_what_is_called_tsv(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("text, if any, of it\tlabels\nhello, world, yes\ta\n")
    data = read(path, format="tsv", text=0)
    assert data.texts == ["hello, world, yes"]
    assert data.label_sets() == [("a",)]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_blank_line_of_a_single_column_is_an_empty_text(tmp_path, name):
    path = tmp_path / name
    path.write_text("\ntext\nball\n\nsoup\n")
    assert read(path, labelled=False).texts == ["ball", "", "soup"]
    separator = "," if name == "a.csv" else "\t"
    path.write_text(f"text{separator}labels\n\nball{separator}a\n\n")
    assert read(path).texts == ["ball"]


def test_lists_with_blanks_around_them_are_lists(tmp_path):
    content = "text;labels\nx; ['a', 'b']\ny;['b'] \nz; []\n"
    assert _read(tmp_path, content).label_sets() == [("a", "b"), ("b",), ()]


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_blank_lines_before_the_header_show_no_separator(tmp_path, separator):
    content = "\n\ntext,labels\nx,a|b\ny,b\n".replace(",", separator)
    assert _read(tmp_path, content).label_sets() == [("a", "b"), ("b",)]


def test_fields_in_quotes_behind_a_blank(tmp_path):
    content = 'id, text, labels\n1, "good, but far", "room;staff"\n2, bad, food\n'
    data = _read(tmp_path, content)
    assert data.label_sets() == [("room", "staff"), ("food",)]
    assert list(data.texts) == ["good, but far", "bad"]


def test_quotes_that_end_up_in_a_label_are_noted(tmp_path):
    data = _read(tmp_path, 'text,labels\ngood, "room;staff"\nbad,food\n')
    assert any("holds a quote of a cell" in note for note in data.notes)


def test_names_as_before_are_a_header_though_columns_are_numbered(tmp_path):
    (tmp_path / "a.csv").write_text("nr,t,l\n7,good soup,a\n8,cold soup,b\n")
    before = read(tmp_path / "a.csv", text="t", labels="l").columns
    again = read(tmp_path / "a.csv", text=1, id=0, labelled=False, like=before)
    assert (again.texts, again.ids) == (["good soup", "cold soup"], ["7", "8"])
    (tmp_path / "b.csv").write_text("7,good soup\n8,cold soup\n")
    bare = read(tmp_path / "b.csv", text=1, id=0, labelled=False, like=before)
    assert (bare.texts, bare.ids) == (["good soup", "cold soup"], ["7", "8"])


def test_features_as_before_are_a_header_though_columns_are_numbered(tmp_path):
    (tmp_path / "a.csv").write_text("nr,age,size,tall\n7,1,2,0\n8,3,4,1\n")
    before = read(tmp_path / "a.csv", features=["age", "size"], labels=["tall"]).columns
    again = read(tmp_path / "a.csv", id=0, labelled=False, like=before)
    assert (again.features.tolist(), again.ids) == ([[1, 2], [3, 4]], ["7", "8"])
