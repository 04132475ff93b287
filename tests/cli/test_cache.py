"""`zlpr cache` shows what is kept and clears it."""

import json
from pathlib import Path

import pytest

from tests import tiny
from zlpr.cli.main import main
from zlpr.models.embedding_cache import FOLDER, embed
from zlpr.models.encoder import Encoder


def test_the_cache_is_shown_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    assert main(["cache"]) == 0
    assert "0.0 MB, of at most 4,000.0 MB" in capsys.readouterr().out
    (tmp_path / "encoder").mkdir()
    encoder = Encoder(str(tiny.bert(tmp_path / "encoder")))
    embed(encoder, [f"bread {number}" for number in range(200)])
    assert main(["cache", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["encoders"][0]["encoder"] == encoder.name
    assert main(["cache"]) == 0
    assert "last used" in capsys.readouterr().out
    assert main(["cache", "--clear", "--json"]) == 0
    cleared = json.loads(capsys.readouterr().out)
    assert cleared["freed_bytes"] == said["encoders"][0]["bytes"]
    assert cleared["encoders"] == []
