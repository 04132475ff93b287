"""Which column means what: texts by name or by length, labels as sets or as 0 and 1."""

import json

import pytest

from zlpr._errors import UserError
from zlpr.data import Dataset, read, write


def _csv(tmp_path, rows, header="text,l1,l2,l3"):
    path = tmp_path / "a.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize("place", [0, 1, 5, 2500])
@pytest.mark.parametrize("bad", ["9", "", "yes"])
def test_one_bad_cell_of_a_column_of_zeros_and_ones_is_one_error(tmp_path, place, bad):
    rows = [f"text {i},0,{i % 2},1" for i in range(3000)]
    rows[place] = f"text,0,{bad},1"
    path = _csv(tmp_path, rows)
    with pytest.raises(UserError, match=rf"line {place + 2}, column 'l2': expected 0 or 1, got"):
        read(path)
    data = read(path, skip_bad_rows=True)
    assert data.label_names == ("l1", "l2", "l3")
    assert len(data) == 2999


@pytest.mark.parametrize("size", [1, 2, 3])
def test_so_it_is_in_the_smallest_tables(tmp_path, size):
    rows = [f"text {i},0,1,1" for i in range(size)]
    rows[0] = "text,0,9,1"
    with pytest.raises(UserError, match="column 'l2': expected 0 or 1, got '9'"):
        read(_csv(tmp_path, rows))


def test_a_cell_that_is_missing_in_json_is_the_same_error(tmp_path):
    rows = [{"text": f"t {i}", "l1": 1, "l2": i % 2} for i in range(20)]
    del rows[0]["l2"]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match="line 1, column 'l2': expected 0 or 1, got nothing"):
        read(tmp_path / "a.jsonl")


def test_a_gap_that_made_a_column_of_numbers_with_a_point_is_the_same_error(tmp_path):
    pandas = pytest.importorskip("pandas")
    gap = [1, 0, 1, None, 1, 0]
    table = pandas.DataFrame({"text": list("abcdef"), "l1": [1, 0] * 3, "l2": gap})
    table.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(UserError, match="row 4, column 'l2': expected 0 or 1, got"):
        read(tmp_path / "a.parquet")


def test_one_named_column_of_zeros_and_ones_with_a_gap(tmp_path):
    rows = [f"text {i},{i % 2}" for i in range(20)]
    rows[3] = "text,"
    path = _csv(tmp_path, rows, "text,toxic")
    with pytest.raises(UserError, match="line 5, column 'toxic': expected 0 or 1, got ''"):
        read(path, labels="toxic")
    assert read(path, labels="toxic", label_delimiter="").label_names == ("0", "1")


@pytest.mark.parametrize("every", [2, 5, 20])
def test_any_number_of_blank_cells_in_one_named_column_are_as_many_errors(tmp_path, every):
    rows = [f"text {i}," + ("" if i % every == 0 else str(i % 3 % 2)) for i in range(200)]
    path = _csv(tmp_path, rows, "text,toxic")
    with pytest.raises(UserError, match=f"{200 // every} bad rows.*expected 0 or 1") as raised:
        read(path, labels="toxic")
    assert str(raised.value).count("0 and 1 are names of labels") == 1
    assert read(path, labels="toxic", label_delimiter="").label_names == ("0", "1")
    data = read(path, labels="toxic", skip_bad_rows=True)
    assert data.label_names == ("toxic",)
    assert len(data) == 200 - 200 // every


def test_one_named_column_of_few_class_numbers_holds_names(tmp_path):
    path = _csv(tmp_path, [f"text {i},{i % 3}" for i in range(30)], "text,kind")
    assert read(path, labels="kind").label_names == ("0", "1", "2")


