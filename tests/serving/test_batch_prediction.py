"""Files become Parquet parts with their own columns; what is finished stays."""

import os
import shutil
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

import zlpr
from tests.models import modes
from tests.serving import models
from zlpr import UserError
from zlpr.serving import batch_prediction
from zlpr.serving.batch_prediction import PartPredictor, Request, find_files, predict_parts, to_do

TEXTS = list(models.texts()[2].texts)[:12]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("models") / "m"
    models.of_texts(decode="auto", regularisation=0.3).save(out)
    return out


@pytest.fixture
def parts(tmp_path) -> list[Path]:
    """Three files of some texts each, with a number, a list and a true label set beside."""
    (tmp_path / "in").mkdir()
    paths = []
    for part in range(3):
        texts = TEXTS[4 * part : 4 * part + 4]
        columns = {
            "id": [f"r{part}-{i}" for i in range(4)],
            "text": texts,
            "labels": [["refund"], [], ["billing", "refund"], ["x"]],
            "stars": pyarrow.array([1, None, 3, 4], pyarrow.int8()),
        }
        paths.append(tmp_path / "in" / f"part-{part}.parquet")
        parquet.write_table(pyarrow.table(columns), paths[-1])
    return paths


def test_a_part_has_the_columns_of_its_file_and_what_is_predicted(folder, parts, tmp_path):
    assert predict_parts(Request(str(folder)), parts, tmp_path / "out") == 3
    model = zlpr.load(folder)
    shares = model.predict_proba(TEXTS)
    for number, path in enumerate(parts):
        given, made = parquet.read_table(path), parquet.read_table(tmp_path / "out" / path.name)
        assert made.select(given.column_names).equals(given)
        assert made.schema.field("stars").type == pyarrow.int8()
        rows = slice(4 * number, 4 * number + 4)
        predicted = [tuple(names) for names in made["predicted_labels"].to_pylist()]
        assert predicted == model.predict(TEXTS[rows])
        for row, chances in enumerate(made["predicted_probabilities"].to_pylist(), rows.start):
            for name, chance in chances:
                column = model.label_names.index(name)
                assert chance == pytest.approx(shares[row, column], abs=1e-4)
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == [p.name for p in parts]


def test_a_second_run_predicts_what_is_missing_and_leaves_the_rest(folder, parts, tmp_path):
    out, request = tmp_path / "out", Request(str(folder))
    predict_parts(request, parts, out)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    (out / "part-1.parquet").unlink()
    (out / ".part-1.parquet.killed_1.part").write_text("half a part of a run that was killed")
    made = []
    assert predict_parts(request, parts, out, done=lambda source, _: made.append(source.name)) == 1
    assert made == ["part-1.parquet"]
    after = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert after.keys() == before.keys()
    assert {path.name for path in out.iterdir() if after[path] != before[path]} == set(made)
    assert predict_parts(request, parts, out) == 0


def test_a_failure_leaves_finished_parts_and_nothing_half(folder, parts, tmp_path, monkeypatch):
    out, request = tmp_path / "out", Request(str(folder))
    calls = []

    def failing(model, inputs):
        calls.append(inputs)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return answer(model, inputs)

    answer = batch_prediction.answer
    monkeypatch.setattr(batch_prediction, "answer", failing)
    with pytest.raises(KeyboardInterrupt):
        predict_parts(request, parts, out)
    assert [path.name for path in out.iterdir()] == ["part-0.parquet"]
    monkeypatch.undo()
    assert predict_parts(request, parts, out) == 2


@pytest.mark.parametrize("change", ["model", "file", "decision", "figures", "foreign"])
def test_a_part_of_something_else_is_not_taken_for_finished(folder, parts, tmp_path, change):
    out, request = tmp_path / "out", Request(str(folder))
    predict_parts(request, parts[:1], out)
    if change == "model":
        other = zlpr.load(folder)
        other.decoder = zlpr.decoding.TopK(1)
        other.save(tmp_path / "other")
        request = Request(str(tmp_path / "other"))
    elif change == "file":
        shutil.copy(parts[1], parts[0])
    elif change == "decision":
        request = Request(str(folder), decision={"top": 2})
    elif change == "figures":
        request = Request(str(folder), all_labels=True)
    else:
        (out / parts[0].name).write_text("something of the user's")
    with pytest.raises(UserError, match=r"was not made of this model .* --overwrite"):
        predict_parts(request, parts[:1], out)
    assert predict_parts(request, parts[:1], out, overwrite=True) == 1
    assert predict_parts(request, parts[:1], out) == 0


