from pathlib import Path

import pytest

from tests.serving.words import WordModel
from zlpr import UserError
from zlpr.serving.limits import Limits
from zlpr.serving.service import Service, UnknownModelError, names_of


def test_folders_are_named_by_as_many_parts_as_tell_them_apart():
    folders = [Path("runs/a/model"), Path("runs/b/model")]
    assert names_of(folders) == {"a-model": folders[0], "b-model": folders[1]}
    assert list(names_of([Path("x/one"), Path("y/two")])) == ["one", "two"]
    with pytest.raises(UserError, match="given twice"):
        names_of([Path("one"), Path("x/../one")])


def test_a_service_finds_models_and_says_when_one_has_stopped():
    service = Service({"first": WordModel(3), "second": WordModel(3)}, Limits())
    assert service.find().name == "first"
    assert service.find("second").name == "second"
    with pytest.raises(UnknownModelError, match="no model 'third'"):
        service.find("third")
    assert service.ready
    service.models["second"].batcher.stop()
    assert not service.ready
    assert service.find("first").answer_texts(["w1"]).result(10)[0].chosen == [1]
    service.stop()


def test_nothing_is_served_by_no_models():
    with pytest.raises(UserError, match="at least one"):
        Service({}, Limits())
