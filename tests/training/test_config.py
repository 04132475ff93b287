import json

import pytest

from zlpr._errors import UserError
from zlpr.training import TrainingConfig


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "bert"},
        {"decode": "half"},
        {"metric": "accuracy"},
        {"decode_metric": "ranking_loss"},
        {"loss": "zlrp"},
        {"regularisation": 0},
        {"epochs": -1},
        {"label_smoothing": 1.0},
        {"mixup": -0.1},
        {"preset": "best"},
    ],
)
def test_a_wrong_setting_is_named(wrong):
    (name,) = wrong
    with pytest.raises(UserError, match=name):
        TrainingConfig(**wrong)


def test_settings_are_plain_json():
    config = TrainingConfig(loss_params={"pos_weight": 2.7})
    assert json.loads(json.dumps(config.to_dict()))["loss_params"] == {"pos_weight": 2.7}
