"""`zlpr theory`: the paper's argument in tables and figures."""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

EXAMPLE = "zlpr theory link --out figures"
BARE_SHOWS_HELP = True
TOPICS = ("equations", "dependence", "link", "terms", "regret")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to compute and where to draw it."""
    parser.add_argument(
        "topics",
        nargs="*",
        metavar="TOPIC",
        help=f"{', '.join(TOPICS[:-1])} or {TOPICS[-1]}; or all",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write a figure for each topic into DIR"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of regret's random populations (default 0)"
    )
    parser.add_argument(
        "--populations",
        type=int,
        default=60,
        metavar="N",
        help="how many random populations regret draws for each strength of dependence, at least 2 "
        "(default 60)",
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")


def run(args: argparse.Namespace) -> None:
    """Compute each topic, print its table, draw its figure."""
    from zlpr._errors import UserError
    from zlpr._names import unknown
    from zlpr.cli._console import print_json

    made: tuple[Callable[[argparse.Namespace], Any], ...]
    made = (_equations, _dependence, _link, _terms, _regret)
    topics = dict(zip(TOPICS, made, strict=True))
    for topic in args.topics:
        if topic not in {"all", *TOPICS}:
            raise unknown("topic", topic, ["all", *TOPICS])
    chosen = TOPICS if "all" in args.topics or not args.topics else args.topics
    if args.populations < 2:
        raise UserError(f"--populations is {args.populations}; an error needs at least 2")
    if not 0 <= args.seed < 2**32:
        raise UserError(f"--seed is {args.seed}; it is a number from 0 to {2**32 - 1}")
    numbers = {topic: topics[topic](args) for topic in chosen}
    if args.json:
        print_json(numbers)


def _equations(args: argparse.Namespace) -> Any:
    import torch

    from zlpr.theory import expansion, maxima, zlpr_gradient, zlpr_over_pairs

    scores, targets = torch.tensor([1.0, -0.5, 0.4, -1.5]), torch.tensor([1, 1, 0, 0])
    found = maxima(scores, targets)
    _table(
        args,
        "equations, maxima: scores +1.0 and -0.5 of positive labels, +0.4 and -1.5 of negative\n"
        "ones. Each loss smooths a maximum; k times the scores bring it there:",
        ["loss", "maximum", *(f"k = {k:g}" for k in found[0].by_scale)],
        [
            [entry.loss, f"{entry.maximum:.4f}", *(f"{x:.4f}" for x in entry.by_scale.values())]
            for entry in found
        ],
        "Cross entropy: max(0, s_j - s_t); LSEP: max(0, s_j - s_i); "
        "ZLPR: max(0, s_j - s_i, s_j, -s_i).",
    )
    terms = expansion(scores, targets)
    over_pairs, gradient = zlpr_over_pairs(scores, targets), zlpr_gradient(scores, targets)
    _table(
        args,
        "equations, expansion: BCE is the logarithm of prod_P (1 + e^-s) prod_N (1 + e^s); its\n"
        "terms, and which of them ZLPR has:",
        ["side", "labels", "value", "ZLPR"],
        [
            [
                term.side,
                " ".join(map(str, term.labels)) or "-",
                f"{term.value:.4f}",
                "yes" if term.in_zlpr else "",
            ]
            for term in terms
        ],
        f"ZLPR over pairs of labels: {over_pairs.item():.4f}; its gradient: "
        + ", ".join(f"{x:+.4f}" for x in gradient.tolist()),
    )
    return {
        "maxima": [asdict(x) for x in found],
        "expansion": [asdict(x) for x in terms],
        "over_pairs": over_pairs.item(),
        "gradient": gradient.tolist(),
    }


def _dependence(args: argparse.Namespace) -> Any:
    import torch

    from zlpr.cli._progress import progress
    from zlpr.theory import coupled_scores, equal_marginals, risk_minimiser
    from zlpr.theory.figures import dependence_figure

    strengths = [step / 10 for step in range(-10, 11)]
    joints = [equal_marginals(0.999 * strength) for strength in strengths]
    minimisers: dict[str, list[torch.Tensor]] = {"bce": [], "zlpr": [], "lsep": []}
    with progress("dependence", steps=len(minimisers) * len(joints)) as advance:
        for name, found in minimisers.items():
            for joint in joints:
                found.append(risk_minimiser(name, joint))
                advance(1)
    scores = {name: [found[0].item() for found in row] for name, row in minimisers.items()}
    residual = max(
        torch.dist(coupled_scores(minimiser, joint), minimiser, p=torch.inf).item()
        for minimiser, joint in zip(minimisers["zlpr"], joints, strict=True)
    )
    shown = range(0, len(strengths), 5)
    _table(
        args,
        "dependence: three labels with probabilities 0.5, 0.3, 0.2; the first two draw together\n"
        "or exclude each other. Score of the first label where each loss is lowest:",
        ["dependence", *scores],
        [[f"{strengths[i]:+.1f}", *(f"{scores[n][i]:+.4f}" for n in scores)] for i in shown],
        "BCE sees the marginals alone; ZLPR and LSEP see what comes with what.\n"
        f"ZLPR's coupling equation holds at all of them to {residual:.0e}.",
    )
    _draw(args, "dependence", lambda path: dependence_figure(strengths, scores, path))
    return {"dependence": strengths, "first_score": scores, "coupling_residual": residual}


def _link(args: argparse.Namespace) -> Any:
    from zlpr.cli._progress import progress
    from zlpr.theory import link
    from zlpr.theory.figures import link_figure

    sizes = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 3000, 10_000, 100_000]
    chances = [0.01, 0.05, 0.2, 0.4]
    with progress("link"):
        points = [link(size, chance) for chance in chances for size in sizes]
    slope = {(point.labels, point.probability): point.slope for point in points}
    shown = [1, 2, 5, 10, 30, 100, 1000, 10_000, 100_000]
    _table(
        args,
        "link: the slope c for which sigma(c s) is the probability, for independent labels:",
        ["labels", *(f"P = {chance:g}" for chance in chances)],
        [[str(size), *(f"{slope[size, chance]:.3f}" for chance in chances)] for size in shown],
        "One label has BCE's link, sigma(s). Many positives per sample bring it to sigma(2s),\n"
        "so probabilities from ZLPR scores need a calibrator fitted on validation data.",
    )
    _draw(args, "link", lambda path: link_figure(points, path))
    return [asdict(point) for point in points]


def _terms(args: argparse.Namespace) -> Any:
    from zlpr.cli._progress import progress
    from zlpr.metrics.table import shown
    from zlpr.theory import negative_shares
    from zlpr.theory.figures import terms_figure

    sizes = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000]
    with progress("terms"):
        pairs = [negative_shares(size) for size in sizes]
    _table(
        args,
        "terms: two positive labels, all scores at zero; the negatives' share of",
        ["negatives", "BCE loss", "ZLPR loss", "BCE gradient", "ZLPR gradient"],
        [
            [
                str(bce.negatives),
                *(
                    shown(share)
                    for share in (bce.of_loss, zlpr.of_loss, bce.of_gradient, zlpr.of_gradient)
                ),
            ]
            for bce, zlpr in pairs
        ],
        "BCE hands the gradient to the negatives as they grow; ZLPR keeps two fifths of it\n"
        "for the two positives, whatever their number.",
    )
    shares = [share for pair in pairs for share in pair]
    _draw(args, "terms", lambda path: terms_figure(shares, path))
    return [asdict(share) for share in shares]


def _regret(args: argparse.Namespace) -> Any:
    from zlpr.cli._progress import progress
    from zlpr.metrics import PAPER_METRICS, info
    from zlpr.theory.figures import regret_figure
    from zlpr.theory.regret import LOSSES, SET_METRICS, Regret, not_worse, regrets

    strengths = (0.0, 0.25, 0.5, 0.75, 1.0)
    with progress("regret", steps=len(strengths) * len(LOSSES)) as advance:
        measured = regrets(
            dependences=strengths,
            populations=args.populations,
            seed=args.seed,
            progress=advance,
        )

    def cell(regret: Regret) -> str:
        where = (regret.metric, regret.dependence, regret.cut)
        rivals = [r for r in measured if (r.metric, r.dependence, r.cut) == where]
        mark = "*" if not_worse(regret, rivals) else ""
        return f"{abs(regret.mean):.2f}±{regret.error:.2f}{mark}"

    last = strengths[-1]
    for cut, dependence, metrics, kind in (
        ("zero", strengths[0], PAPER_METRICS, "independent labels, cut at zero"),
        ("zero", last, PAPER_METRICS, "strongly tied labels with the same marginals, cut at zero"),
        ("fitted", last, SET_METRICS, "strongly tied labels, at the best cut for each metric"),
    ):  # fmt: skip
        shown = [r for r in measured if (r.dependence, r.cut) == (dependence, cut)]
        cells = {(regret.loss, regret.metric): cell(regret) for regret in shown}
        losses = dict.fromkeys(regret.loss for regret in shown)
        _table(
            args,
            f"regret, {kind}: points below the best\npossible predictor (0 is optimal), "
            f"mean ± standard error over {args.populations} random populations:",
            ["loss", *(info(metric).words for metric in metrics)],
            [[loss, *(cells.get((loss, metric), "-") for metric in metrics)] for loss in losses],
            "* none is better by more than two standard errors of the difference",
        )
    _draw(args, "regret", lambda path: regret_figure(measured, path))
    return {"losses": _loss_regrets(measured), "rules": _rule_regrets(args)}


def _loss_regrets(measured: Any) -> list[dict[str, Any]]:
    return [
        {
            "loss": regret.loss,
            "metric": regret.metric,
            "dependence": regret.dependence,
            "cut": regret.cut,
            "mean": regret.mean,
            "error": regret.error,
        }
        for regret in measured
    ]


def _rule_regrets(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The decoding rules on ZLPR's scores, by how much validation data they were fitted on."""
    from zlpr.cli._progress import progress
    from zlpr.metrics import info
    from zlpr.theory.rules import METRICS, RULES, rule_regrets

    sizes, populations = (100, 3000), max(2, args.populations // 6)
    with progress("regret of rules", steps=len(sizes) * populations) as advance:
        found = rule_regrets(
            samples=sizes, populations=populations, seed=args.seed, progress=advance
        )
    by_key = {(regret.rule, regret.metric, regret.samples): regret for regret in found}
    for size in sizes:
        rows = []
        for rule in RULES:
            regrets = [by_key[rule, metric, size] for metric in METRICS]
            rows.append([rule, *(f"{abs(r.mean):.2f}±{r.error:.2f}" for r in regrets)])
        _table(
            args,
            f"regret of decoding rules on ZLPR's scores, strongly tied labels, each rule fitted\n"
            f"for the metric on {size:,} validation samples, over {populations} populations:",
            ["rule", *(info(metric).words for metric in METRICS)],
            rows,
            "What a rule cannot express stays; what it could not yet learn goes away with data.",
        )
    return [
        {"rule": r.rule, "metric": r.metric, "samples": r.samples, "mean": r.mean, "error": r.error}
        for r in found
    ]


def _table(
    args: argparse.Namespace, title: str, headers: list[str], rows: list[list[str]], note: str
) -> None:
    from zlpr.cli._console import print_table, say

    if not args.json:
        print_table(headers, rows, title=title)
        say(f"{note}\n")


def _draw(args: argparse.Namespace, topic: str, draw: Callable[[Path], None]) -> None:
    from zlpr.cli._console import say

    if args.out is not None:
        path = args.out / f"{topic}.png"
        draw(path)
        if not args.json:
            say(f"figure: {path}\n")
