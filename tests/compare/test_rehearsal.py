"""The paper's experiment in small: fake files as their publishers give them, and tiny encoders."""

import csv
import json
from pathlib import Path

import pytest

from tests import tiny
from zlpr.cli.main import main
from zlpr.data import published
from zlpr.data import sources as known

pytestmark = pytest.mark.usefixtures("quick_workers")
ROWS = 40
FILES = Path(__file__).parent.parent / "data" / "sources" / "files"
FIELDS = ("Computer Science", "Physics", "Mathematics", "Statistics", "Quantitative Biology",
          "Quantitative Finance")  # fmt: skip
TOXIC = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")


def table(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def write_raw(root: Path) -> None:
    """Forty samples of each source, in files as the fixtures of the sources have them."""
    for source in known.SOURCES:
        (root / source.name).mkdir(parents=True)

    def flags(row: int, number: int) -> list[int]:
        return [int(row % number == place or row % 3 == place) for place in range(number)]

    rows = range(ROWS)
    table(
        root / "Archive" / "train.csv",
        ["ID", "TITLE", "ABSTRACT", *FIELDS],
        [[i, f"Title {i}", f"We show fact {i}.", *flags(i, 6)] for i in rows],
    )
    table(
        root / "Toxic" / "train.csv",
        ["id", "comment_text", *TOXIC],
        [[f"{i:04}", f"Comment {i}", *flags(i, 6)] for i in rows],
    )
    table(
        root / "CNIPA" / "patents.csv",
        ["公开号", "发明名称", "摘要", "IPC分类号"],
        [[f"CN{i}A", f"泵{i}", f"一种泵{i}", f"F16J15/10;{'AB'[i % 2]}04D29/08"] for i in rows],
    )
    first = (FILES / "goemotions" / "goemotions_1.csv").read_text(encoding="utf-8").splitlines()[0]
    header = first.split(",")
    meta = ["someone", "baking", "t3_a", "t1_b", "1548381039.0", "5", "FALSE"]
    table(
        root / "GoEmotions" / "goemotions_1.csv",
        header,
        [[f"Remark {i}", f"c{i}", *meta, *flags(i, len(header) - 9)] for i in rows],
    )
    toutiao = root / "Toutiao"
    (toutiao / "all_cat.txt").write_text("news_car\nnews_tech\ndigital\n", encoding="utf-8")
    kinds = ("news_car", "news_tech", "digital")
    lines = [f"7{i:03}|,|{kinds[i % 3]},{kinds[i % 2]}|,|标题{i}|,|词|,|" for i in rows]
    (toutiao / "mlc_dataset.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    movies, genres = root / "CMU-Movie", ("Comedy", "Drama", "Thriller")
    made = [
        f"{i}\t/m/{i}\tFilm {i}\t2001\t1\t98.0\t{{}}\t{{}}\t"
        + json.dumps({"/m/a": genres[i % 3], "/m/b": genres[i % 2]})
        for i in rows
    ]
    (movies / "movie.metadata.tsv").write_text("\n".join(made) + "\n", encoding="utf-8")
    plots = "".join(f"{i}\tA plot of film {i}.\n" for i in rows)
    (movies / "plot_summaries.txt").write_text(plots, encoding="utf-8")
    xml = (FILES / "uspto" / "ipg240102.xml").read_text(encoding="utf-8")
    grant = xml[: xml.index("</us-patent-grant>")] + "</us-patent-grant>\n"
    grants = [
        grant.replace("11856841", f"1185{i:04}")
        .replace("Seal for a", f"Seal {i} for a")
        .replace("A ring of cork", f"Ring {i} of cork")
        for i in rows
    ]
    (root / "USPTO" / "ipg240102.xml").write_text("".join(grants), encoding="utf-8")


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all eleven sets prepared by the defaults, and an encoder."""
    folder = tmp_path_factory.mktemp("paper")
    write_raw(folder / "raw")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    for source in known.SOURCES:
        if published.set_name(source.sets[0]) is not None:
            assert main(["data", "prepare", source.name, "--raw", f"raw/{source.name}"]) == 0
    patch.undo()
    (folder / "bert-tiny").mkdir()
    tiny.bert(folder / "bert-tiny")
    return folder


def test_the_defaults_prepare_all_that_the_preset_reads(rehearsal, monkeypatch, capsys) -> None:
    monkeypatch.chdir(rehearsal)
    for name in published.SETS:
        assert (rehearsal / "data" / name / "train.jsonl").is_file()
    one, other = (
        [json.loads(line)["id"] for line in (rehearsal / "data" / name / "test.jsonl").open()]
        for name in ("Movie-Name", "Movie-Summary")
    )
    assert one == other  # a split for both
    grid = ["compare", "--preset", "paper", "--models", "hf:bert-tiny", "hf:./bert-tiny"]
    assert main([*grid, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["runs"] == 134
    assert plan["missing"] == []
    assert {entry["name"] for entry in plan["data"]} == set(published.SETS)
    assert all(sum(entry["sizes"]) == ROWS for entry in plan["data"])
    assert plan["hours"] > 0


def test_what_is_missing_is_said_with_how_to_get_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e").mkdir()
    tiny.bert(tmp_path / "e")
    assert main(["compare", "--preset", "paper", "--models", "hf:e", "hf:./e", "--dry-run"]) == 1
    printed = capsys.readouterr().out
    assert "134 runs on 11 data sets, at least" in printed
    assert "nothing was run" in printed
    get = "zlpr data download Toxic, then zlpr data prepare Toxic --raw raw/Toxic"
    assert get in " ".join(printed.split())
    assert "169,626 + 21,361 + 21,108" in printed  # the paper's sizes where the data is not there
    assert not (tmp_path / "zlpr-comparison").exists()


def test_the_preset_runs_and_reports_beside_the_paper(rehearsal, monkeypatch, capsys) -> None:
    monkeypatch.chdir(rehearsal)
    # Figures of eleven sets take longer than their training; test_report draws those of others.
    monkeypatch.setattr("zlpr.compare.report.html_report", lambda *_, **__: "")
    grid = ["compare", "--preset", "paper", "--models", "hf:bert-tiny", "--losses", "zlpr"]
    fast = ["--set", "hf.epochs=1", "--workers", "1", "--out", "compared", "--json"]
    assert main([*grid, *fast]) == 0
    records = [json.loads(path.read_text()) for path in (rehearsal / "compared").rglob("*.json")]
    settings = [record["settings"] for record in records if "settings" in record]
    assert {entry["data"] for entry in settings} == set(published.SETS)
    assert {entry["split"] for entry in settings} == {"published"}
    report = (rehearsal / "compared" / "report.md").read_text(encoding="utf-8")
    assert "| 91.5 |" in report  # Toxic, BERT, ZLPR: 91.51 in the paper
