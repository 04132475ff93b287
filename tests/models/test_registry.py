import subprocess
import sys

import pytest

from zlpr._errors import UserError
from zlpr.models import FittedModel, registry
from zlpr.training.registry import config_of, trainer_of


@pytest.mark.parametrize("name", registry.available())
def test_a_kind_has_one_name_in_both_tables_and_in_folders(name):
    kind = registry.info(name)
    model = kind.usage
    assert registry.kind_of(model) is kind
    assert issubclass(kind.load_class(), FittedModel)
    assert kind.load_class().kind == kind.saved_as
    assert registry.saved_as(kind.saved_as) is kind
    assert config_of(model)(model=model).model == model
    assert isinstance(trainer_of(model).reading(config_of(model)(model=model)), str)


@pytest.mark.parametrize("model", ["", "liner", "hf", "hf:", "linear:x", "HF:x"])
def test_a_model_that_is_none_is_named_with_those_there_are(model):
    with pytest.raises(UserError, match=r"linear|hf:NAME_OR_PATH"):
        registry.kind_of(model)


def test_the_kinds_and_their_settings_load_nothing_heavy():
    code = (
        "import sys; from zlpr.models import registry; from zlpr.training.registry import *;"
        "[config_of_kind(name) for name in registry.available()];"
        "heavy = ('torch', 'numpy', 'scipy', 'transformers');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_training_chooses_a_model_by_the_data():
    with pytest.raises(UserError, match="name the model here, linear for fewer than 500 labels"):
        registry.kind_of("auto")


@pytest.mark.parametrize("kind", ["hf", "embed", "embed-shortlist"])
def test_a_folder_may_be_in_the_users_home(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.argument_of(f"{kind}:~/encoder") == str(tmp_path / "encoder")
    assert registry.argument_of(f"{kind}:owner/encoder~2") == "owner/encoder~2"
