import io
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import Columns, iterate, load, read, write
from zlpr.data.formats.mulan import Attribute, read_xml, split_values

XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="calm"></label>
<label name="it's loud"><label name="angry"/></label>
</labels>
"""
HEADER = r"""% our own songs
@RELATION songs

@attribute tempo numeric
@attribute 'it\'s loud' {0,1}
@attribute "key" {minor,major}
@attribute mood {low,middle,high}
@attribute calm {0,1}
@attribute angry {0, 1}
@data
"""
DENSE = HEADER + "120.5,1,major,high,0,1\n% pause\n\n60,0,minor,low,1,0\n"


def _write(tmp_path, arff, xml=XML, name="songs-train.arff"):
    (tmp_path / "songs.xml").write_text(xml)
    (tmp_path / name).write_text(arff)
    return tmp_path / name


def test_dense_rows_with_nominal_attributes(tmp_path):
    data = read(_write(tmp_path, DENSE))
    assert data.label_names == ("calm", "it's loud", "angry")
    assert data.label_sets() == [("it's loud", "angry"), ("calm",)]
    # tempo; key: minor 0, major 1; mood: one column per value
    assert data.features.tolist() == [[120.5, 1, 0, 0, 1], [60, 0, 1, 0, 0]]


def test_plain_numbers_against_scipy(tmp_path):
    from scipy.io import arff

    rng = np.random.default_rng(0)
    lines = ["@relation r", *(f"@attribute f{i} real" for i in range(5))]
    lines += ["@attribute calm {0,1}", "@attribute angry {0,1}", "@data"]
    for _ in range(50):
        numbers = [f"{value:.7g}" for value in rng.normal(size=5)]
        lines.append(",".join([*numbers, *map(str, rng.integers(0, 2, 2))]))
    text = "\n".join(lines) + "\n"
    data = read(_write(tmp_path, text), labels=["calm", "angry"])
    table, _ = arff.loadarff(io.StringIO(text))
    expected = np.array([[float(row[f"f{i}"]) for i in range(5)] for row in table])
    assert (data.features == expected).all()
    flags = np.array([[row["calm"] == b"1", row["angry"] == b"1"] for row in table])
    assert (data.labels.toarray() == flags).all()


def test_sparse_rows(tmp_path):
    header = HEADER.replace("@attribute mood {low,middle,high}\n", "")
    data = read(_write(tmp_path, header + "{0 2.5,3 1}\n{}\n{ 4 1, 2 major }\n{2 'major'}\n"))
    assert sparse.issparse(data.features)
    assert data.features.toarray().tolist() == [[2.5, 0], [0, 0], [0, 1], [0, 1]]
    assert data.label_sets() == [("calm",), (), ("angry",), ()]


def test_dense_and_sparse_say_the_same(tmp_path):
    header = "@relation r\n@attribute a numeric\n@attribute calm {0,1}\n@attribute b {0,1}\n@data\n"
    path = _write(tmp_path, header + "0.5,1,0\n0,0,1\n")
    dense = read(path, labels=["calm"])
    path.write_text(header + "{0 0.5,1 1}\n{2 1}\n")
    thin = read(path, labels=["calm"])
    assert (thin.features.toarray() == dense.features).all()
    assert thin.label_sets() == dense.label_sets()


def test_sparse_rows_whose_left_out_value_is_not_zero_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"that of 'mood' \('low'\) does not mean 0"):
        read(_write(tmp_path, HEADER + "{0 1}\n"))
    turned = HEADER.replace("@attribute mood {low,middle,high}\n", "").replace("{0, 1}", "{1,0}")
    with pytest.raises(UserError, match=r"that of 'angry' \('1'\) does not mean 0"):
        read(_write(tmp_path, turned + "{0 1}\n"))


def test_attributes_of_text_are_left_out_with_a_note(tmp_path):
    arff = DENSE.replace("@attribute tempo numeric", "@attribute title string")
    data = read(_write(tmp_path, arff.replace("120.5", "'a, b'").replace("60", "c")))
    assert data.features.shape == (2, 4)
    assert "left out 'title', an attribute of text" in data.notes[0]


def test_the_xml_file_beside_and_by_name(tmp_path):
    path = _write(tmp_path, DENSE, name="other.arff")
    with pytest.raises(UserError, match="which attributes are labels"):
        read(path)
    assert read(path, labels=str(tmp_path / "songs.xml")).num_labels == 3
    with pytest.raises(UserError, match="expected an XML file or a list of attributes"):
        read(path, labels="calm")


def test_the_label_count_of_meka(tmp_path):
    path = _write(tmp_path, DENSE.replace("songs", "'songs: -C -2'"), name="other.arff")
    assert read(path).label_names == ("calm", "angry")


def test_published_parts_in_a_folder(tmp_path):
    _write(tmp_path, DENSE)
    _write(tmp_path, DENSE, name="songs-test.arff")
    data = load(tmp_path)
    assert data.split.tolist() == ["train"] * 2 + ["test"] * 2
    assert data.label_names == ("calm", "it's loud", "angry")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("120.5,1,major,high,0", r"line 12: 5 values, expected 6"),
        ("x,1,major,high,0,1", r"line 12: 'tempo': expected a finite number, got 'x'"),
        ("inf,1,major,high,0,1", r"line 12: 'tempo': expected a finite number"),
        ("1_0,1,major,high,0,1", r"line 12: 'tempo': expected a finite number, got '1_0'"),
        ("1,1,sharp,high,0,1", r"line 12: 'key': expected one of minor, major, got 'sharp'"),
        ("1,1,major,high,0,2", r"line 12: label 'angry': expected 0 or 1, got '2'"),
        ("?,1,major,high,0,1", r"line 12: 'tempo' is missing \('\?'\), expected a value"),
        ("1,1,'major,high,0,1", r"line 12: quotes that do not match"),
    ],
)
def test_a_bad_row(tmp_path, row, message):
    path = _write(tmp_path, HEADER + "1,0,minor,low,1,0\n" + row + "\n")
    with pytest.raises(UserError, match=f"songs-train.arff, {message}"):
        read(path)
    assert len(read(path, skip_bad_rows=True)) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{0 1,9 1}", "expected an index below 5 and a value, got '9 1'"),
        ("{0 1,0 2}", "index 0 appears twice"),
        ("{0}", "expected an index below 5 and a value"),
        ("{0 1", "expected a sparse row in braces"),
        ("0 1", "expected a sparse row in braces"),
    ],
)
def test_a_bad_sparse_row(tmp_path, row, message):
    header = HEADER.replace("@attribute mood {low,middle,high}\n", "")
    with pytest.raises(UserError, match=f"line 11: {message}"):
        read(_write(tmp_path, header + "{0 1}\n" + row + "\n"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@data", "", "line 11, column 1: expected @relation, @attribute or @data, got '120.5"),
        ("tempo numeric", "tempo", "line 4: expected @attribute NAME TYPE"),
        ("tempo numeric", "tempo colour", "line 4: the type 'colour' is not one that ARFF knows"),
        ("{low,middle", "{'low,middle", "line 7: the values of 'mood': quotes that do not match"),
        ("angry", "mad", "no attribute is called 'angry', as a label is"),
    ],
)
def test_a_bad_header(tmp_path, old, new, message):
    with pytest.raises(UserError, match=f"songs-train.arff[,:] {message}"):
        read(_write(tmp_path, DENSE.replace(old, new)))


def test_a_header_without_end(tmp_path):
    with pytest.raises(UserError, match="no line with @data"):
        read(_write(tmp_path, "@relation x\n"))


@pytest.mark.parametrize(
    "xml",
    [
        '<!DOCTYPE l [<!ENTITY a "boom"><!ENTITY b "&a;&a;">]><labels><label name="&b;"/></labels>',
        '<!DOCTYPE l SYSTEM "file:///etc/hostname"><labels><label name="a"/></labels>',
        '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/hostname">]><labels>&x;</labels>',
    ],
)
def test_document_types_and_their_entities_are_refused(tmp_path, xml):
    (tmp_path / "l.xml").write_text(xml)
    with pytest.raises(UserError, match=r"l.xml: a document type, which could hide entities"):
        read_xml(tmp_path / "l.xml")


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<labels><label name='a'></labels>", r"line 1, column \d+: not XML: mismatched tag"),
        ("<labels/>", r"no <label name=…> in it"),
        ("<labels><label name='a'/><label name='a'/></labels>", r"label 'a' is listed twice"),
    ],
)
def test_bad_xml(tmp_path, xml, message):
    (tmp_path / "l.xml").write_text(xml)
    with pytest.raises(UserError, match=message):
        read_xml(tmp_path / "l.xml")


def test_values_in_quotes():
    assert split_values("a, 'b, c', \"d\" , 'it\\'s',") == ["a", "b, c", "d", "it's", ""]


def test_a_sparse_row_of_many_quotes_is_refused_in_one_pass(tmp_path):
    """Each quote that opened another search to the end would take minutes."""
    row = "{0 " + "\\'" * 300_000 + "}"
    path = _write(tmp_path, HEADER.replace("{low,middle,high}", "numeric") + row + "\n")
    with pytest.raises(UserError, match=r"line 11: quotes that do not match from character"):
        read(path)


def test_quotes_in_sparse_rows(tmp_path):
    xml = '<labels><label name="l"/></labels>'
    head = (
        "@relation r\n@attribute n numeric\n@attribute k {'0','a, b'}\n@attribute l {0,1}\n@data\n"
    )
    path = _write(tmp_path, head + "{0 1.5, 1 'a, b', 2 1}\n{}\n{1 '0'}\n", xml)
    assert read(path).features.toarray().tolist() == [[1.5, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_nominal_attribute_of_many_values(tmp_path):
    """A column per value, kept sparse; the values are looked up and not searched."""
    values = [f"v{i}" for i in range(20_000)]
    head = f"@relation r\n@attribute k {{{','.join(values)}}}\n@attribute l {{0,1}}\n@data\n"
    rows = "".join(f"{value},{i % 2}\n" for i, value in enumerate(values))
    data = read(_write(tmp_path, head + rows, '<labels><label name="l"/></labels>'))
    assert sparse.issparse(data.features)
    assert data.features.shape == (20_000, 20_000)
    assert (data.features.indices == np.arange(20_000)).all()
    assert data.labels.sum() == 10_000


class Counted(str):
    """A value that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_values_of_a_nominal_attribute_are_not_gone_through_for_each_cell():
    attribute = Attribute("k", tuple(Counted(f"v{i}") for i in range(1_000)))
    attribute.code("v0")
    Counted.compared = 0
    assert [attribute.code(f"v{i}") for i in range(1_000)] == [(i, 1.0) for i in range(1_000)]
    assert Counted.compared <= 2_000


