"""What every source has in common; what is its own stands in the file of its name."""

import gzip
import lzma
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import published
from zlpr.data.sources import SOURCES, prepare, resolve

FILES = Path(__file__).parent / "files"
FOLDERS = {source.name: FILES / source.name.lower() for source in SOURCES}


def test_the_eleven_sets_have_a_source():
    sets = [name for source in SOURCES for name in source.sets]
    assert set(published.SETS) == set(sets) - {"GoEmotions-Simplified"}
    assert len(sets) == len(set(sets))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_sets_of_a_source_share_samples_and_labels(source):
    prepared = prepare(source.name, FOLDERS[source.name])
    assert tuple(prepared.datasets) == source.sets
    first = next(iter(prepared.datasets.values()))
    assert len(first) > 0
    assert len(set(first.ids)) == len(first)
    for name, dataset in prepared.datasets.items():
        assert dataset.name == name
        assert dataset.ids == first.ids
        assert dataset.label_sets() == first.label_sets()
        assert all(text == text.strip() != "" for text in dataset.texts)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
@pytest.mark.parametrize("packing", ["gz", "xz", "zip", "tar.gz"])
def test_packed_files_read_as_plain_ones(source, packing, tmp_path):
    plain = prepare(source.name, FOLDERS[source.name])
    pack(FOLDERS[source.name], tmp_path, packing)
    packed = prepare(source.name, tmp_path)
    assert packed.left_out == plain.left_out
    for name, dataset in plain.datasets.items():
        assert packed.datasets[name].texts == dataset.texts
        assert packed.datasets[name].label_sets() == dataset.label_sets()


def pack(folder: Path, target: Path, packing: str) -> None:
    if packing in {"gz", "xz"}:
        opener = {"gz": gzip.open, "xz": lzma.open}[packing]
        for path in folder.iterdir():
            with opener(target / f"{path.name}.{packing}", "wb") as out:
                out.write(path.read_bytes())
    elif packing == "zip":
        with zipfile.ZipFile(target / "all.zip", "w") as archive:
            for path in folder.iterdir():
                archive.write(path, f"inside/{path.name}")
    else:
        with tarfile.open(target / "all.tar.gz", "w:gz") as archive:
            archive.add(folder, "inside")


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_folder_without_the_files_is_refused(source, tmp_path):
    with pytest.raises(UserError, match="expected"):
        prepare(source.name, tmp_path)
    with pytest.raises(UserError, match="no such file or folder"):
        prepare(source.name, tmp_path / "absent")


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_source_can_be_fetched_or_says_where_it_is(source):
    assert bool(source.files) != bool(source.instructions)
    assert source.terms
    assert source.address.startswith("http")
    assert all(file.url.startswith("https://") for file in source.files)


def test_names_are_found_in_any_case():
    assert resolve("TOXIC") == (resolve("Toxic")[0], ("Toxic",))
    assert resolve("uspto")[1] == ("USPTO-Title", "USPTO-Abstract")
    with pytest.raises(UserError, match="no data set 'reuters'; there are: CNIPA-Title"):
        resolve("reuters")


def test_unpacked_file_goes_before_its_archive(tmp_path):
    shutil.copy(FILES / "toxic" / "train.csv", tmp_path)
    with zipfile.ZipFile(tmp_path / "train.csv.zip", "w") as archive:
        archive.write(FILES / "toxic" / "train.csv", "train.csv")
    assert len(prepare("Toxic", tmp_path).datasets["Toxic"]) == 4


def test_two_files_of_one_name_are_not_chosen_between(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(FILES / "toxic" / "train.csv", tmp_path / folder)
    with pytest.raises(UserError, match="have the same name"):
        prepare("Toxic", tmp_path)


def test_several_files_where_one_is_wanted_are_named(tmp_path):
    for name in ("one.csv", "two.csv"):
        shutil.copy(FILES / "toxic" / "train.csv", tmp_path / name)
    with pytest.raises(UserError, match=r"cannot choose among one\.csv, two\.csv"):
        prepare("Toxic", tmp_path)
    assert len(prepare("Toxic", tmp_path / "two.csv").datasets["Toxic"]) == 4


@pytest.mark.parametrize("packing", ["gz", "zip", "tar.gz"])
def test_damaged_files_are_named(packing, tmp_path):
    pack(FILES / "toxic", tmp_path, packing)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match=f"{path.name}.*damaged or cut short"):
        prepare("Toxic", tmp_path)


