"""`zlpr data`: the paper's sets and any other: list, describe, prepare, download and split."""

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._named_values import name_and_text
from zlpr.cli._console import print_json, print_table, say, say_sentence
from zlpr.cli._flags import words
from zlpr.cli._progress import progress
from zlpr.cli._reading import add_reading_arguments, load_data

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.data.download import Download
    from zlpr.data.sources import Source

EXAMPLE = "zlpr data stats demo"
BARE_SHOWS_HELP = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the five actions, each with its arguments and an example."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", title="actions")
    add_list(_action(actions, "list", "list the paper's data sets", "zlpr data list", run_list))
    add_stats(
        _action(
            actions,
            "stats",
            "describe any data set by the paper's statistics",
            "zlpr data stats data/Toxic --plot toxic.png",
            run_stats,
        )
    )
    add_prepare(
        _action(
            actions,
            "prepare",
            "make a data set from its publisher's files",
            "zlpr data prepare GoEmotions --raw raw/GoEmotions --out data/GoEmotions",
            run_prepare,
        )
    )
    add_download(
        _action(
            actions,
            "download",
            "download a publisher's files, or say where to get them",
            "zlpr data download GoEmotions",
            run_download,
        )
    )
    add_split(
        _action(
            actions,
            "split",
            "divide data into training, validation and test parts",
            "zlpr data split reviews.csv --out reviews --method stratified --seed 1",
            run_split,
        )
    )


def run(args: argparse.Namespace) -> int | None:
    """Run the chosen action."""
    result: int | None = args.action(args)
    return result


def _action(
    actions: Any,
    name: str,
    summary: str,
    example: str,
    action: Callable[[argparse.Namespace], int | None],
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        example=example,
    )
    parser.set_defaults(action=action)
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


# --- list ---------------------------------------------------------------------------------------


def add_list(parser: argparse.ArgumentParser) -> None:
    """Arguments of `zlpr data list`."""
    _add_json(parser)


def run_list(args: argparse.Namespace) -> None:
    """Show every set with its published size and how it is got."""
    from zlpr.data.sources import SOURCES

    entries = [_entry(source, name) for source in SOURCES for name in source.sets]
    if args.json:
        print_json(entries)
        return
    rows: list[list[str]] = []
    for before, entry in zip([{}, *entries], entries, strict=False):
        row = entry["published"] or {}
        figures = [_count(row.get("instances")), _count(row.get("categories"))]
        figures += [_decimal(row.get("cardinality"), 2), _decimal(row.get("mean_words"), 0)]
        is_same = before.get("summary") == entry["summary"]  # as the set above, another column
        name = f"{entry['name']}{'*' * entry['download']}"
        rows.append([name, *figures, "" if is_same else entry["summary"]])
    headers = ("set", "samples", "labels", "labels per sample", "words", "what it is")
    print_table(
        headers, rows, title="The figures are the paper's; words are characters in Chinese."
    )
    say_sentence("* zlpr data download NAME fetches it; for the others it says where to get them.")


def _entry(source: "Source", name: str) -> dict[str, Any]:
    return {
        "name": name,
        "source": source.name,
        "summary": source.summary,
        "address": source.address,
        "terms": source.terms,
        "not_known": source.not_known or None,
        "download": bool(source.files),
        "published": _published(name).get("all"),
    }


# --- stats --------------------------------------------------------------------------------------