def test_decisions_by_hand_and_all_labels(folder, parts, tmp_path):
    request = Request(str(folder), all_labels=True, decision={"top": 2, "threshold": None})
    predict_parts(request, parts[:1], tmp_path / "out")
    made = parquet.read_table(tmp_path / "out" / parts[0].name)
    assert {len(names) for names in made["predicted_labels"].to_pylist()} == {2}
    names = list(zlpr.load(folder).label_names)
    assert [name for name, _ in made["predicted_scores"][0].as_py()] == names


def test_other_formats_bring_their_ids_and_texts_and_empty_files_their_columns(folder, tmp_path):
    (tmp_path / "a.csv").write_text("id,text,stars\n1,a refund please,5\n2,cannot log in,4\n")
    empty = pyarrow.table(
        {"text": pyarrow.array([], pyarrow.string()), "n": pyarrow.array([], "i4")}
    )
    parquet.write_table(empty, tmp_path / "none.parquet")
    out = tmp_path / "out"
    predict_parts(Request(str(folder)), [tmp_path / "a.csv", tmp_path / "none.parquet"], out)
    made = parquet.read_table(out / "a.csv.parquet")
    assert made["id"].to_pylist() == ["1", "2"]
    assert made["text"].to_pylist() == ["a refund please", "cannot log in"]
    none = parquet.read_table(out / "none.parquet")
    assert none.num_rows == 0
    assert none.column_names == ["text", "n", *batch_prediction.PREDICTED]


def test_rows_that_are_left_out_are_left_out_of_all_columns(folder, tmp_path):
    columns = {"text": ["a refund", None, "cannot log in"], "n": [1, 2, 3]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet"):
        predict_parts(Request(str(folder)), [tmp_path / "a.parquet"], tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))
    request = Request(str(folder), reading={"skip_bad_rows": True})
    predict_parts(request, [tmp_path / "a.parquet"], tmp_path / "out")
    made = parquet.read_table(tmp_path / "out" / "a.parquet")
    assert made["n"].to_pylist() == [1, 3]


def test_features_are_predicted_too(tmp_path):
    models.of_features("mmp").save(tmp_path / "m")
    features = modes.parts()[2].features[:3]
    lines = [" ".join(f"{i}:{value}" for i, value in enumerate(row)) for row in features.tolist()]
    (tmp_path / "a.svm").write_text("\n".join(f"0 {line}" for line in lines) + "\n")
    predict_parts(Request(str(tmp_path / "m")), [tmp_path / "a.svm"], tmp_path / "out")
    made = parquet.read_table(tmp_path / "out" / "a.svm.parquet")
    expected = models.of_features("mmp").predict(features)
    assert [tuple(names) for names in made["predicted_labels"].to_pylist()] == expected