def test_attributes_of_one_name_are_said_and_those_of_a_label_refused(tmp_path):
    xml = '<labels><label name="l"/></labels>'
    head = "@relation r\n@attribute n numeric\n@attribute n numeric\n@attribute l {0,1}\n"
    data = read(_write(tmp_path, head + "@data\n1,2,1\n", xml))
    assert data.features.tolist() == [[1.0, 2.0]]
    assert "1 name of attributes appears more than once ('n')" in data.notes[0]
    path = _write(tmp_path, head + "@attribute l {0,1}\n@data\n1,2,1,0\n", xml)
    with pytest.raises(UserError, match="2 attributes are called 'l', as a label is"):
        read(path)


def test_a_label_that_is_listed_twice_among_very_many(tmp_path):
    names = [f"label {i}" for i in range(200_000)] + ["label 199999"]
    labels = "".join(f'<label name="{name}"/>' for name in names)
    (tmp_path / "a.xml").write_text(f"<labels>{labels}</labels>")
    program = (
        "import sys, pathlib; from zlpr.data.formats.mulan import read_xml\n"
        "try: read_xml(pathlib.Path(sys.argv[1]))\nexcept Exception as error: print(error)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.xml")]
    read = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "'label 199999' is listed twice" in read.stdout  # a search for each takes an hour


