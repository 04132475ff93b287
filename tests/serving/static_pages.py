"""A small model that a static page can hold, and its parts."""

import functools

from tests.models import fitted
from zlpr.decoding import Calibrator
from zlpr.models.feature_config import FeatureConfig
from zlpr.serving.review import review
from zlpr.training import TrainingConfig, fit


def trained(analyzer="word", decode="threshold"):
    train, validation, _ = fitted.parts()
    features = FeatureConfig(analyzer=analyzer, max_features=1_500)
    config = TrainingConfig(decode=decode, refit=False, regularisation=0.3, features=features)
    model = fit(train, validation, config).model
    model.calibrator = Calibrator().fit(validation.labels, model.predict_scores(validation.texts))
    return model


@functools.cache
def model_and_review():
    model, (_, validation, test) = trained(), fitted.parts()
    return model, review(model, validation, test)
