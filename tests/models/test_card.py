import re

from tests.models import fitted
from zlpr.models.card import model_card


def test_the_card_shows_data_figures_decoding_and_limits():
    result = fitted.result()
    result.model.record.metrics["test"] = {"micro_f1": 0.75, "empty_predictions": 0.125}
    card = model_card(result.model)
    assert re.search(r"\| Micro-F1 \|.* 0\.7500 \|", card)
    assert re.search(r"\| share of samples without a predicted label \|.* 0\.1250 \|", card)
    assert f"train samples: {len(fitted.parts()[0])}" in card
    threshold = result.model.decoder.to_config()["threshold"]
    assert f"By the rule `threshold` (threshold = {threshold:.4g}), fitted on validation" in card
    assert "the loss's own bound" in model_card(fitted.result(decode="zero").model)
    assert "## Limits" in card
    for name in result.model.label_names:
        assert name in card