@pytest.mark.parametrize("encoding", ["klingon", "utf-7", "big5"])
def test_an_encoding_that_xml_cannot_have_here(tmp_path, encoding):
    (tmp_path / "a.xml").write_text(f'<?xml version="1.0" encoding="{encoding}"?><labels/>')
    with pytest.raises(UserError, match=r"a\.xml"):
        read_xml(tmp_path / "a.xml")


def test_no_labels_by_meka(tmp_path):
    (tmp_path / "a.arff").write_text("@relation 'r: -C 0'\n@attribute n numeric\n@data\n1\n")
    with pytest.raises(UserError, match="-C 0"):
        read(tmp_path / "a.arff")


TURNED = r"""@relation songs
@attribute angry {0,1}
@attribute mood {high,low,middle}
@attribute "key" {major,minor}
@attribute 'it\'s loud' {0,1}
@attribute tempo real
@attribute calm {0,1}
@data
"""
TURNED_DENSE = TURNED + "1,high,major,1,120.5,0\n0,low,minor,0,60,1\n"


def _kept(path):
    """How a file was read, as a model folder keeps it."""
    return Columns.from_json(json.loads(json.dumps(read(path).columns.to_json())))


def test_attributes_and_values_in_another_order_give_the_same_features(tmp_path):
    first = read(path := _write(tmp_path, DENSE))
    other = _write(tmp_path, TURNED_DENSE, name="songs-test.arff")
    again = read(other, like=_kept(path))
    assert again.features.tolist() == first.features.tolist()
    assert again.label_sets() == first.label_sets()
    assert again.columns == first.columns
    block = next(iterate(other, labelled=False, like=_kept(path)))
    assert block.features.tolist() == first.features.tolist()
    assert load(tmp_path).features.tolist() == first.features.tolist() * 2


