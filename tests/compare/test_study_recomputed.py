"""Every number of the study's pages, worked out of its CSV again, with numpy and scipy alone.

Nothing of `bench` is used here but the protocol and the names of the columns: the figures are read
with the `csv` module, and each statistic is its textbook formula.
"""

import csv
import itertools
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
PLAN = tomllib.loads((ROOT / "bench" / "study.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
TABLES = (ROOT / "docs" / "study-tables.md").read_text(encoding="utf-8")
DECISIONS = ("own bound", "one threshold", "chosen rule")
METRICS = {
    "Subset accuracy": "subset_accuracy",
    "Example F1": "example_f1",
    "Micro-F1": "micro_f1",
    "Macro-F1": "macro_f1",
    "Average precision": "average_precision",
    "Ranking loss": "ranking_loss",
}
DECIDED = tuple(METRICS.values())[:4]
FIVE = ("zlpr", "bce", "focal", "dice1", "dice2")
DECIDING = (*FIVE, "asymmetric", "hbm", "sigmoid_f1")
HEADINGS = {
    "linear": "## Findings, linear model over",
    "frozen": "## Findings, linear model with",
    "fine-tuned": "## Findings, fine-tuned",
}


def rows_of(name):
    path = ROOT / "docs" / "study" / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


class Part:
    """Figures in per cent by (set, loss, decision, metric) and seed, of the whole seeds alone."""

    def __init__(self, name):
        self.name = name
        self.cells = [c | {"title": self.title(c)} for c in rows_of(f"{name}-cells")]
        rates = best_rates() if name in ("fine-tuned", "extras") else None
        if rates is not None:
            self.cells = [c for c in self.cells if at_best_rate(c, rates)]
        settings = PLAN["part"][name]
        if settings["model"] == "hf":
            beside = settings.get("beside", [{}])
            wanted = {"+".join([x, *y]) for x in settings["losses"] for y in beside}
        else:
            wanted = {loss["name"] for loss in PLAN["loss"]} | set(settings["modes"])
        have = defaultdict(set)
        for cell in self.cells:
            have[cell["data"], cell["seed"]].add(cell["title"])
        whole = defaultdict(set)
        for (data, seed), titles in have.items():
            if titles >= wanted:
                whole[data].add(seed)
        self.seeds = {data: seeds for data, seeds in whole.items() if len(seeds) > 1}
        self.sets = [x["name"] for x in PLAN["data"] if x["name"] in self.seeds]
        self.found = defaultdict(dict)
        for row in rows_of(name):
            fits = rates is None or at_best_rate(row, rates)
            if fits and row["seed"] in self.seeds.get(row["data"], ()):
                title = self.title(row) + "*" * (row["version"] == "chosen")
                for metric in METRICS.values():
                    if row[metric]:
                        key = (row["data"], title, row["decision"], metric)
                        self.found[key][row["seed"]] = float(row[metric])
        self.titles = {key[1] for key in self.found}

    @staticmethod
    def title(row):
        return row["model"] if row["loss"] == "none" else re.sub(r"@[^+]*", "", row["loss"])

    def best(self, loss):
        """With its parameter chosen, where it has one."""
        return loss + "*" if loss + "*" in self.titles else loss

    def mean(self, data, loss, decision, metric):
        return float(np.mean(list(self.found[data, loss, decision, metric].values())))

    def lead(self, data, ours, theirs, decision, metric):
        """By seed, above 0 where ours is better."""
        a, b = (self.found.get((data, x, decision, metric), {}) for x in (ours, theirs))
        sign = -1 if metric == "ranking_loss" else 1
        return sign * np.array([a[seed] - b[seed] for seed in sorted(set(a) & set(b))])

    def leads(self, ours, theirs, decision, metric):
        """By set."""
        found = {data: self.lead(data, ours, theirs, decision, metric) for data in self.sets}
        return {data: float(x.mean()) for data, x in found.items() if len(x)}

    def share(self, data):
        """The test part's size over the training part's, mean over the seeds."""
        shares = {
            cell["seed"]: int(cell["test"]) / int(cell["train"])
            for cell in self.cells
            if cell["data"] == data and cell["seed"] in self.seeds[data]
        }
        return float(np.mean(list(shares.values())))

    def half_on(self, data, lead):
        """Half of the interval of a lead on one set, by Nadeau and Bengio; None without spread."""
        n, variance = len(lead), float(np.var(lead, ddof=1))
        if variance < 1e-20:
            return None
        return stats.t.ppf(0.975, n - 1) * (variance * (1 / n + self.share(data))) ** 0.5


def best_rates():
    found = defaultdict(dict)
    for cell in rows_of("fine-tuned-cells"):
        loss, rate = cell["loss"].split("@")
        if cell["seed"] == "0":
            found[cell["data"], loss][rate] = float(cell["validation_f1"])
    asked = len(PLAN["part"]["fine-tuned"]["learning_rates"])
    return {key: max(by, key=by.get) for key, by in found.items() if len(by) == asked}


def at_best_rate(row, rates):
    loss, rate = row["loss"].split("+")[0].split("@")
    return rates.get((row["data"], loss)) == rate


@pytest.fixture(scope="module")
def parts():
    return {name: Part(name) for name in PLAN["part"]}


def over_sets(values):
    values = np.array(list(values))
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(half)


def table_after(text, words, start=0):
    """The cells of the first table behind some words, without its titles."""
    lines = text[text.index(words, start) :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows][2:]


def number(text):
    return float(re.search(r"[+−-]?\d+(\.\d+)?(e-\d+)?", text)[0].replace("−", "-"))


def check_interval(cell, mean, half, digits=2):
    told = [number(x) for x in cell.split(",")[0].split("±")]
    close = 0.51 * 10.0**-digits
    assert told == pytest.approx([mean, half], abs=close)


def section(name, text=PAGE):
    """Where a part's findings begin and end."""
    start = text.index(HEADINGS[name])
    end = text.find("\n## ", start + 3)
    return text[start:end]


NAMES = ("linear", "frozen", "fine-tuned")


@pytest.mark.parametrize("name", NAMES)
def test_every_difference_of_the_grid_with_its_interval_and_its_word(parts, name):
    part = parts[name]
    text = PAGE if name == "linear" else section(name)
    for title, *cells in table_after(text, "ZLPR minus BCE, points"):
        for decision, cell in zip(DECISIONS, cells, strict=True):
            leads = part.leads(part.best("zlpr"), part.best("bce"), decision, METRICS[title])
            mean, half = over_sets(leads.values())
            check_interval(cell, mean, half)
            word = cell.split(", ", 1)[1]
            assert ("ahead" in word) == (mean > half)
            assert ("behind" in word) == (mean < -half)
            assert ("alike" in word or "within" in word) == (abs(mean) + half < 0.5)


def test_what_the_opening_counts(parts):
    part = parts["linear"]
    opening = PAGE.split("\n\n")[1]
    p_values, beyond, nonzero = [], 0, []
    for metric, decision in itertools.product(DECIDED, DECISIONS):
        leads = list(part.leads(part.best("zlpr"), part.best("bce"), decision, metric).values())
        mean, half = over_sets(leads)
        beyond += abs(mean) - half > 0.5
        nonzero += [mean > 0] * (abs(mean) > half)
        p_values.append(stats.ttest_1samp(leads, 0).pvalue)
    assert ("Not by half a point." in opening) == (beyond == 0)
    assert f"On {len(part.sets)} sets" in opening
    told = f"{len(nonzero)} of the 12 intervals leave out 0" if nonzero else "None of the 12"
    assert told in opening
    assert ("all for ZLPR" in opening) == (bool(nonzero) and all(nonzero))
    kept = 0
    for rank, p in enumerate(sorted(p_values)):  # Holm: stop at the first that does not hold
        if p * (len(p_values) - rank) > 0.05:
            break
        kept += 1
    assert f"(Holm), {kept or 'none'} do" in opening
    ahead = behind = of = 0
    for data, metric, decision in itertools.product(part.sets, DECIDED, DECISIONS):
        lead = part.lead(data, part.best("zlpr"), part.best("bce"), decision, metric)
        half = part.half_on(data, lead)
        if half is not None:
            of += 1
            ahead += lead.mean() > half
            behind += lead.mean() < -half
    assert f"Of {of} differences on single sets {ahead + behind} have" in opening
    assert f"leaves out 0, {ahead} for ZLPR" in opening


@pytest.mark.parametrize("name", ["linear", "frozen"])
def test_sets_of_one_source_counted_as_one(parts, name):
    part = parts[name]
    sources = {x["name"]: x.get("source", x["name"]) for x in PLAN["data"]}
    sentence = next(x for x in section(name).split("\n\n") if x.startswith("With sets of one"))
    told = re.findall(r"([+−]?[\d.]+) ± ([\d.]+) \(([\w ]+)\)", sentence)
    assert [decision for *_, decision in told] == list(DECISIONS)
    for mean, half, decision in told:
        by_source = defaultdict(list)
        leads = part.leads(part.best("zlpr"), part.best("bce"), decision, "subset_accuracy")
        for data, lead in leads.items():
            by_source[sources[data]].append(lead)
        assert f"({len(by_source)} sources)" in sentence
        check_interval(f"{mean} ± {half}", *over_sets(np.mean(x) for x in by_source.values()))


@pytest.mark.parametrize("name", NAMES)
def test_what_moves_the_figures(parts, name):
    part = parts[name]
    losses = [loss for loss in FIVE if loss in part.titles]
    rows = table_after(section(name), "Points, means over the sets")
    assert len(rows) == (8 if name != "fine-tuned" else 5)
    for cause, held, *cells in rows:
        for metric, cell in zip(DECIDED, cells, strict=True):
            if cause == "another loss":
                values = [
                    np.mean(
                        np.abs(list(part.leads(part.best(a), part.best(b), held, metric).values()))
                    )
                    for a, b in itertools.combinations(losses, 2)
                ]
            elif cause == "its parameter chosen":
                values = [
                    np.mean([part.mean(x, loss + "*", held, metric) for x in part.sets])
                    - np.mean([part.mean(x, loss, held, metric) for x in part.sets])
                    for loss in losses
                ]
            else:
                before, after = held.split(" → ")
                values = [
                    np.mean([part.mean(x, part.best(loss), after, metric) for x in part.sets])
                    - np.mean([part.mean(x, part.best(loss), before, metric) for x in part.sets])
                    for loss in losses
                ]
            assert number(cell) == pytest.approx(np.mean(values), abs=0.051)


@pytest.mark.parametrize("name", ["linear", "frozen"])
def test_ranks_and_their_tests(parts, name):
    part = parts[name]
    everything = [part.best(x["name"]) for x in PLAN["loss"]] + PLAN["part"][name]["modes"]
    for metric, title in (("subset_accuracy", "Subset accuracy"), ("micro_f1", "Micro-F1")):
        caption = next(
            x for x in section(name).split("\n\n")
            if x.startswith("Average ranks") and title in x
        )  # fmt: skip
        p_values = []
        for losses in ([part.best(x) for x in DECIDING], everything):
            matrix = np.array(
                [
                    [round(part.mean(x, y, "chosen rule", metric), 2) for y in losses]
                    for x in part.sets
                ]
            )
            p_values.append(stats.friedmanchisquare(*matrix.T).pvalue)
        count = len(DECIDING)
        quantile = stats.studentized_range.ppf(0.95, count, np.inf) / 2**0.5
        distance = quantile * (count * (count + 1) / (6 * len(part.sets))) ** 0.5
        told = re.search(
            r"difference ([\d.]+); Friedman p ([\de.-]+); with all (\d+) .* ([\de.-]+)\)", caption
        )
        assert float(told[1]) == pytest.approx(distance, abs=0.0051)
        assert [float(told[2]), float(told[4])] == pytest.approx(p_values, rel=0.06)
        assert int(told[3]) == len(everything)


@pytest.mark.parametrize("name", ["linear", "frozen"])
def test_the_other_losses_against_the_two(parts, name):
    part = parts[name]
    pairs = {
        "HBM against BCE": ("hbm", "bce"),
        "LSEP, which only ranks, against ZLPR": ("lsep", "zlpr"),
        "powerset against ZLPR": ("powerset", "zlpr"),
        "chains against ZLPR": ("chain", "zlpr"),
        "DL2 against ZLPR": ("dice2", "zlpr"),
    }
    rows = table_after(section(name), "Others, points")
    assert len(rows) == (5 if name == "linear" else 3)
    for words, *cells in rows:
        ours, theirs = (part.best(x) for x in pairs[words])
        columns = itertools.product(("subset_accuracy", "micro_f1"), DECISIONS)
        for (metric, decision), cell in zip(columns, cells, strict=True):
            leads = part.leads(ours, theirs, decision, metric)
            if cell == "–":
                assert not leads
            else:
                check_interval(cell, *over_sets(leads.values()), digits=1)


def test_what_an_encoder_adds(parts):
    rows = table_after(PAGE, "## What an encoder adds")
    for title, *cells in rows:
        metric = METRICS[title]
        decision = "chosen rule" if metric in DECIDED else "own bound"
        for (before, after), cell in zip(
            (("linear", "frozen"), ("frozen", "fine-tuned")), cells, strict=True
        ):
            gains = gains_by_set(parts[before], parts[after], decision, metric)
            told = [number(x) for x in re.findall(r"[+−]?\d+\.\d+", cell)]
            assert told[0] == pytest.approx(np.mean(gains), abs=0.0051)
            assert told[1:] == pytest.approx([min(gains), max(gains)], abs=0.051)


def gains_by_set(before, after, decision, metric):
    sizes = [
        {(c["data"], c["seed"]): (c["train"], c["test"]) for c in part.cells}
        for part in (before, after)
    ]
    sign = -1 if metric == "ranking_loss" else 1
    gains = []
    for data in after.sets:
        drawn = [{k: v for k, v in of.items() if k[0] == data} for of in sizes]
        shared = set(drawn[0]) & set(drawn[1])
        if data not in before.sets or any(drawn[0][k] != drawn[1][k] for k in shared):
            continue
        by_loss = []
        for loss in FIVE:
            chosen = before.best(loss) == after.best(loss)
            a, b = (
                part.found.get((data, part.best(loss) if chosen else loss, decision, metric), {})
                for part in (before, after)
            )
            if set(a) & set(b):
                by_loss.append(np.mean([b[seed] - a[seed] for seed in set(a) & set(b)]))
        gains.append(sign * float(np.mean(by_loss)))
    return gains


def test_how_often_each_loss_is_first_and_what_becomes_of_the_claims(parts):
    ranking = ("ranking", "warp", "bp_mll", "lsep")
    columns = [("linear", ""), ("linear", "*"), ("frozen", ""), ("frozen", "*"), ("fine-tuned", "")]
    rows = table_after(PAGE, "## The paper's claims")
    assert len(rows) == 7
    for words, _, *cells in rows:
        champion = "zlpr" if words.startswith("ZLPR") else "dice2"
        title = re.search(r": ([\w -]+)", words)[1].strip()
        metric = {k.lower(): v for k, v in METRICS.items()}[title.lower()]
        rivals = FIVE + (ranking if "only rank" in words else ())
        for (name, star), cell in zip(columns, cells, strict=True):
            part = parts[name]
            named = {
                x: part.best(x) if star else x
                for x in rivals
                if x in part.titles or x + "*" in part.titles
            }
            sign = -1 if metric == "ranking_loss" else 1
            firsts = dict.fromkeys(named, 0)
            for data in part.sets:
                means = {
                    x: sign * round(part.mean(data, label, "own bound", metric), 2)
                    for x, label in named.items()
                }
                for loss, mean in means.items():
                    firsts[loss] += mean == max(means.values())
            most = all(firsts[champion] > n for x, n in firsts.items() if x != champion)
            sizes = [
                over_sets(part.leads(named[champion], label, "own bound", metric).values())
                for x, label in named.items()
                if x != champion
            ]
            behind = any(mean < -half for mean, half in sizes)
            if len(part.sets) < 6:
                verdict = "in direction" if most else "not seen"
            elif most and not behind:
                verdict = "holds" if all(mean > half for mean, half in sizes) else "in direction"
            else:
                verdict = "contradicted" if behind and not most else "not seen"
            assert cell.startswith(f"{verdict}: {firsts[champion]} of {len(part.sets)}"), words


def test_what_stands_beside_a_loss(parts):
    part = parts["extras"]
    if not part.sets:  # too few seeds are whole: the page says so, and no more
        assert "more epochs in fine-tuning) on 0 of 2 sets" in PAGE
        assert "## Findings, label smoothing" not in PAGE
        return
    text = PAGE[PAGE.index("## Findings, label smoothing") :]
    rows, shown = table_after(text, "## Findings"), 0
    assert len(rows) == len(part.sets) * 2 * (len(PLAN["part"]["extras"]["beside"]) - 1)
    for data, loss, extra, *cells in rows:
        label = f"{loss}+{extra.split(' ')[0]}"
        for metric, cell in zip((*DECIDED, "average_precision"), cells, strict=True):
            decision = "one threshold" if metric in DECIDED else "own bound"
            lead = part.lead(data, label, loss, decision, metric)
            half = part.half_on(data, lead)
            check_interval(cell, lead.mean(), half, digits=1)
            shown += abs(lead.mean()) > half
    assert f"Of {len(rows) * 5} intervals {shown} leave out 0" in text


# --- the page of tables -------------------------------------------------------------------------


def tables_of(name):
    titles = {
        "linear": "## Linear model over",
        "frozen": "## Linear model with",
        "fine-tuned": "## Fine-tuned",
    }
    start = TABLES.index(titles[name])
    end = TABLES.find("\n## ", start + 3)
    return TABLES[start : end if end > 0 else None]


@pytest.mark.parametrize("name", NAMES)
def test_means_over_sets(parts, name):
    part, checked = parts[name], 0
    for decision in DECISIONS:
        for loss, *cells in table_after(tables_of(name), f"sets: {decision}"):
            for metric, cell in zip(METRICS.values(), cells, strict=False):
                if cell == "–":
                    assert (part.sets[0], loss, decision, metric) not in part.found
                    continue
                means = [part.mean(data, loss, decision, metric) for data in part.sets]
                assert float(cell) == pytest.approx(np.mean(means), abs=0.0051)
                checked += 1
    assert checked > 50


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_on_every_set(parts, name):
    part = parts[name]
    columns = [*itertools.product(("subset_accuracy", "micro_f1", "macro_f1"), DECISIONS)]
    columns.append(("average_precision", "own bound"))
    for data in part.sets:
        rows = table_after(tables_of(name), f"<summary>{data}: every loss")
        assert len(rows) == len(part.titles)
        unsettled = {
            cell["title"] for cell in part.cells if cell["data"] == data and cell["settled"] == "no"
        }
        for told, *cells in rows:
            loss = told.removesuffix(" †")
            assert (told != loss) == (loss.rstrip("*") in unsettled)
            for (metric, decision), cell in zip(columns, cells, strict=True):
                if cell == "–":
                    assert (data, loss, decision, metric) not in part.found
                else:
                    assert float(cell) == pytest.approx(
                        part.mean(data, loss, decision, metric), abs=0.051
                    )


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_what_chance_alone_may_move(parts, name):
    part = parts[name]
    rows = table_after(tables_of(name), "## ")
    assert [row[0] for row in rows] == part.sets
    for data, _, labels, sizes, seeds, *halves in rows:
        cell = next(c for c in part.cells if c["data"] == data)
        assert labels == cell["labels"]
        assert sizes == f"{cell['train']} + {cell['validation']} + {cell['test']}"
        assert int(seeds.split()[0]) == len(part.seeds[data])
        for metric, told in zip(("subset_accuracy", "micro_f1", "macro_f1"), halves, strict=True):
            lead = part.lead(data, part.best("zlpr"), part.best("bce"), "one threshold", metric)
            half = part.half_on(data, lead)
            assert told == "–" if half is None else number(told) == pytest.approx(half, abs=0.051)


@pytest.mark.parametrize("name", NAMES)
def test_zlpr_against_each_of_the_five(parts, name):
    part, rng, checked = parts[name], np.random.default_rng(11), 0
    text = tables_of(name)
    for how, star in (("both plain", ""), ("both chosen", "*")):
        for rival, decision in itertools.product(FIVE[1:], DECISIONS):
            words = f"ZLPR against {rival}, {how}, {decision}"
            if words not in text:
                continue
            for title, points, ahead, beyond, rank_biserial, verdict in table_after(text, words):
                ours, theirs = (part.best(x) if star else x for x in ("zlpr", rival))
                leads = np.array(list(part.leads(ours, theirs, decision, METRICS[title]).values()))
                check_interval(points, *over_sets(leads))
                assert ahead == f"{(leads > 0).sum()} of {len(leads)}"
                assert beyond == f"{(leads < -0.5).sum()} / {(leads > 0.5).sum()}"
                ranks = stats.rankdata(np.abs(leads))
                signed = (ranks * np.sign(leads)).sum() / ranks.sum()
                assert number(rank_biserial) == pytest.approx(signed, abs=0.0051)
                if len(leads) < 6:
                    assert verdict == "–"
                else:
                    told = [float(x) for x in verdict.split(" / ")]
                    assert told == pytest.approx(signed_rank_verdict(leads, rng), abs=0.03)
                checked += 1
    assert checked >= 14 * (3 if name == "fine-tuned" else 4)


def signed_rank_verdict(leads, rng, draws=4000):
    """Benavoli's signed-rank test: a Dirichlet process with half a set at no difference."""
    seen = np.append(leads, 0.0)
    walsh = (seen[:, None] + seen[None, :]) / 2
    won = np.zeros(3)
    for weights in rng.dirichlet(np.append(np.ones(len(leads)), 0.5), size=draws):
        worse, better = weights @ (walsh < -0.5) @ weights, weights @ (walsh > 0.5) @ weights
        won[np.argmax([worse, 1 - worse - better, better])] += 1
    return list(won / draws)


@pytest.mark.parametrize("name", NAMES)
def test_how_far_training_had_settled(parts, name):
    part = parts[name]
    known = [cell for cell in part.cells if cell["settled"]]
    marked = sum(cell["settled"] == "no" for cell in known)
    assert f"How far training had settled: {marked} of {len(known)} cells are marked" in tables_of(
        name
    )
    for loss, told, objective, metric in table_after(
        tables_of(name), "How far training had settled"
    ):
        own = [cell for cell in known if cell["title"] == loss]
        assert told == f"{sum(c['settled'] == 'no' for c in own)} of {len(own)}"
        for shown, column in ((objective, "objective"), (metric, "metric")):
            values = [100 * float(cell[column]) for cell in own if cell[column]]
            assert (
                shown == "–"
                if not values
                else number(shown) == pytest.approx(max(values), abs=0.0051)
            )


@pytest.mark.parametrize("name", ["linear", "frozen"])
def test_which_values_were_chosen(parts, name):
    counts = defaultdict(lambda: defaultdict(int))
    for row in rows_of(name):
        chosen = row["version"] == "chosen" and row["decision"] != "chosen rule"
        if chosen and row["data"] in parts[name].sets:
            for title, value in zip(METRICS, row["values"].split(";"), strict=True):
                if value:
                    counts[row["loss"], row["decision"], title][value] += 1
    rows = table_after(tables_of(name), "Which values of its parameter")
    assert {tuple(row[:3]) for row in rows} == set(counts)
    for loss, decision, title, told in rows:
        found = dict(x.split(": ") for x in told.split(", "))
        assert {k: int(v) for k, v in found.items()} == counts[loss, decision, title]
