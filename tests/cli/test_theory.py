import json

import pytest

from zlpr.cli.main import main


def test_prints_a_table_and_draws_its_figure(tmp_path, capsys):
    assert main(["theory", "terms", "link", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1000000   100.00%     92.63%       100.00%         60.00%" in printed
    for topic in ("terms", "link"):
        assert (tmp_path / f"{topic}.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_is_printed(capsys):
    assert main(["theory", "dependence", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["dependence"]
    assert numbers["coupling_residual"] < 1e-8
    assert max(map(abs, numbers["first_score"]["bce"])) < 1e-8  # its marginal stays at one half
    zlpr = numbers["first_score"]["zlpr"]
    assert zlpr == sorted(zlpr, reverse=True)


@pytest.mark.parametrize("topic", ["entropy"])
def test_an_unknown_topic_is_one_line(topic, capsys):
    assert main(["theory", topic]) == 2
    assert capsys.readouterr().err == (
        "zlpr: error: no topic 'entropy'; the topics are dependence, link, terms, regret\n"
    )