def test_numbers_alone_in_another_order_give_the_same_features(tmp_path):
    head = "@relation r\n@attribute a real\n@attribute b {0,1}\n@attribute calm {0,1}\n@data\n"
    turned = "@relation r\n@attribute calm {0,1}\n@attribute b {1,0}\n@attribute a real\n@data\n"
    xml = '<labels><label name="calm"/></labels>'
    like = _kept(_write(tmp_path, head + "0.5,1,0\n2,0,1\n", xml))
    assert like.attributes.values == {}  # 0 and 1 are numbers in whatever order
    again = read(_write(tmp_path, turned + "0,1,0.5\n1,0,2\n", xml, "songs-test.arff"), like=like)
    assert again.features.tolist() == [[0.5, 1], [2, 0]]


def test_a_sparse_row_leaves_out_the_first_value_of_its_own_file(tmp_path):
    path = _write(tmp_path, DENSE)
    rows = "{0 1,4 120.5,3 1}\n{1 low,2 minor,4 60,5 1}\n{}\n"
    again = read(_write(tmp_path, TURNED + rows, name="songs-test.arff"), like=_kept(path))
    expected = [[120.5, 1, 0, 0, 1], [60, 0, 1, 0, 0], [0, 1, 0, 0, 1]]
    assert again.features.toarray().tolist() == expected
    assert again.label_sets() == [("it's loud", "angry"), ("calm",), ()]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tempo real", "speed real", "no attribute is called 'tempo', as a feature was in"),
        ("tempo real", "tempo {a,b}", "'tempo' is nominal, and was a number in training"),
        ("tempo real", "tempo string", "'tempo' is text, and was a number in training"),
        ("{high,low,middle}", "numeric", "'mood' is a number, and was nominal in training"),
        ("@data", "@attribute tempo real\n@data", "2 attributes are called 'tempo', as a feature"),
    ],
)
def test_an_attribute_of_training_that_a_file_does_not_have(tmp_path, old, new, message):
    like = _kept(_write(tmp_path, DENSE))
    other = _write(tmp_path, TURNED_DENSE.replace(old, new), name="songs-test.arff")
    with pytest.raises(UserError, match=rf"songs-test\.arff: .*{message}"):
        read(other, like=like)


def test_a_feature_of_training_that_is_a_label_here(tmp_path):
    like = _kept(_write(tmp_path, DENSE))
    other = _write(tmp_path, TURNED_DENSE, name="songs-test.arff")
    with pytest.raises(
        UserError, match=r"songs-test\.arff: 'tempo' is a label here, and was a feature"
    ):
        read(other, labels=["calm", "tempo"], like=like)


