import json

import pytest
import torch

from zlpr.cli.main import main
from zlpr.losses import zlpr_loss
from zlpr.theory import regret, rules


def test_prints_a_table_and_draws_its_figure(tmp_path, capsys):
    assert main(["theory", "terms", "link", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1000000   100.0 %     92.6 %       100.0 %         60.0 %" in printed
    for topic in ("terms", "link"):
        assert (tmp_path / f"{topic}.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_is_printed(capsys):
    assert main(["theory", "dependence", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["dependence"]
    assert numbers["coupling_residual"] < 1e-8
    assert max(map(abs, numbers["first_score"]["bce"])) < 1e-8  # its marginal stays at one half
    zlpr = numbers["first_score"]["zlpr"]
    assert zlpr == sorted(zlpr, reverse=True)


@pytest.fixture(scope="module")
def _measured_once():
    """Two commands that ask for the same regrets, which take seconds, share them."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((regret, "regrets"), (rules, "rule_regrets")):
            patch.setattr(module, name, _remembered(getattr(module, name)))
        yield


def _remembered(function):
    known = {}

    def call(progress, **arguments):
        key = tuple(arguments.items())
        if key not in known:
            known[key] = function(progress=progress, **arguments)
        return known[key]

    return call


@pytest.mark.usefixtures("_measured_once")
def test_regret_prints_means_with_errors_and_draws_them(tmp_path, capsys):
    assert main(["theory", "regret", "--populations", "2", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("mean ± standard error over 2 random populations") == 3
    bce, *_ = [line for line in printed.out.splitlines() if line.startswith("bce")]
    assert bce.split()[1] == "0.00±0.00*"  # independent labels: the mode is each label by itself
    assert printed.err == ""  # no bar where nobody watches
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("_measured_once")
def test_regret_as_json_is_the_same_numbers(capsys):
    assert main(["theory", "regret", "--populations", "2", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["regret"]["losses"]
    assert {"loss", "metric", "dependence", "cut", "mean", "error"} == set(numbers[0])


def test_the_dependence_figure_is_drawn(tmp_path):
    assert main(["theory", "dependence", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "dependence.png").read_bytes().startswith(b"\x89PNG")


def test_a_bar_is_shown_to_who_watches(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["theory", "dependence"]) == 0
    printed = capsys.readouterr()
    assert "dependence" in printed.err
    assert "63/63" in printed.err


def test_one_population_is_refused(capsys):
    assert main(["theory", "regret", "--populations", "1"]) == 2
    assert "at least 2" in capsys.readouterr().err


@pytest.mark.parametrize("topic", ["entropy"])
def test_an_unknown_topic_is_one_line(topic, capsys):
    assert main(["theory", topic]) == 2
    assert capsys.readouterr().err == (
        "zlpr: error: no topic 'entropy'; "
        "there are: all, equations, dependence, link, terms, regret\n"
    )


def test_by_itself_it_says_what_it_can_show(capsys):
    assert main(["theory"]) == 2
    shown = capsys.readouterr().out
    assert shown.startswith("usage: zlpr theory")
    assert "example:" in shown


@pytest.mark.parametrize("seed", ["-1", "4294967296"])
def test_a_seed_out_of_range_is_refused_before_anything_is_computed(seed, capsys):
    assert main(["theory", "regret", f"--seed={seed}"]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert f"--seed is {seed}" in printed.err


def test_the_equations_are_shown_term_by_term(capsys):
    assert main(["theory", "equations"]) == 0
    printed = capsys.readouterr().out
    assert "max(0, s_j - s_i, s_j, -s_i)" in printed
    zlpr = next(line for line in printed.splitlines() if line.startswith("zlpr")).split()
    assert zlpr[1] == "0.9000"  # 0.4 + 0.5, the pair that is wrong by most
    assert zlpr[-1] == "0.9000"
    assert printed.count(" yes") == 6  # two ones, two and two labels
    assert main(["theory", "equations", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["equations"]
    assert len(numbers["expansion"]) == 8
    scores = torch.tensor([1.0, -0.5, 0.4, -1.5], dtype=torch.float64, requires_grad=True)
    loss = zlpr_loss(scores, torch.tensor([1, 1, 0, 0]))
    loss.backward()
    assert numbers["over_pairs"] == pytest.approx(loss.item(), rel=1e-6)
    assert numbers["gradient"] == pytest.approx(scores.grad.tolist(), rel=1e-6)
