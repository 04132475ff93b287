"""What `test_keras.py` runs once per backend, in a process of its own: Keras chooses at import."""

import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import torch
from keras import ops

from tests.losses.samples import scores_and_targets
from zlpr import losses, metrics
from zlpr.integrations import keras as ours

LOSSES = {
    "zlpr": ours.ZLPRLoss,
    "bce": ours.BCELoss,
    "focal": ours.FocalLoss,
    "dice1": ours.Dice1Loss,
    "dice2": ours.Dice2Loss,
    "ranking": ours.RankingLoss,
    "warp": ours.WARPLoss,
    "bp_mll": ours.BPMLLLoss,
    "lsep": ours.LSEPLoss,
    "cross_entropy": ours.CrossEntropyLoss,
}
METRICS = {
    "subset_accuracy": ours.SubsetAccuracy,
    "example_f1": ours.ExampleF1,
    "micro_f1": ours.MicroF1,
    "macro_f1": ours.MacroF1,
    "average_precision": ours.AveragePrecision,
    "ranking_loss": ours.RankingLossMetric,
}
WEIGHT = [0.5, 0.0, 2.0]


def value_and_gradient(loss, labels, scores):
    """Unreduced values and the gradient of their sum, as the backend has it."""
    if keras.backend.backend() == "torch":
        s = torch.tensor(scores, requires_grad=True)
        values = loss(torch.tensor(labels), s)
        values.sum().backward()
        return values.detach().numpy(), s.grad.numpy()
    import jax

    jax.config.update("jax_disable_most_optimizations", True)  # to compile takes most of the time

    def total(s):
        values = loss(labels, s)
        return values.sum(), values

    gradient, values = jax.jit(jax.grad(total, has_aux=True))(scores)
    return np.asarray(values), np.asarray(gradient)


def cells():
    """Random rows, and hard ones: no positive label, no negative one, huge and infinite scores."""
    scores, labels = scores_and_targets(0, (6, 3))
    hard = [[1, -2, 0.5], [1, -2, 0.5], [-1e4, 1e4, 3], [1e30, -1e30, 0], [2, -np.inf, -np.inf]]
    sets = [[0, 0, 0], [1, 1, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]
    scores = np.concatenate([scores.numpy(), np.array(hard)]).astype("float32")
    return scores, np.concatenate([labels.numpy(), np.array(sets)]).astype("float32")


def check_loss(name, tolerance=3e-6):
    """Values and gradients with weights and unknown labels are those of `zlpr.losses`."""
    scores, labels = cells()
    mask = np.ones(labels.shape, bool)
    mask[0, 2] = mask[3, 0] = False
    options = {"label_weight": WEIGHT}
    if LOSSES[name].has_pos_weight:
        options["pos_weight"] = 3.0
    loss = LOSSES[name](ignore_value=-1.0, reduction=None, **options)
    found = value_and_gradient(loss, np.where(mask, labels, -1), scores)
    s = torch.tensor(scores, requires_grad=True)
    options["label_weight"] = torch.tensor(WEIGHT)
    values = losses.info(name).function(
        s, torch.tensor(labels), label_mask=torch.tensor(mask), reduction="none", **options
    )
    values.sum().backward()
    for mine, theirs in zip(found, (values.detach(), s.grad), strict=True):
        np.testing.assert_allclose(
            mine, theirs.numpy(), rtol=tolerance, atol=tolerance, err_msg=name
        )


def check_round_trip(name):
    loss = LOSSES[name](label_weight=WEIGHT, ignore_value=-1, reduction="sum")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss)
    assert again.get_config() == loss.get_config()


def check_weights_and_reductions():
    """Sample weights and the mean are those of `zlpr.losses`, for a loss over the batch, too."""
    scores, labels = (array[:6] for array in cells())
    weight = np.linspace(0, 2, 6, dtype="float32")
    for name in ("zlpr", "dice2"):
        found = LOSSES[name]()(labels, scores, sample_weight=weight)
        tensors = (torch.tensor(array) for array in (scores, labels))
        expected = losses.info(name).function(*tensors, sample_weight=torch.tensor(weight))
        np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=2e-6)