def test_attributes_that_training_did_not_have_are_not_read(tmp_path):
    like = _kept(path := _write(tmp_path, DENSE))
    more = TURNED.replace("@data", "@attribute place {x,y}\n@data")
    rows = "1,high,major,1,120.5,0,?\n0,low,minor,0,60,1,y\n"
    again = read(_write(tmp_path, more + rows, name="songs-test.arff"), like=like)
    assert again.features.tolist() == read(path).features.tolist()
    assert again.columns.describe() == "mulan: 5 features; not read: 'place'"


def test_values_that_training_did_not_have(tmp_path):
    like = _kept(_write(tmp_path, DENSE))
    more = TURNED.replace("{high,low,middle}", "{none,high,low}")
    other = _write(tmp_path, more + "1,none,major,1,120.5,0\n", name="songs-test.arff")
    again = read(other, like=like)
    assert again.features.tolist() == [[120.5, 1, 0, 0, 0]]
    assert "1 cell of 'mood' holds a category that training did not have ('none')" in again.notes[0]
    other.write_text(more + "1,middle,major,1,120.5,0\n")  # which this header does not list
    with pytest.raises(UserError, match=r"line 9: 'mood': expected one of none, high, low, got"):
        read(other, like=like)
    other.write_text(TURNED.replace("{major,minor}", "{major,c}") + "1,high,c,1,120.5,0\n")
    expected = r"songs-test.arff, line 9: 'key': expected one of minor, major as in training, got"
    with pytest.raises(UserError, match=expected):
        read(other, like=like)


def test_numbers_as_values_keep_the_codes_of_training(tmp_path):
    head = "@relation r\n@attribute k {0,1,2}\n@attribute calm {0,1}\n@data\n"
    xml = '<labels><label name="calm"/></labels>'
    like = _kept(_write(tmp_path, head + "2,1\n0,0\n", xml))
    fewer = _write(
        tmp_path, head.replace("{0,1,2}", "{1,0}") + "1,1\n0,0\n", xml, "songs-test.arff"
    )
    assert read(fewer, like=like).features.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_attributes_of_one_name_are_known_by_their_order(tmp_path):
    xml = '<labels><label name="l"/></labels>'
    head = "@relation r\n@attribute n real\n@attribute n real\n@attribute m {a,b}\n"
    end = "@attribute l {0,1}\n@data\n1,2,b,1\n"
    like = _kept(path := _write(tmp_path, head + end, xml))
    assert read(path, like=like).features.tolist() == [[1, 2, 1]]
    for other in (head.replace("{a,b}", "{b,a}"), head.replace("n real", "o real", 1)):
        with pytest.raises(UserError, match="attributes are not those of training in the same"):
            read(_write(tmp_path, other + end, xml, "songs-test.arff"), like=like)


def test_without_names_attributes_are_taken_by_position(tmp_path):
    """As in models that were saved before names were kept, and in those of other formats."""
    other = _write(tmp_path, TURNED_DENSE)
    for like in (Columns("mulan", num_features=5), Columns("svm", num_features=5)):
        assert read(other, like=like).features.tolist() == [[1, 0, 0, 0, 120.5], [0, 1, 0, 1, 60]]
    (tmp_path / "a.svm").write_text("0 0:2 4:1\n")
    like = _kept(_write(tmp_path, DENSE))
    assert read(tmp_path / "a.svm", like=like).features.toarray().tolist() == [[2, 0, 0, 0, 1]]


def test_numbers_are_written_under_their_names(tmp_path):
    head = "@relation r\n@attribute 'it\\'s' real\n@attribute b {0,1}\n@attribute calm {0,1}\n"
    data = read(_write(tmp_path, head + "@data\n0.5,1,0\n2,0,1\n"), labels=["calm"])
    write(data, tmp_path / "again.arff")
    again = read(tmp_path / "again.arff", like=data.columns)
    assert again.features.tolist() == data.features.tolist()
    assert again.columns == data.columns