def add_stats(parser: argparse.ArgumentParser) -> None:
    """Arguments of `zlpr data stats`."""
    parser.add_argument(
        "data", help='a file, a folder, "demo", or the name of one of the paper\'s sets'
    )
    parser.add_argument(
        "--published",
        metavar="NAME",
        help="the paper's set to compare with (default: the one of the same name)",
    )
    parser.add_argument(
        "--unit",
        choices=("words", "characters"),
        help="what to count in a text (default: words, or characters where most letters are "
        "Chinese)",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw label frequency, set sizes and co-occurrence into FILE (.png, .svg or .pdf)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a FILE that is there")
    _add_json(parser)
    add_reading_arguments(parser)


def run_stats(args: argparse.Namespace) -> None:
    """Print the table, for data that is here or, by a set's name alone, as published."""
    from zlpr.cli._plots import check_picture
    from zlpr.data import published
    from zlpr.data.statistics import describe

    if args.plot:
        check_picture(args.plot, overwrite=args.overwrite)
    if args.published and published.set_name(args.published) is None:
        published.statistics(args.published)  # raises with the names that there are
    name = args.published or args.data
    if not Path(args.data).exists() and published.set_name(args.data):
        if args.plot:
            raise UserError(f"{args.data}: only its published figures are here; nothing to plot")
        _show_stats(args, str(published.set_name(name)), {}, _published(name), ())
        return
    data = load_data(args.data, args)
    with progress("counting"):
        rows = describe(data, unit=args.unit)
    found: dict[str, dict[str, Any]] = {part: dataclasses.asdict(row) for part, row in rows.items()}
    _show_stats(args, data.name, found, _published(args.published or data.name), data.notes)
    if args.plot:
        _plot(data, Path(args.plot))


def _published(name: str) -> dict[str, dict[str, Any]]:
    """The paper's rows for a set, by part; empty for any other data."""
    from zlpr.data import published

    if published.set_name(name) is None:
        return {}
    return {part: dataclasses.asdict(published.statistics(name, part)) for part in published.PARTS}


def _show_stats(
    args: argparse.Namespace,
    name: str,
    found: Mapping[str, Mapping[str, Any]],
    printed: Mapping[str, Mapping[str, Any]],
    notes: tuple[str, ...],
) -> None:
    if args.json:
        print_json({"name": name, "parts": found, "published": printed or None, "notes": notes})
        return
    unit = next(iter((found or printed).values()))["unit"]
    parts = list(dict.fromkeys([*found, *printed]))
    rows = []
    for part in parts:
        for whose, table in (("here", found), ("paper", printed)):
            if part in table:
                rows.append([part, *([whose] if printed else []), *_figures(table[part])])
    headers = ["part", *(["whose"] if printed else []), "samples", f"mean {unit}"]
    print_table([*headers, "labels", "labels per sample", "density"], rows, title=name)


def _figures(row: Mapping[str, Any]) -> list[str]:
    return [
        _count(row["instances"]),
        _decimal(row["mean_words"], 1),
        _count(row["categories"]),
        _decimal(row["cardinality"], 3),
        _decimal(row["density"], 3),
    ]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _decimal(value: float | None, places: int) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.{places}f}"


def _plot(data: "Dataset", path: Path) -> None:
    from zlpr._atomic import replacing
    from zlpr.data.plots import plot

    kind = path.suffix.removeprefix(".").lower()
    if kind not in {"png", "svg", "pdf"}:
        raise UserError(f"--plot {path}: expected a file that ends in .png, .svg or .pdf")
    with progress("drawing"), replacing(path) as beside:
        plot(data).savefig(beside, format=kind, dpi=120)
    say(f"wrote {path}", error=True)


# --- prepare ------------------------------------------------------------------------------------


def add_prepare(parser: argparse.ArgumentParser) -> None:
    """Arguments of `zlpr data prepare`."""
    parser.add_argument(
        "name", help="a data set, such as Movie-Name, or a source of several, such as CMU-Movie"
    )
    parser.add_argument(
        "--raw",
        required=True,
        metavar="DIR",
        help="folder of the publisher's files, packed or not, or one file",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder for train.jsonl, validation.jsonl, test.jsonl and labels.txt, with a folder "
        "in it "
        "for each set of a source (default: data/NAME, where zlpr compare --preset paper looks)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed of the 8:1:1 split (default 0)"
    )
    parser.add_argument(
        "--column",
        metavar="FIELD=NAME",
        type=words,
        action="append",
        default=[],
        help="which column of a table of patents holds the title, abstract, ipc or id",
    )
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the files (default utf-8)"
    )
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="leave rows out that cannot be read, and say how many",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there")
    _add_json(parser)