def check_masked_steps():
    """A step that Keras masks counts neither in the sum nor in the number of samples."""
    inputs = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    inputs[1, 2] = 0.0
    labels = np.tile(np.array([1.0, 0.0, 1.0], "float32"), (2, 3, 1))
    model = keras.Sequential([keras.layers.Masking(), keras.layers.Dense(3)])
    scores = model(inputs)
    found = ours.ZLPRLoss()(labels, scores)
    kept = torch.tensor(ops.convert_to_numpy(scores)).reshape(6, 3)[:5]
    expected = losses.zlpr_loss(kept, torch.tensor(labels).reshape(6, 3)[:5])
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected.numpy(), rtol=1e-5)


def check_metrics():
    """Batch by batch, both conventions, ties and empty cases: the figures of `zlpr.metrics`."""
    generator = np.random.default_rng(0)
    scores = generator.integers(-2, 3, (30, 5)).astype("float32")
    labels = (generator.random((30, 5)) < 0.3).astype("float32")
    labels[:, 4] = 0
    scores[:, 4] = -5
    labels[:3], scores[0] = 0, -1.0
    for empty in ("paper", "sklearn"):
        expected = metrics.evaluate(labels, scores, scores > 0, empty=empty)
        for name, kind in METRICS.items():
            metric = kind(empty=empty)
            for rows in (slice(0, 7), slice(7, 30)):
                metric.update_state(labels[rows], scores[rows])
            found = float(ops.convert_to_numpy(metric.result()))
            np.testing.assert_allclose(found, expected[name], rtol=1e-6, err_msg=name)
    doubled = ours.ExampleF1()
    doubled.update_state(labels, scores, sample_weight=np.arange(30) < 10)
    np.testing.assert_allclose(
        float(ops.convert_to_numpy(doubled.result())),
        metrics.example_f1(labels[:10], scores[:10] > 0),
        rtol=1e-6,
    )
    doubled.reset_state()
    assert float(ops.convert_to_numpy(doubled.result())) == 0.0
    for kind in METRICS.values():
        unsound = kind()
        unsound.update_state(labels[:2], np.where(np.eye(2, 5) == 1, np.nan, scores[:2]))
        assert np.isnan(ops.convert_to_numpy(unsound.result())), kind


def check_mistakes():
    scores, labels = np.zeros((1, 2), "float32"), np.array([[1.0, -1.0]], "float32")
    for call in (ours.ZLPRLoss(), ours.MicroF1().update_state):
        with pytest.raises(ValueError, match="labels must"):
            call(labels, scores)
    with pytest.raises(ValueError, match=r"y_true must have the shape \(1, 2\), got \(1, 1\)"):
        ours.MicroF1().update_state(labels[:, :1], scores)
    with pytest.raises(ValueError, match=r"label_weight must have the shape .*, got \(3,\)"):
        ours.ZLPRLoss(label_weight=[1.0, 2.0, 3.0])(scores, scores)
    with pytest.raises(ValueError, match="Dice2Loss has no pos_weight"):
        ours.Dice2Loss(pos_weight=2.0)
    with pytest.raises(ValueError, match="ignore_value is NaN"):
        ours.ZLPRLoss(ignore_value=float("nan"))


def check_model():
    """Compiled, fitted, saved and loaded: the figures stay what they were."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(128, 6)).astype("float32")
    labels = (inputs[:, :4] > 0).astype("float32")
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile(optimizer=keras.optimizers.Adam(0.1), loss=ours.ZLPRLoss(), metrics=_metrics())
    history = model.fit(inputs, labels, epochs=20, batch_size=32, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    figures = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    scores = model.predict(inputs, verbose=0)
    expected = metrics.evaluate(labels, scores, scores > 0)
    for name in METRICS:
        np.testing.assert_allclose(figures[name], expected[name], rtol=1e-5, err_msg=name)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.keras")
        again = keras.models.load_model(Path(folder) / "model.keras")
    assert again.evaluate(inputs, labels, verbose=0, return_dict=True) == figures


def _metrics():
    return [kind() for kind in METRICS.values()]


def main():
    for name in LOSSES:
        check_loss(name)
        check_round_trip(name)
    check_weights_and_reductions()
    check_masked_steps()
    check_metrics()
    check_mistakes()
    check_model()
    sys.stdout.write(f"all checks passed on {keras.backend.backend()}\n")


if __name__ == "__main__":
    main()
