import io
import tracemalloc
import zipfile

import pytest

from tests.data.sources.test_sources import FILES
from zlpr._errors import UserError
from zlpr.data.sources import prepare, uspto

WEEK = (FILES / "uspto" / "ipg240102.xml").read_bytes()
DOCUMENTS = [b"<?xml" + document for document in WEEK.split(b"<?xml")[1:]]


def write_week(folder, content):
    (folder / "ipg.xml").write_bytes(content)
    return folder


def test_grants_of_a_week():
    prepared = prepare("USPTO", FILES / "uspto")
    titles, abstracts = prepared.datasets["USPTO-Title"], prepared.datasets["USPTO-Abstract"]
    assert titles.ids == ["11856841", "06900000"]
    assert titles.texts == ["Seal for a quiet pump", "Wheat that bends but does not break"]
    assert abstracts.texts[0] == "A ring of cork, H2O-tight, holds the water in."
    assert titles.label_sets() == [("F04D", "F16J"), ("A01H", "C12N")]
    assert prepared.left_out == {"document that is no grant": 1, "no IPC code": 1}


def test_characters_by_number_are_text(tmp_path):
    content = DOCUMENTS[0].replace(b"Seal for", b"Seal &#x2014; for")
    data = prepare("USPTO-Title", write_week(tmp_path, content)).datasets["USPTO-Title"]
    assert data.texts == ["Seal — for a quiet pump"]


def test_table_form():
    data = prepare("USPTO-Title", FILES / "uspto-table").datasets["USPTO-Title"]
    assert data.texts == ["Folding ladder", "Warm glove"]
    assert data.label_sets() == [("E06C", "F16B"), ("A41D", "H05B")]


def test_table_with_a_split_keeps_it(tmp_path):
    header = "label,application_type_abstract,publication_title_claims\n"
    for name in ("train", "val", "test"):
        (tmp_path / f"{name}.csv").write_text(f'{header}"G,H",utility a {name},Title of {name}\n')
    data = prepare("USPTO-Abstract", tmp_path).datasets["USPTO-Abstract"]
    assert dict(zip(data.split, data.texts, strict=True)) == {
        "train": "utility a train",
        "validation": "utility a val",
        "test": "utility a test",
    }
    assert data.label_names == ("G", "H")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 64, 1000, 1 << 20])
def test_documents_are_found_wherever_a_read_ends(size, monkeypatch):
    monkeypatch.setattr(uspto, "_CHUNK", size)
    found: dict[int, bytes] = {}
    for number, piece in uspto._pieces(io.BytesIO(b" \n" + WEEK)):
        found[number] = found.get(number, b"") + piece
    assert list(found.values()) == [b" \n", *DOCUMENTS]


def test_documents_may_follow_each_other_on_one_line(tmp_path):
    joined = b"".join(document.strip() for document in DOCUMENTS)
    assert len(prepare("USPTO-Title", write_week(tmp_path, joined)).datasets["USPTO-Title"]) == 2


def test_front_pages_alone_are_enough(tmp_path):
    head, _, rest = DOCUMENTS[0].partition(b"<drawings")
    content = head + b"</us-patent-grant>\n" + DOCUMENTS[3]
    assert rest
    assert len(prepare("USPTO-Title", write_week(tmp_path, content)).datasets["USPTO-Title"]) == 2


def test_malformed_document_is_reported_by_line_and_skipped_alone(tmp_path):
    broken = DOCUMENTS[0].replace(b"</i>", b"</b>")
    folder = write_week(tmp_path, DOCUMENTS[3] + broken + DOCUMENTS[0])
    line = (DOCUMENTS[3] + broken).split(b"</b> pump")[0].count(b"\n") + 1
    with pytest.raises(UserError, match=rf"ipg\.xml, line {line}, column \d+: not well-formed XML"):
        prepare("USPTO-Title", folder)
    prepared = prepare("USPTO-Title", folder, skip_bad_rows=True)
    assert prepared.datasets["USPTO-Title"].ids == ["06900000", "11856841"]
    assert prepared.left_out == {"bad row": 1}


@pytest.mark.parametrize("marker", [b"</description>", b"</abstract>"])
def test_a_file_cut_short_is_noticed(marker, tmp_path):
    cut = DOCUMENTS[3] + DOCUMENTS[0].partition(marker)[0]
    with pytest.raises(UserError, match=r"cut short|not well-formed"):
        prepare("USPTO-Title", write_week(tmp_path, cut))


def with_entities(declarations, reference):
    content = DOCUMENTS[0].replace(b"[ ]", f"[ {declarations} ]".encode())
    return content.replace(b"Seal for", f"Seal {reference} for".encode())


def test_entities_are_neither_expanded_nor_fetched(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("do not read me")
    declarations = f'<!ENTITY a "boom"> <!ENTITY file SYSTEM "{secret.as_uri()}">'
    week = write_week(tmp_path, with_entities(declarations, "&a;&file;&mdash;"))
    assert prepare("USPTO-Title", week).datasets["USPTO-Title"].texts == ["Seal for a quiet pump"]


def test_an_entity_bomb_is_refused_and_stays_small(tmp_path):
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    write_week(tmp_path, with_entities(f'<!ENTITY e0 "boom"> {bomb}', "&e9;"))
    tracemalloc.start()
    with pytest.raises(UserError, match="entity amplification"):
        prepare("USPTO-Title", tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6


def test_memory_does_not_grow_with_the_description(tmp_path):
    paragraph = b"<p>One seal rests on another seal.</p>\n"
    long = (
        DOCUMENTS[0]
        .replace(b"<p id=", paragraph * 400_000 + b"<p id=", 2)
        .replace(paragraph * 400_000 + b"<p id=", b"<p id=", 1)
    )
    assert len(long) > 10e6
    with zipfile.ZipFile(tmp_path / "ipg.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ipg.xml", long)
    del long
    tracemalloc.start()
    assert len(prepare("USPTO-Title", tmp_path).datasets["USPTO-Title"]) == 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6