def run_prepare(args: argparse.Namespace) -> None:
    """Read the publisher's files, split them unless they are, and write the sets."""
    from zlpr.data import make_split, save
    from zlpr.data.sources import prepare, resolve

    source, sets = resolve(args.name)
    raw = Path(args.raw)
    with progress(f"reading {raw}", total=_size(raw)) as advance:
        prepared = prepare(
            args.name,
            raw,
            columns=_named_columns(args.column),
            encoding=args.encoding,
            skip_bad_rows=args.skip_bad_rows,
            advance=advance,
        )
    # A source's sets share their split, as in the paper: their ids agree where their texts do not.
    by: Literal["id", "content"] = "id" if len(source.sets) > 1 else "content"
    written = []
    for name, data in prepared.datasets.items():
        folder = Path(args.out or "data")
        folder = folder if args.out and len(sets) == 1 else folder / name
        with progress(f"writing {folder}"):
            divided = data if data.split is not None else make_split(data, seed=args.seed, by=by)
            files = save(divided, folder, overwrite=args.overwrite)
        written.append({"name": name, "folder": str(folder), **_report(divided, files)})
    if args.json:
        print_json({"sets": written, "left_out": prepared.left_out})
        return
    for entry in written:
        say(f"{entry['name']}: {_parts_line(entry['sizes'])} in {entry['folder']}")
    for reason, count in prepared.left_out.items():
        say(f"left out: {count:,} x {reason}")


def _size(raw: Path) -> int | None:
    """The bytes under a path, for a bar's end."""
    if raw.is_file():
        return raw.stat().st_size
    return sum(path.stat().st_size for path in raw.rglob("*") if path.is_file()) or None


def _named_columns(pairs: list[str]) -> dict[str, str]:
    fields = ("title", "abstract", "ipc", "id")
    columns = {}
    for pair in pairs:
        field, name = name_and_text(pair, "--column")
        if field not in fields:
            raise UserError(f"--column {pair}: expected one of {', '.join(fields)} before the sign")
        columns[field] = name
    return columns


def _report(data: "Dataset", files: list[Path]) -> dict[str, Any]:
    from zlpr.data import report_split

    return {"sizes": report_split(data).sizes, "files": [str(file) for file in files]}


def _parts_line(sizes: Mapping[Any, int]) -> str:
    parts = " + ".join(f"{size:,} {name}" for name, size in sizes.items())
    return f"{counted(sum(sizes.values()), 'sample')} ({parts})"


# --- download -----------------------------------------------------------------------------------


def add_download(parser: argparse.ArgumentParser) -> None:
    """Arguments of `zlpr data download`."""
    parser.add_argument("name", help="a data set or a source, as 'zlpr data list' shows them")
    parser.add_argument(
        "--out", metavar="DIR", help="folder to keep the files in (default: raw/NAME)"
    )
    parser.add_argument(
        "--mirror",
        metavar="URL",
        default="",
        help="an address with files of the same names, to use instead of the publisher's",
    )
    _add_json(parser)


def run_download(args: argparse.Namespace) -> int | None:
    """Fetch the files, or say where they are; then nothing was fetched and the exit code is 1."""
    from zlpr.data.sources import resolve

    source, _ = resolve(args.name)
    folder = Path(args.out) if args.out else Path("raw") / source.name
    if not source.files:
        return _tell_where(args, source, folder)
    files = _fetch_all(source, folder, args.mirror)
    if args.json:
        print_json({"source": source.name, "terms": source.terms, "files": files})
        return None
    say(f"{source.name}: {source.summary}\nterms: {source.terms} ({source.address})")
    for file in files:
        say(f"{file['path']}: {file['note']}, SHA-256 {file['sha256']}")
    say(f"next: zlpr data prepare {args.name} --raw {folder}")
    return None


