"""Two lines in two tables make a kind of model, for every command and the library alike."""

from pathlib import Path

import pytest

import zlpr
from tests import frequency_kind
from tests.models import fitted
from zlpr._errors import UserError
from zlpr.cli.main import main
from zlpr.compare.cell import Place, run_cell
from zlpr.compare.faults import find_faults
from zlpr.compare.grid import cells, parse_grid
from zlpr.compare.report import budget
from zlpr.compare.results import OWN, Contest, Results
from zlpr.training import TrainingConfig, fit


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    frequency_kind.register(monkeypatch)


def test_a_new_kind_is_fitted_judged_saved_and_loaded(tmp_path: Path) -> None:
    train, validation, test = fitted.parts()
    result = fit(train, validation, TrainingConfig(model="frequency", prior=2.0), test=test)
    assert set(result.figures) >= {"validation", "test"}
    result.model.save(tmp_path / "model")
    loaded = zlpr.load(tmp_path / "model")
    assert loaded.predict(["any"]) == result.model.predict(["any"])
    assert type(loaded) is type(result.model)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "A `zlpr_frequency` model of 12 labels, trained by zlpr" in card


def test_a_new_kind_has_its_flags_and_refuses_those_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f'text {i},"{"a" if i % 3 else "b"}"\n' for i in range(60))
    (tmp_path / "data.csv").write_text("text,labels\n" + rows)
    start = ["train", str(tmp_path / "data.csv"), "--model", "frequency"]
    assert main([*start, "--prior", "2", "--out", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    for flags, fault in (
        (["--epochs", "3"], "model frequency has no setting --epochs; linear"),
        (["--loss", "bce"], "model frequency is not trained with a loss; leave it out"),
        (["--prior", "0"], "prior 0.0: expected a number above 0"),
    ):
        assert main([*start, *flags, "--out", str(tmp_path / "other")]) != 0
        assert fault in capsys.readouterr().err
    assert main(["models"]) == 0
    assert "frequency" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"linear has no setting 'prior' \(frequency has\)"):
        TrainingConfig(prior=2.0)


def test_a_kind_without_a_loss_is_compared_once() -> None:
    grid = parse_grid(
        {
            "data": ["demo"],
            "models": ["linear", "frequency"],
            "losses": ["zlpr", "bce"],
            "seeds": [0],
            "training": {"linear": {"regularisation": 1.0}, "frequency": {"prior": 3.0}},
        }
    )
    assert not find_faults(grid)
    assert [(cell.settings.model, cell.settings.loss.name) for cell in cells(grid)] == [
        ("linear", "zlpr"),
        ("linear", "bce"),
        ("frequency", "none"),
    ]
    record = run_cell(cells(grid)[-1], Place("zlpr compare", threads=1))
    assert record.error is None
    results = Results.from_records([record])
    own = results.get(Contest("demo", "frequency"), "none", OWN[0])
    assert own == {0: record.done.evaluation.test.own["subset_accuracy"]}
    (line,) = budget([record])
    assert line.startswith("With the model frequency every run was trained once, with the same")