@pytest.mark.parametrize("name", ["all.zip", "all.tar.gz", "train.csv.xz"])
def test_what_is_not_an_archive_is_told_in_one_line(name, tmp_path):
    start = b"\xfd7zXZ\x00" if name.endswith(".xz") else b""
    (tmp_path / name).write_bytes(start + b"not an archive")
    with pytest.raises(
        UserError, match=f"{name}: the compressed file is damaged or cut short"
    ) as refused:
        prepare("Toxic", tmp_path)
    assert "\n" not in str(refused.value)


def test_other_encodings_are_refused_by_line_and_read_by_name(tmp_path):
    text = (FILES / "cnipa" / "patents.csv").read_text("utf-8")
    (tmp_path / "patents.csv").write_bytes(text.encode("gb18030"))
    with pytest.raises(
        UserError, match=r"patents\.csv, line 1, column \d+: byte 0x.. is not UTF-8.*gb18030"
    ):
        prepare("CNIPA", tmp_path)
    read = prepare("CNIPA-Title", tmp_path, encoding="gb18030").datasets["CNIPA-Title"]
    assert read.texts == prepare("CNIPA-Title", FILES / "cnipa").datasets["CNIPA-Title"].texts


def test_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    content = (FILES / "archive" / "train.csv").read_bytes()
    (tmp_path / "train.csv").write_bytes(b"\xef\xbb\xbf" + content)
    assert len(prepare("Archive-Title", tmp_path).datasets["Archive-Title"]) == 3


def test_bad_rows_are_listed_or_skipped(tmp_path):
    good = (FILES / "toxic" / "train.csv").read_text()
    bad = "".join(f'"x{number}","text",0,0,2,0,0,0\n' for number in range(5))
    (tmp_path / "train.csv").write_text(good + '"short","row"\n' + bad)
    with pytest.raises(UserError) as refused:
        prepare("Toxic", tmp_path)
    message = str(refused.value)
    assert "train.csv: 6 bad rows: line 8: 2 columns, expected 8" in message
    assert "line 9, column 'obscene': expected 0 or 1, got '2'" in message
    assert "and 1 more" in message
    assert "\n" not in message
    prepared = prepare("Toxic", tmp_path, skip_bad_rows=True)
    assert prepared.left_out == {"bad row": 6}
    assert len(prepared.datasets["Toxic"]) == 4


def test_rows_without_text_are_left_out_and_counted(tmp_path):
    good = (FILES / "toxic" / "train.csv").read_text()
    (tmp_path / "train.csv").write_text(good + '"e","  ",0,0,0,0,0,0\n')
    assert prepare("Toxic", tmp_path).left_out == {"no text": 1}


def test_a_file_with_nothing_usable_is_refused(tmp_path):
    (tmp_path / "mlc_dataset.txt").write_text("1|,||,|标题|,||,|\n", "utf-8")
    with pytest.raises(UserError, match="no usable sample \\(1 x no category\\)"):
        prepare("Toutiao", tmp_path)
    (tmp_path / "mlc_dataset.txt").write_text("")
    with pytest.raises(UserError, match=r"mlc_dataset\.txt"):
        prepare("Toutiao", tmp_path)


def test_an_open_quote_is_reported_by_line(tmp_path):
    (tmp_path / "train.csv").write_text(
        (FILES / "toxic" / "train.csv").read_text() + '"never closed'
    )
    with pytest.raises(
        UserError, match=r"train\.csv, line 8: not a row of a table: unexpected end of data"
    ):
        prepare("Toxic", tmp_path)


def test_progress_hears_of_every_byte():
    sizes = []
    prepare("Toxic", FILES / "toxic", advance=sizes.append)
    assert sum(sizes) == (FILES / "toxic" / "train.csv").stat().st_size


def test_publishers_split_is_kept():
    data = prepare("GoEmotions-Simplified", FILES / "goemotions-simplified")
    split = data.datasets["GoEmotions-Simplified"].split
    np.testing.assert_array_equal(split, ["train", "train", "validation", "test"])