def test_patterns_stand_for_files(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = [Path("in") / path.name for path in parts]
    assert find_files(["in/part-*.parquet"]) == relative
    assert find_files([str(tmp_path / "in" / "part-[01].parquet")]) == parts[:2]
    assert find_files(["in/part-0.parquet", "in/part-*.parquet"]) == relative
    (tmp_path / "a[1].csv").write_text("")
    assert find_files(["a[1].csv"]) == [Path("a[1].csv")]
    with pytest.raises(UserError, match=r"none-\*\.csv: no file has a name like that"):
        find_files(["none-*.csv"])


def test_names_that_clash_are_refused(folder, parts, tmp_path):
    request = Request(str(folder))
    other = tmp_path / "elsewhere" / parts[0].name
    with pytest.raises(UserError, match="another file of that name"):
        to_do(request, [parts[0], other], tmp_path / "out")
    with pytest.raises(UserError, match="is read from"):
        to_do(request, parts, parts[0].parent)
    table = parquet.read_table(parts[0]).append_column("predicted_scores", [[1, 2, 3, 4]])
    parquet.write_table(table, parts[0])
    with pytest.raises(UserError, match="there is a column 'predicted_scores' already"):
        PartPredictor(request).predict(parts[0], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_columns_that_hold_no_nulls_are_as_any(folder, tmp_path):
    fields = [
        pyarrow.field("number", pyarrow.int64(), nullable=False),
        pyarrow.field("text", pyarrow.string(), nullable=False),
    ]
    given = pyarrow.table({"number": range(12), "text": TEXTS}, schema=pyarrow.schema(fields))
    parquet.write_table(given, tmp_path / "part.parquet")
    assert predict_parts(Request(str(folder)), [tmp_path / "part.parquet"], tmp_path / "out") == 1
    made = parquet.read_table(tmp_path / "out" / "part.parquet")
    assert made["number"].to_pylist() == list(range(12))
    assert made["text"].to_pylist() == TEXTS


def test_a_stretch_of_bad_rows_alone_is_left_out(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("zlpr.data.formats.parquet.BATCH_ROWS", 3)
    monkeypatch.setattr("zlpr.data.formats._arrow.BATCH_ROWS", 3)
    texts = [None] * 4 + TEXTS[:2] + [None] * 3 + TEXTS[2:4]
    source = tmp_path / "part.parquet"
    parquet.write_table(pyarrow.table({"text": texts, "number": range(len(texts))}), source)
    request = Request(str(folder), reading={"skip_bad_rows": True})
    predict_parts(request, [source], tmp_path / "out")
    made = parquet.read_table(tmp_path / "out" / "part.parquet")
    assert made["number"].to_pylist() == [4, 5, 9, 10]
    assert made["text"].to_pylist() == TEXTS[:4]
    predicted = [tuple(names) for names in made["predicted_labels"].to_pylist()]
    assert predicted == zlpr.load(folder).predict(TEXTS[:4])


def test_a_model_that_is_replaced_during_a_run_has_no_part_in_its_name(parts, folder, tmp_path):
    model = zlpr.load(folder)
    model.save(tmp_path / "m")
    request, out = Request(str(tmp_path / "m")), tmp_path / "out"

    def replace_once(source, _):
        if source == parts[0]:
            model.decoder = zlpr.decoding.TopK(5)
            model.save(tmp_path / "m", overwrite=True)

    assert predict_parts(request, parts, out, done=replace_once) == 3
    sizes = [len(names) for names in parquet.read_table(out / "part-2.parquet")["predicted_labels"]]
    assert sizes != [5] * 4  # of the model that was there when the run began
    with pytest.raises(UserError, match="was not made of this model"):
        predict_parts(request, parts, out)


def test_a_model_that_is_replaced_before_it_is_read_is_refused(parts, folder, tmp_path):
    model = zlpr.load(folder)
    model.save(tmp_path / "m")
    request = Request(str(tmp_path / "m"))
    meant = request.model_digest()
    model.decoder = zlpr.decoding.TopK(5)
    model.save(tmp_path / "m", overwrite=True)
    with pytest.raises(UserError, match="m: another model was written there meanwhile"):
        PartPredictor(request, model_digest=meant)


def test_what_is_wrong_with_one_of_many_files_names_it(folder, parts, tmp_path):
    table = parquet.read_table(parts[1])
    parquet.write_table(table.append_column("predicted_labels", table["id"]), parts[1])
    with pytest.raises(UserError, match=r"part-1\.parquet: there is a column 'predicted_labels'"):
        predict_parts(Request(str(folder)), parts, tmp_path / "out")


def test_a_pipe_is_refused_before_anything_waits_for_it(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UserError, match=r"pipe\.csv: not a file"):
        predict_parts(Request(str(folder)), [tmp_path / "pipe.csv"], tmp_path / "out")


def test_a_refused_run_leaves_no_empty_folder_and_a_model_that_is_none_is_named(
    folder, parts, tmp_path
):
    bad, out = tmp_path / "bad.parquet", tmp_path / "out"
    parquet.write_table(pyarrow.table({"text": ["a", None]}), bad)
    with pytest.raises(UserError, match="expected a text"):
        predict_parts(Request(str(folder)), [bad], out)
    assert not out.exists()
    out.mkdir()  # one that was there stays
    with pytest.raises(UserError, match="expected a text"):
        predict_parts(Request(str(folder)), [bad], out)
    assert out.is_dir()
    with pytest.raises(UserError, match="nowhere: no such model folder"):
        predict_parts(Request(str(tmp_path / "nowhere")), parts, out)


@pytest.mark.parametrize("name", ["a.pq", "a.PARQUET", "a.data"])
def test_parquet_keeps_its_columns_whatever_it_is_called(folder, parts, name, tmp_path):
    shutil.copy(parts[0], tmp_path / name)
    predict_parts(Request(str(folder)), [tmp_path / name], tmp_path / "out")
    made = parquet.read_table(next((tmp_path / "out").iterdir()))
    assert made.column_names[:4] == ["id", "text", "labels", "stars"]


def test_columns_of_numbers_are_the_features_of_a_model_of_a_sparse_file(tmp_path):
    """It was trained on no columns by name: those of another file stand in their order."""
    models.of_features("mmp").save(tmp_path / "m")
    features = modes.parts()[2].features[:3]
    lines = [",".join(f"x{i}" for i in range(features.shape[1]))]
    lines += [",".join(map(repr, row)) for row in features.tolist()]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    predict_parts(Request(str(tmp_path / "m")), [tmp_path / "a.csv"], tmp_path / "out")
    made = parquet.read_table(tmp_path / "out")
    expected = models.of_features("mmp").predict(features)
    assert [tuple(names) for names in made["predicted_labels"].to_pylist()] == expected
    kinds = Request(str(tmp_path / "m"), reading={"categories": ["x0"]})
    with pytest.raises(UserError, match=r"a.csv: categories \('x0'\) are features only where"):
        predict_parts(kinds, [tmp_path / "a.csv"], tmp_path / "other")
