import bz2
import errno
import gzip
import lzma
import os
import socket

import pytest

from zlpr._errors import UserError
from zlpr.data import demo, files, load, read, write
from zlpr.data.files import plain_suffix, read_lines

LINE = '{"text": "冰箱坏了 – the fridge hums", "labels": ["坏", "fridge"]}\n'


def _lines(path, **how):
    return [line for block in read_lines(path, **how) for line in block.texts]


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
@pytest.mark.parametrize("keep_ending", [True, False])
def test_compressed_files_are_known_by_their_content(tmp_path, ending, pack, keep_ending):
    path = tmp_path / ("data.jsonl" + (ending if keep_ending else ""))
    path.write_bytes(pack(LINE.encode() * 3))
    assert list(read(path).texts) == ["冰箱坏了 – the fridge hums"] * 3


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_is_one_clear_error(tmp_path, ending, pack, damage):
    packed = bytearray(pack(b"".join(f"line {i * 7919}\n".encode() for i in range(5000))))
    if damage == "cut":
        packed = packed[: len(packed) // 2]
    else:
        packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / f"data.jsonl{ending}"
    path.write_bytes(packed)
    with pytest.raises(UserError, match=r"data.jsonl.*the compressed file is damaged"):
        _lines(path)


def test_plain_suffix_looks_behind_the_compression():
    from pathlib import Path

    assert plain_suffix(Path("a/Reviews.CSV.xz")) == ".csv"
    assert plain_suffix(Path("a/v1.2.jsonl")) == ".jsonl"
    assert plain_suffix(Path("a/b")) == ""


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes("﻿text,labels\na,b\n".encode())
    assert read(path).label_sets() == [("b",)]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("gb18030", "灯不亮了"), ("big5", "壞了"), ("latin-1", "déjà vu"), ("utf-16", "灯 lamp")],
)
def test_other_encodings_are_read_when_named(tmp_path, encoding, text):
    path = tmp_path / "data.csv"
    path.write_bytes(f"text,labels\n{text},a\n".encode(encoding))
    assert list(read(path, encoding=encoding).texts) == [text]


@pytest.mark.parametrize("padding", [0, 300_000])
def test_a_wrong_encoding_is_refused_with_line_and_column(tmp_path, padding):
    path = tmp_path / "data.csv"
    path.write_bytes(("text,labels\n" + "x" * padding + "好,a\n").encode() + b"caf\xe9,b\n")
    message = r"data.csv, line 3, column 4: byte 0xe9 is not UTF-8; .*encoding='gb18030' or"
    with pytest.raises(UserError, match=message):
        read(path)


def test_the_column_of_a_wrong_byte_on_a_line_longer_than_a_chunk(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"text,labels\n" + b"x" * 600_000 + b"\xff,a\n")
    with pytest.raises(UserError, match="line 2, column 600001: byte 0xff"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_utf_16_without_its_name_is_called_by_its_name(tmp_path, encoding):
    path = tmp_path / "data.csv"
    path.write_bytes("text,labels\na,b\n".encode(encoding))
    with pytest.raises(UserError, match=f"this is {encoding.upper()}.*encoding='{encoding}'"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_its_mark_is_no_text_of_nuls(tmp_path, encoding):
    path = tmp_path / "data.csv"
    path.write_bytes("text,labels\nété,b\n".encode(encoding))
    with pytest.raises(UserError, match=f"this is UTF-16 without its mark.*encoding='{encoding}'"):
        read(path)
    assert read(path, encoding=encoding).texts == ["été"]


def test_no_such_encoding(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("text,labels\na,b\n")
    for name in (
        "utf-9",
        "rot13",
        "hex",
        "a\0b",
        "idna",
        "undefined",
    ):  # Python has codecs of other things than text
        for how in ({"format": "csv"}, {}):
            with pytest.raises(UserError, match=r"data\.csv: no encoding is called '") as fault:
                read(path, encoding=name, **how)
            assert repr(name) in str(fault.value)
    (tmp_path / "data.txt").write_text("text,labels\na,b\n")
    with pytest.raises(UserError, match=r"data.txt: no encoding is called 'hex'"):
        read(tmp_path / "data.txt", encoding="hex")


def test_an_encoding_that_does_not_say_where_it_fails(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("text,labels\na,b\n")
    with pytest.raises(UserError, match=r"data.csv: not UTF-16"):
        read(path, encoding="utf-16")


def test_lines_end_where_files_end_them_and_nowhere_else(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes("a\u2028b\x0cc\x85d\r\ne\n\nf".encode())
    assert _lines(path) == ["a\u2028b\x0cc\x85d", "e", "", "f"]
    assert _lines(path, keep_returns=True)[0].endswith("\r")


def test_lines_are_numbered_across_blocks(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(1, 200_001)))
    blocks = list(read_lines(path))
    assert len(blocks) > 2
    assert all(int(block.texts[0]) == block.first for block in blocks)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE", 1_000_000)
    path = tmp_path / "bomb.jsonl.xz"
    path.write_bytes(lzma.compress(b"ok\n" + b" " * 50_000_000))
    with pytest.raises(UserError, match="line 2: longer than 1,000,000 characters"):
        _lines(path)


def test_reading_lines_is_lazy(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_bytes(LINE.encode() * 20_000 + b"\xff\xff\n")
    blocks = read_lines(path)
    assert next(blocks).first == 1  # the bad byte at the end has not been reached


@pytest.mark.parametrize(
    ("start", "what"),
    [(b"PK\x03\x04rest", "Excel"), (b"PAR1rest", "Parquet"), (b"%PDF-1.7", "PDF")],
)
def test_other_kinds_of_files_are_called_what_they_are(tmp_path, start, what):
    path = tmp_path / "data.csv"
    path.write_bytes(start)
    with pytest.raises(UserError, match=f"expected text, but this is .*{what}"):
        read(path)


def test_missing_and_empty_files_and_folders(tmp_path):
    with pytest.raises(UserError, match=r"none.csv: no such file"):
        read(tmp_path / "none.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(UserError, match=r"empty.csv: the file is empty"):
        read(tmp_path / "empty.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match=r"folder.csv: not a file"):
        read(tmp_path / "folder.csv")


def test_a_name_that_is_too_long(tmp_path):
    for name in ("x" * 5000, "x" * 5000 + ".csv"):
        for reader in (read, load):
            with pytest.raises(UserError, match=r"xxx….*: cannot be read: File name too long"):
                reader(tmp_path / name)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "labels": ["a"]}')

    def refuse(self, *args, **how):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(UserError, match=r"a\.jsonl: cannot be read: Permission denied"):
        read(path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.svm", "a.arff", "a.txt"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "dangling link", "loop", "process"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, name, kind, monkeypatch):
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    elif kind == "process":
        path.symlink_to("/proc/self/status")  # a file of no size, as all there
    else:
        path.symlink_to(tmp_path / ("nowhere" if kind == "dangling link" else name))
    with pytest.raises(UserError, match=f"{name}: (no such file|not a file|the file is empty)"):
        read(path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "saved"])
def test_what_may_not_be_read_is_named(tmp_path, name, monkeypatch):
    path = tmp_path / name
    write(demo.make(10), path, **({"format": "huggingface"} if name == "saved" else {}))

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    for opener in ("pathlib.Path.open", "pathlib.Path.read_bytes", "pyarrow.OSFile"):
        monkeypatch.setattr(opener, refuse)
    with pytest.raises(UserError, match=f"{name}.*: cannot be read.*Permission denied"):
        read(path)