@pytest.mark.parametrize("labels", [None, "kind"])
def test_one_column_is_of_zeros_and_ones_as_it_was_in_the_data_before(tmp_path, labels):
    classes = [f"text {i},{i % 4}" for i in range(40)]
    first = read(_csv(tmp_path, classes, "text,kind"), labels="kind")
    two = _csv(tmp_path, ["x,1", "y,0"], "text,kind")
    assert read(two, labels=labels, like=first.columns).label_sets() == [("1",), ("0",)]
    flags = read(_csv(tmp_path, ["x,1", "y,0"], "text,kind"), labels="kind")
    assert flags.label_sets() == [("kind",), ()]
    with pytest.raises(UserError, match=r"20 bad rows: .*'kind': expected 0 or 1, got '2'"):
        read(_csv(tmp_path, classes, "text,kind"), labels=labels, like=flags.columns)
    path = _csv(tmp_path, classes, "text,kind")
    names = read(path, labels="kind", label_delimiter="", like=flags.columns)
    assert names.label_names == first.label_names


@pytest.mark.parametrize("cells", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_one_named_column_of_true_and_false(tmp_path, cells):
    rows = [f"text {i},{cells[i % 2]},{cells[i % 3 > 0]}" for i in range(20)]
    path = _csv(tmp_path, rows, "text,toxic,rude")
    data = read(path, labels="toxic")
    assert data.label_sets() == [() if i % 2 else ("toxic",) for i in range(20)]
    assert read(path, labels=["toxic", "rude"]).label_names == ("toxic", "rude")
    with pytest.raises(UserError, match="several of 0 and 1 or of true and false"):
        read(path)
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "toxic": true}\n{"text": "y", "toxic": false}\n'
    )
    assert read(tmp_path / "a.jsonl", labels="toxic").label_sets() == [("toxic",), ()]


