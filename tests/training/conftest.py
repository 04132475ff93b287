from pathlib import Path

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def still_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without dropout: what it computes does not depend on who draws which random number."""
    return tiny.bert(tmp_path_factory.mktemp("still_bert"), dropout=0.0)


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.roberta(tmp_path_factory.mktemp("roberta"))
