"""Each extra does what its formula says, alone and together with the others."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training import worker
from tests.training.test_trainer import prepare, train
from zlpr._errors import UserError
from zlpr.losses import registry, zlpr_divergence
from zlpr.training import TrainingConfig, fit
from zlpr.training import extras as module
from zlpr.training.batches import GlobalBatches
from zlpr.training.extras import RADIUS, Extras, Mixture, adversarial_step, pass_over_batch
from zlpr.training.transformer import TransformerConfig


def batch(folder: Path, rows: int = 6) -> tuple[Any, dict[str, Tensor], Tensor]:
    network, data, collate = prepare(folder)
    inputs = collate([data[i] for i in range(rows)])
    return network.train(), inputs, inputs.pop("labels")


def passed(folder: Path, real: Tensor | None = None, **options: float) -> Any:
    network, inputs, targets = batch(folder)
    torch.manual_seed(3)
    return pass_over_batch(
        network, network, inputs, targets, real, Extras(link_scale=2.0, **options)
    )


def bernoulli_divergence(scores: Tensor, other: Tensor, scale: float) -> Tensor:
    """Between independent labels of probability sigma(scale * score), from the definition."""
    p, q = torch.sigmoid(scale * scores.double()), torch.sigmoid(scale * other.double())
    return (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).sum(dim=-1)


def test_without_extras_a_pass_gives_the_networks_scores_and_the_targets(bert: Path) -> None:
    network, inputs, targets = batch(bert)
    torch.manual_seed(3)
    expected = network(**inputs).logits
    plain = passed(bert)
    assert torch.equal(plain.views[0], expected)
    assert torch.equal(plain.targets, targets)
    assert plain.penalty == 0


def test_label_smoothing_moves_targets_towards_a_half(bert: Path) -> None:
    hard, soft = passed(bert).targets, passed(bert, label_smoothing=0.2).targets
    assert torch.allclose(soft, torch.where(hard, 0.9, 0.1))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_divergence_is_that_of_the_losss_own_probabilities(scale: float) -> None:
    torch.manual_seed(0)
    scores, other = torch.randn(4, 7), torch.randn(4, 7)
    extras = Extras(link_scale=scale)
    one = bernoulli_divergence(scores, other, scale)
    both = one + bernoulli_divergence(other, scores, scale)
    assert torch.allclose(extras.divergence(scores, other).double(), one, rtol=1e-5)
    assert torch.allclose(
        extras.divergence(scores, other, symmetric=True).double(), both, rtol=1e-5
    )


def test_r_drop_compares_two_dropout_passes_by_the_symmetric_divergence(bert: Path) -> None:
    result = passed(bert, r_drop=3.0)
    first, second = result.views
    assert not torch.allclose(first, second)
    expected = 3.0 / 4 * zlpr_divergence(first, second, symmetric=True, reduction="sum")
    assert torch.allclose(result.penalty, expected)


@pytest.mark.parametrize("loss", ["zlpr", "bce", "dice2"])
def test_r_drops_weight_is_that_of_a_loop_of_ones_own(
    bert: Path, tmp_path: Path, loss: str
) -> None:
    config = TransformerConfig(model="hf:x", loss=loss, r_drop=2.0)
    trained = train(bert, tmp_path, loss, extras=Extras.of(config))[0]
    network, data, collate = prepare(bert)
    rows = next(iter(GlobalBatches(len(data), 16, seed=42, lengths=data.lengths)))
    inputs = collate([data[row] for row in rows])
    targets = inputs.pop("labels")
    torch.manual_seed(7)
    twice = {name: torch.cat([value, value]) for name, value in inputs.items()}
    one, two = network.train()(**twice).logits.chunk(2)
    module, link = registry.create(loss), registry.info(loss).link_scale
    by_hand = (module(one, targets) + module(two, targets)) / 2
    both = bernoulli_divergence(one, two, link) + bernoulli_divergence(two, one, link)
    by_hand = by_hand + 2.0 / 4 * both.mean()
    assert trained[0] == pytest.approx(by_hand.item(), rel=1e-4)


def test_r_drop_has_nothing_to_compare_without_dropout(still_bert: Path) -> None:
    result = passed(still_bert, r_drop=3.0)
    assert torch.allclose(*result.views, atol=1e-6)
    assert float(result.penalty.detach()) == pytest.approx(0, abs=1e-9)


def test_mixing_scores_is_mixing_the_features_of_the_last_layer(bert: Path) -> None:
    network, inputs, targets = batch(bert)
    torch.manual_seed(3)
    plain = network(**inputs)  # draws the same dropout as the pass does
    mixture = Mixture.draw(len(targets), 0.7)
    layers = [m for m in network.modules() if isinstance(m, nn.Linear)]
    handle = layers[-1].register_forward_pre_hook(lambda _m, args: (mixture(args[0]),))
    torch.manual_seed(3)
    expected = network(**inputs).logits
    handle.remove()
    result = passed(bert, mixup=0.7)
    assert torch.allclose(result.views[0], expected, atol=1e-6)
    own = targets.float()
    assert torch.allclose(
        result.targets, mixture.weight * own + (1 - mixture.weight) * own[mixture.partner]
    )
    assert not torch.allclose(expected, plain.logits)


def test_the_mixing_weight_is_drawn_from_a_symmetric_beta_distribution() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([Mixture.draw(2, 0.5).weight for _ in range(4000)])
    assert weights.mean() == pytest.approx(0.5, abs=0.02)
    assert weights.var() == pytest.approx(1 / (4 * (2 * 0.5 + 1)), rel=0.05)


def test_power_iteration_finds_the_direction_in_which_a_divergence_grows_most() -> None:
    torch.manual_seed(0)
    root = torch.randn(2, 5, 5, dtype=torch.float64)
    curvature = root @ root.mT  # one quadratic form per sample, over steps of shape (1, 5)

    def divergence(step: Tensor) -> Tensor:
        flat = step.flatten(1)
        return torch.einsum("ni,nij,nj->n", flat, curvature, flat) / 2

    step = adversarial_step(divergence, torch.randn(2, 1, 5, dtype=torch.float64), 60)
    most = RADIUS**2 * torch.linalg.eigvalsh(curvature)[:, -1] / 2
    assert torch.allclose(divergence(step), most, rtol=1e-3)
    assert torch.allclose(step.flatten(1).norm(dim=1), torch.full((2,), RADIUS).double())


def test_the_adversarial_step_is_as_long_as_asked(still_bert: Path) -> None:
    small, large = (passed(still_bert, vat=1.0, radius=radius) for radius in (0.01, 1.0))
    assert 0 < small.penalty < large.penalty
    with pytest.raises(UserError, match="vat_radius and vat_iterations go with vat"):
        TransformerConfig(model="hf:x", vat_radius=2.0)
    extras = Extras.of(TransformerConfig(model="hf:x", vat=1.0, vat_radius=2.0, vat_iterations=3))
    assert (extras.radius, extras.power_iterations) == (2.0, 3)


def test_the_adversarial_step_follows_as_many_gradients_as_asked(
    still_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, float]] = []

    def remember(divergence: Any, start: Tensor, iterations: int, radius: float) -> Tensor:
        asked.append((iterations, radius))
        return adversarial_step(divergence, start, iterations, radius)

    monkeypatch.setattr(module, "adversarial_step", remember)
    one, many = (passed(still_bert, vat=1.0, power_iterations=n, radius=0.1) for n in (1, 20))
    assert asked == [(1, 0.1), (20, 0.1)]
    assert one.penalty < many.penalty  # from the same start, nearer to the worst direction


def test_virtual_adversarial_training_adds_the_divergence_under_the_worst_step(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Tensor] = []

    def remember(*args: Any) -> Tensor:
        steps.append(adversarial_step(*args))
        return steps[-1]

    monkeypatch.setattr(module, "adversarial_step", remember)
    result = passed(bert, vat=2.0)
    network, inputs, _ = batch(bert)
    network.eval()
    embedded = network.get_input_embeddings()(inputs["input_ids"])
    rest = {"attention_mask": inputs["attention_mask"]}
    clean = network(inputs_embeds=embedded, **rest).logits
    moved = network(inputs_embeds=embedded + steps[0], **rest).logits
    expected = 2.0 * zlpr_divergence(clean, moved, reduction="sum")
    assert torch.allclose(result.penalty, expected, rtol=1e-4)
    random = torch.randn_like(steps[0]) * inputs["attention_mask"].unsqueeze(-1)
    other = network(inputs_embeds=embedded + RADIUS * module.unit(random), **rest).logits
    assert zlpr_divergence(clean, moved) > zlpr_divergence(clean, other)
    assert network.training is False
    assert not steps[0][inputs["attention_mask"] == 0].any()  # padding is not moved


def test_without_a_mask_the_adversarial_step_moves_every_token(still_bert: Path) -> None:
    network, inputs, targets = batch(still_bert, rows=1)  # nothing is padded
    penalties = []
    for given in (inputs, {"input_ids": inputs["input_ids"]}):
        torch.manual_seed(3)
        extras = Extras(vat=1.0, link_scale=2.0)
        penalties.append(pass_over_batch(network, network, given, targets, None, extras).penalty)
    assert torch.allclose(*penalties)


def test_the_adversarial_penalty_holds_the_clean_scores_fixed(still_bert: Path) -> None:
    network, inputs, targets = batch(still_bert)
    result = pass_over_batch(
        network, network, inputs, targets, None, Extras(vat=1.0, link_scale=2.0)
    )
    result.penalty.backward()
    gradient = network.classifier.bias.grad.clone()
    network.zero_grad()
    torch.manual_seed(0)
    assert gradient.abs().max() > 0  # through both it would cancel to 0 for a shift of all scores


def test_the_adversarial_passes_leave_every_part_in_its_mode(bert: Path) -> None:
    network, inputs, targets = batch(bert)
    network.bert.embeddings.eval()  # frozen, but for its normalisation
    network.bert.embeddings.LayerNorm.train()
    modes = [module.training for module in network.modules()]
    pass_over_batch(network, network, inputs, targets, None, Extras(vat=1.0, link_scale=2.0))
    assert len(set(modes)) == 2
    assert [module.training for module in network.modules()] == modes


@pytest.mark.parametrize("extra", ["r_drop", "vat"])
def test_the_divergence_is_taken_from_the_losss_bound(bert: Path, extra: str) -> None:
    network, inputs, targets = batch(bert)
    extras, penalties = Extras(link_scale=2.0, **{extra: 1.0}), []
    for bound in (0.0, torch.tensor([5.0, -5.0, 0.0, 2.0, 9.0])):
        torch.manual_seed(3)
        with torch.no_grad():
            network.classifier.bias.add_(bound)
        found = pass_over_batch(network, network, inputs, targets, None, extras, bound)
        penalties.append(float(found.penalty.detach()))
    assert penalties[0] > 0
    assert penalties[1] == pytest.approx(penalties[0], rel=1e-3)


def test_extras_add_up(bert: Path) -> None:
    dropped = passed(bert, r_drop=0.5)
    both = passed(bert, r_drop=0.5, vat=0.5, mixup=0.4, label_smoothing=0.1)
    assert len(both.views) == 2
    assert both.penalty > dropped.penalty  # R-Drop draws its dropout first: its part is the same
    assert float(both.targets.min()) >= 0.05
    assert float(both.targets.max()) <= 0.95


def test_rows_that_fill_up_count_nowhere(still_bert: Path) -> None:
    real = torch.tensor([True, False, True, True, False, True])
    part, whole = passed(still_bert, real, r_drop=1.0), passed(still_bert, r_drop=1.0)
    assert torch.equal(part.targets, whole.targets[real])
    assert torch.allclose(part.views[0], whole.views[0][real])


@pytest.mark.parametrize("loss", ["zlpr", "dice2"])
def test_training_with_all_extras_runs_and_is_repeatable(
    bert: Path, tmp_path: Path, loss: str
) -> None:
    extras = Extras(label_smoothing=0.1, mixup=0.2, r_drop=1.0, vat=1.0, link_scale=2.0)
    runs = [train(bert, tmp_path, loss, accumulation_steps=2, extras=extras)[0] for _ in range(2)]
    assert runs[0] == runs[1]
    assert all(value > 0 for value in runs[0])
    without = train(bert, tmp_path, loss, accumulation_steps=2)[0]
    assert runs[0][0] != pytest.approx(without[0], rel=1e-3)


@pytest.mark.parametrize("extra", ["label_smoothing", "mixup", "r_drop", "vat"])
def test_each_extra_is_one_setting(bert: Path, extra: str) -> None:
    settings = {"model": f"hf:{bert}", "epochs": 1, "batch_size": 32, "learning_rate": 0.01}
    plain, other = worker.run(settings), worker.run({**settings, extra: 0.3})
    assert other["losses"][0] != plain["losses"][0]


@pytest.mark.parametrize("scale", [None, 2.0])
def test_a_loss_that_only_ranks_has_no_probabilities_whatever_the_scale(
    scale: float | None,
) -> None:
    with pytest.raises(UserError, match="lsep has none: it only ranks"):
        Extras(r_drop=1.0, link_scale=scale).linked("lsep")
    assert Extras(mixup=1.0, link_scale=scale).linked("lsep").link_scale == scale
    assert Extras(vat=1.0, link_scale=scale).linked("bce").link_scale == (scale or 1.0)


def test_an_extra_that_the_loss_cannot_take_is_refused_by_name(bert: Path) -> None:
    settings = {"model": f"hf:{bert}", "loss": "ranking"}
    with pytest.raises(UserError, match="r_drop and vat compare probabilities, and ranking has"):
        worker.run({**settings, "r_drop": 1.0})
    with pytest.raises(UserError, match="label_smoothing and mixup give soft targets"):
        worker.run({**settings, "mixup": 0.3})


@pytest.mark.parametrize("loss", ["zlpr", "dice2"])
def test_the_linear_models_scores_move_towards_the_smoothed_targets(loss: str) -> None:
    linear = {"regularisation": 0.01, "loss": loss}
    plain, smooth = (linear_scores(**linear, label_smoothing=e) for e in (0.0, 0.4))
    assert abs(smooth).mean() < 0.8 * abs(plain).mean()


def test_the_linear_model_mixes_repeatably() -> None:
    mixed = [linear_scores(regularisation=1.0, mixup=0.4) for _ in range(2)]
    assert (mixed[0] == mixed[1]).all()
    assert (mixed[0] != linear_scores(regularisation=1.0)).any()


def linear_scores(**settings: Any) -> Any:
    config = TrainingConfig(**settings)
    return fit(worker.TRAIN, worker.VALIDATION, config).validation.scores


@pytest.mark.parametrize("extra", ["r_drop", "vat"])
def test_the_linear_model_says_what_it_has_no_use_for(extra: str) -> None:
    with pytest.raises(UserError, match=rf"linear has no setting '{extra}' \(hf has\)"):
        linear_scores(**{extra: 1.0})