@pytest.mark.parametrize("sign", [",", "|", " ", ", ", None])
def test_vectors_of_0_and_1_are_not_taken_for_numbers_of_labels(tmp_path, sign):
    rows = [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    cells = [row if sign is None else sign.join(map(str, row)) for row in rows]
    lines = [json.dumps({"text": f"text {i}", "labels": cell}) for i, cell in enumerate(cells)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    message = "line 1, column 'labels': .* is 0 or 1 for every label.*a column of 0 and 1 for each"
    with pytest.raises(UserError, match=message):
        read(tmp_path / "a.jsonl")
    table = [f'text {i},"{cell if sign else list(cell)}"' for i, cell in enumerate(cells)]
    with pytest.raises(UserError, match=r"line 2, column 'labels': .* is 0 or 1 for every label"):
        read(_csv(tmp_path, table, "text,labels"))


def test_nor_are_lists_of_0_and_1_that_are_texts(tmp_path):
    lines = ['{"text": "a", "labels": ["1", "1", "0"]}', '{"text": "b", "labels": ["0", "0", "1"]}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"line 1, column 'labels': .* is 0 or 1 for every label"):
        read(tmp_path / "a.jsonl")


@pytest.mark.parametrize("names", [("0", "1"), ('"0"', '"1"')])
def test_labels_may_be_called_0_and_1(tmp_path, names):
    zero, one = names
    lines = [f'{{"text": "a", "labels": [{zero}, {one}]}}', f'{{"text": "b", "labels": [{one}]}}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert read(tmp_path / "a.jsonl").label_sets() == [("0", "1"), ("1",)]


def test_a_column_of_numbers_beside_is_no_label(tmp_path):
    rows = [f"text {i},0,1,{i}" for i in range(30)]
    data = read(_csv(tmp_path, rows, "text,l1,l2,year"))
    assert data.label_names == ("l1", "l2")
    assert data.columns.unread == ("year",)


@pytest.mark.parametrize(
    ("header", "row", "expected", "others"),
    [
        ("title,overview", "Alien,In space no one can hear you", "overview", ()),
        ("title,plot", "The Thing,Something hides in the ice", "plot", ("title",)),
        ("title,text", "A very long title of many words,short one", "text", ("title",)),
        ("name,story", "The Thing,Something hides in the ice", "story", ("name",)),
        ("title,link", "The Thing,https://example.org/a/very/long/address/of it", "title", ()),
        ("title,cast", 'The Thing,"[{""id"": 1, ""name"": ""A B C""}]"', "title", ()),
        ("title,year", "Alien,1979", "title", ()),
        ("名称,简介", "怪形,南极的冰层下面藏着一个会模仿一切生物的东西", "简介", ()),
    ],
)
def test_the_likeliest_text_is_taken_and_the_others_are_said(
    tmp_path, header, row, expected, others
):
    path = _csv(tmp_path, [f"{row},a"] * 3, f"{header},genres")
    columns = read(path).columns
    assert columns.text == (expected,)
    assert columns.also_text == others


def test_where_no_column_looks_like_a_text_the_user_is_asked(tmp_path):
    with pytest.raises(UserError, match="which column holds the text"):
        read(_csv(tmp_path, ["p,q,x"], "a,b,tags"))


def test_the_text_that_the_user_names_is_no_label(tmp_path):
    path = _csv(tmp_path, ["1,0,1", "0,1,1"], "numbers,l1,l2")
    assert read(path, text="numbers").label_names == ("l1", "l2")


def test_one_bad_cell_of_the_split_column_does_not_undo_the_split(tmp_path):
    rows = [f"text {i},{'test' if i % 3 else 'train'},a" for i in range(9)]
    rows[0] = "text,holdout,a"
    with pytest.raises(UserError, match=r"line 2, column 'split': expected train, validation or"):
        read(_csv(tmp_path, rows, "text,split,labels"))
    rows = [f"text {i},{i},a" for i in range(9)]
    assert read(_csv(tmp_path, rows, "text,split,labels")).split is None


@pytest.mark.parametrize("cell", ["['a', 'b']", "{'a', 'b'}", "('a', 'b')", '["a", "b"]'])
def test_collections_as_python_prints_them(tmp_path, cell):
    quoted = cell.replace('"', '""')
    path = _csv(tmp_path, [f'x,"{quoted}"', "y,a"], "text,labels")
    assert read(path).label_sets() == [("a", "b"), ("a",)]


@pytest.mark.parametrize("cell", ["{'a': 1}", "[" * 100_000 + "]", "[" + "-" * 100_000 + "1]"])
def test_brackets_that_are_no_flat_collection(tmp_path, cell):
    with pytest.raises(UserError, match=r"column 'labels': expected a list of labels"):
        read(_csv(tmp_path, [f'x,"{cell}"'], "text,labels"))


def test_labels_in_brackets_survive_a_table(tmp_path):
    sets = [("(other)", "{x}"), ("('a')", "[b]"), ("{'c'}",)]
    data = Dataset.from_label_sets(sets, texts=["x", "y", "z"])
    write(data, tmp_path / "b.csv")
    assert read(tmp_path / "b.csv").label_sets() == [tuple(sorted(names)) for names in sets]
    assert read(_csv(tmp_path, ["x,(other)"], "text,labels")).label_names == ("(other)",)


def test_a_label_that_another_program_writes_for_an_empty_cell_is_said(tmp_path):
    data = read(_csv(tmp_path, ["x,nan", "y,a"], "text,labels"))
    assert "a label is called 'nan'; was its cell empty?" in data.notes[0]


@pytest.mark.parametrize("cell", ["set()", "()", "{}", "frozenset()", "[]", "list()"])
def test_empty_collections_are_empty_sets(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f'text,labels\nx,"{cell}"\ny,"{{\'a\'}}"\n')
    assert read(path).label_sets() == [(), ("a",)]
    path.write_text(f"text,labels\nx,{cell}\ny,b|c\n")
    assert read(path).label_sets() == [(), ("b", "c")]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("{1, 2}", ("1", "2")),
        ("(1, 2)", ("1", "2")),
        ("(1,)", ("1",)),
        ("{a,b}", ("a", "b")),
        ('{a,""b c, d"",ns:x}', ("a", "b c, d", "ns:x")),
        ("frozenset({'a'})", ("a",)),
        ("dict_keys(['a', 'b'])", ("a", "b")),
        ("(other)", ("(other)",)),  # brackets of a name
        ("(1)", ("(1)",)),
        ("set theory", ("set theory",)),
    ],
)
def test_collections_without_quotes_and_names_in_brackets(tmp_path, cell, labels):
    path = tmp_path / "a.csv"
    path.write_text(f'text,labels\nx,"{cell}"\n')
    assert read(path).label_sets() == [labels]


@pytest.mark.parametrize("cell", ["{a: 1}", "{1: 2}", "array(['a'], dtype=object)", "{a,}"])
def test_collections_of_something_else_are_refused(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f'text,labels\nx,"{cell}"\n')
    with pytest.raises(UserError, match="line 2, column 'labels': expected a list of labels"):
        read(path)


@pytest.mark.parametrize("role", ["text", "id", "group", "split"])
@pytest.mark.parametrize("labels", [None, "labels", 1])
@pytest.mark.parametrize("column", ["labels", 1, "1"])
def test_the_labels_are_nothing_else_at_the_same_time(tmp_path, role, labels, column):
    path = _csv(tmp_path, [f"text {i},train,{i % 2}" for i in range(9)], "text,labels,x")
    if labels is None:  # then they are looked for among the other columns
        assert read(path, **{role: column}).label_names == ("x",)
        return
    with pytest.raises(UserError, match=f"the column 'labels' is read as labels and as {role}"):
        read(path, labels=labels, **{role: column})


def test_a_model_cannot_read_the_answer_from_a_column_whose_role_was_found_out(tmp_path):
    path = _csv(tmp_path, [f"text {i},a" for i in range(9)], "text,labels")
    for role in ("text", "id", "group"):
        with pytest.raises(UserError, match="which column holds the labels"):
            read(path, **{role: "labels"})
    known = read(path).columns
    with pytest.raises(UserError, match="'labels' is read as labels and as text"):
        read(path, text="labels", like=known)


def test_the_name_of_a_column_comes_before_its_position(tmp_path):
    path = _csv(tmp_path, [f"text {i},x,y,z" for i in range(9)], "text,2,1,0")
    assert read(path, labels="1").label_names == ("y",)
    assert read(path, labels="3").label_names == ("z",)  # no such name
    assert read(path, labels=1).label_names == ("x",)
    with pytest.raises(UserError, match="labels=4 is not a column; there are 4, counted from 0"):
        read(path, labels="4")


def test_two_delimiters_are_said(tmp_path):
    path = _csv(tmp_path, ["x,a|b", "y,a;c"], "text,labels")
    data = read(path)
    assert data.label_names == ("a", "a;c", "b")
    assert ["'a;c' holds ';', where labels are separated by '|'" in n for n in data.notes] == [True]


@pytest.mark.parametrize("index", ["", "Unnamed: 0", "Unnamed: 0.1", "Unnamed: 0.1.1"])
def test_the_index_of_a_table_of_numbers_is_no_feature(tmp_path, index):
    rows = [f"{i},{i / 8},{i * 3.5},{i % 2},{(i + 1) % 2}" for i in range(9)]
    data = read(_csv(tmp_path, rows, f"{index},age,income,old,rich"))
    assert data.columns.features.columns == ("age", "income")
    assert data.label_names == ("old", "rich")


@pytest.mark.parametrize("rows", [2, 3, 9])
@pytest.mark.parametrize("index", ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__"])
def test_the_index_of_a_table_is_no_label(tmp_path, rows, index):
    path = _csv(tmp_path, [f"{i},text {i},{i % 2}" for i in range(rows)], f"{index},text,l1")
    assert read(path).label_names == ("l1",)
    assert read(path).columns.unread == (index,)
    assert read(path, labels=[index, "l1"], skip_bad_rows=True).label_names == (index, "l1")


def test_groups_are_read_without_blanks_around_them_and_blank_ones_are_counted(tmp_path):
    path = _csv(tmp_path, ["x,a,g1", "y,b, g1 ", "z,a,", "w,b,  "], "text,labels,who")
    data = read(path, group="who")
    assert list(data.groups) == ["g1", "g1", "", ""]
    note = f"{path}: 2 of 4 rows have no group; a split takes each of them by itself"
    assert data.notes == (note,)


def test_a_group_that_is_not_a_number_is_none(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "labels": ["a"], "who": NaN}\n')
    data = read(path, group="who")
    assert list(data.groups) == [""]
    assert "1 of 1 row has no group" in data.notes[0]


def test_columns_of_true_and_false_are_suggested_as_labels(tmp_path):
    rows = [f"{'no' if i % 2 else 'yes it is'},{i % 2 == 0},{i % 3 == 0}" for i in range(9)]
    path = _csv(tmp_path, rows, "text,red,blue")
    with pytest.raises(UserError, match=r"name it, as labels='red', labels='blue' \(one column"):
        read(path)
    assert read(path, labels=["red", "blue"]).label_names == ("red", "blue")


@pytest.mark.parametrize("who", ["null", '"  "', "7"])
def test_a_group_that_is_null_or_not_there_is_blank(tmp_path, who):
    path = tmp_path / "a.jsonl"
    rows = ['{"text": "x", "labels": ["a"], "who": "g1"}', '{"text": "y", "labels": ["b"]}']
    path.write_text("\n".join([*rows, f'{{"text": "z", "labels": [], "who": {who}}}']))
    data = read(path, group="who")
    assert list(data.groups) == ["g1", "", "7" if who == "7" else ""]
    assert "have no group" in data.notes[0] or "has no group" in data.notes[0]
    path.write_text("\n".join([*rows, '{"text": "z", "labels": [], "who": []}']))
    with pytest.raises(UserError, match=r"'who': expected a name or a number, got \[\]"):
        read(path, group="who")


def test_groups_that_are_null_in_parquet_are_blank(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = {"text": ["x", "y"], "labels": [["a"], ["b"]], "who": ["g1", None]}
    pandas.DataFrame(rows).to_parquet(tmp_path / "a.parquet")
    assert list(read(tmp_path / "a.parquet", group="who").groups) == ["g1", ""]


@pytest.mark.parametrize(("name", "content"), [("a.jsonl", "{}\n{}\n"), ("a.json", "[{}, {}]")])
@pytest.mark.parametrize("labelled", [True, False])
def test_rows_without_columns_are_the_users_mistake(tmp_path, name, content, labelled):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=f"{name}: the first rows have no columns"):
        read(tmp_path / name, labelled=labelled)


@pytest.mark.parametrize("labels", [None, "tags"])
def test_a_delimiter_found_before_holds_for_the_column_however_it_is_named(tmp_path, labels):
    first, other = tmp_path / "first.csv", tmp_path / "other.csv"
    first.write_text('text,tags\nx,rock;pop\ny,"r,b"\n')
    other.write_text('text,tags\nx,"r,b"\ny,pop\n')
    like = read(first, labels=labels).columns
    assert read(other, like=like, labels=labels).label_sets() == [("r,b",), ("pop",)]


def test_lists_stay_lists_where_a_delimiter_was_found_before(tmp_path):
    first, other = tmp_path / "first.csv", tmp_path / "other.csv"
    first.write_text("text,tags\nx,rock;pop\ny,pop\n")
    other.write_text('text,tags\nx,"[""rock""]"\ny,pop;rock\n')
    like = read(first).columns
    assert [set(x) for x in read(other, like=like).label_sets()] == [{"rock"}, {"pop", "rock"}]
    literal = read(other, like=like, label_delimiter=";").label_sets()
    assert set(literal[0]) == {"rock"}  # which is what was found before
    assert read(other, label_delimiter=";").label_sets()[0] == ('["rock"]',)


@pytest.mark.parametrize(
    ("rows", "counted"),
    [
        (["x,a", ",b", "  ,", ","], "3 of 4 rows have no text"),
        (["x,a", ",b"], "1 of 2 rows has no text"),
    ],
)
def test_rows_without_a_text_are_counted(tmp_path, rows, counted):
    path = _csv(tmp_path, rows, "text,labels")
    data = read(path)
    assert len(data) == len(rows)
    assert data.notes == (f"{path}: {counted}; kept as samples",)
