"""The averaged perceptron for ranking labels: a linear model, trained another way."""

from zlpr.models.linear import LinearModel


class PerceptronModel(LinearModel):
    """Scores `X W + b`, with the mean of the weights along the way."""

    kind = "zlpr_perceptron"