def _tell_where(args: argparse.Namespace, source: "Source", folder: Path) -> int:
    if args.json:
        print_json(
            {**_entry(source, source.sets[0]), "instructions": source.instructions, "files": []}
        )
        return 1
    say(f"{source.name} has no public address to fetch it from.")
    say(f"where: {source.address}\nterms: {source.terms}\nhow: {source.instructions}")
    if source.not_known:
        say(f"not known: {source.not_known}")
    say(f"then: put {source.expects} into {folder} and run")
    say(f"  zlpr data prepare {args.name} --raw {folder}")
    return 1


def _fetch_all(source: "Source", folder: Path, mirror: str) -> list[dict[str, Any]]:
    from zlpr.data.download import fetch

    files = []
    for file in source.files:
        with contextlib.ExitStack() as stack:
            got = fetch(file, folder, mirror=mirror, watcher=_Bar(stack))
        note = _trust(got)
        files.append(
            {"path": str(got.path), "sha256": got.sha256, "pinned": got.pinned, "note": note}
        )
    return files


def _trust(got: "Download") -> str:
    """Whether a file came now, and what its checksum was compared with."""
    kept = f"{got.path.name}.sha256"
    if got.pinned:
        against = "verified against its known checksum"
    elif got.fetched:
        against = f"no known checksum to verify against: kept in {kept} from now on"
    else:
        against = f"verified against the checksum in {kept}"
    return f"{'fetched' if got.fetched else 'already here'}, {against}"


class _Bar:
    """A progress bar that starts when the size of the file is known."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._advance: Callable[[int], None] = lambda count: None

    def begin(self, name: str, total: int | None, done: int) -> None:
        self._advance = self._stack.enter_context(progress(name, total=total))
        self._advance(done)

    def advance(self, count: int) -> None:
        self._advance(count)


# --- split --------------------------------------------------------------------------------------


def add_split(parser: argparse.ArgumentParser) -> None:
    """Arguments of `zlpr data split`."""
    parser.add_argument("data", help='a file, a folder, or "demo"')
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the parts")
    parser.add_argument(
        "--method",
        choices=("random", "stratified", "group"),
        help="divide at random by a hash of the content, stratified by label, or by whole groups "
        "(default: random, and group where --group is given)",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of the split (default 0)")
    parser.add_argument(
        "--fractions",
        nargs=3,
        type=float,
        default=(0.8, 0.1, 0.1),
        metavar=("TRAIN", "VALIDATION", "TEST"),
        help="share of each part (default 0.8 0.1 0.1)",
    )
    parser.add_argument(
        "--mix-parts",
        action="store_true",
        help="divide data that has a split of its own anew, with all its parts",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there")
    _add_json(parser)
    add_reading_arguments(parser)


def run_split(args: argparse.Namespace) -> None:
    """Divide the data, write the parts and say how alike they are."""
    from zlpr.data import make_split, report_split, save, save_split
    from zlpr.data.loading import SPLIT_FILE
    from zlpr.data.splits import small_parts, usual_method

    data = load_data(args.data, args, mixed=args.mix_parts)
    if data.split is not None and not args.mix_parts:
        sizes = report_split(data).sizes
        raise UserError(
            f"{args.data}: has a split of its own, {_parts_line(sizes)}; give one of its files to "
            "divide that part, or --mix-parts to divide all rows anew"
        )
    with progress(f"splitting {args.data}"):
        method = usual_method(data, args.method)
        divided = make_split(data, method, args.seed, tuple(args.fractions))
        files = save(divided, args.out, overwrite=args.overwrite)
        save_split(divided, Path(args.out) / SPLIT_FILE)
    report = report_split(divided)
    for note in small_parts(report.sizes.get("validation"), report.sizes.get("test")):
        say(f"note: {note}", error=True)
    if args.json:
        print_json({**dataclasses.asdict(report), "files": [str(file) for file in files]})
        return
    rows = [
        [name, f"{size:,}", f"{report.label_distance[name]:.5f}", f"{report.labels_absent[name]:,}"]
        for name, size in report.sizes.items()
    ]
    print_table(("part", "samples", "label distance", "labels absent"), rows, title=args.out)
    say(f"mean label distance {report.mean_label_distance:.5f} (0: every part is like the whole)")
