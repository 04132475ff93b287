"""`zlpr report`: the page and the tables of a comparison, from its run records alone."""

import argparse

EXAMPLE = "zlpr report zlpr-comparison"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The records' folder, and where the report goes."""
    parser.add_argument(
        "folder", metavar="DIR", help="folder that 'zlpr compare' wrote, or one of run records"
    )
    parser.add_argument("--out", metavar="DIR", help="folder to write into (default: DIR)")
    parser.add_argument(
        "--raw-csv",
        action="store_true",
        help="in report.csv, leave names that start with =, +, - or @ as they are; by default they "
        "get an apostrophe, so that no spreadsheet takes them for formulas",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> None:
    """Read the records, write the report in all its forms, print where it is."""
    from pathlib import Path

    from zlpr._errors import UserError
    from zlpr.cli._console import print_json, say
    from zlpr.cli._tables import print_results, results_json
    from zlpr.compare import Results, RunFolder, write_report

    folder = RunFolder(Path(args.folder))
    selection = folder.select()
    for line in selection.left_out:
        say(line, error=True)
    results = Results.from_records(selection.records)
    if not results.contests:
        raise UserError(f"{args.folder}: no run there has finished, so there is nothing to report")
    paths = write_report(selection, Path(args.out or args.folder), raw_csv=args.raw_csv)
    if args.json:
        files = {form: str(path) for form, path in paths.items()}
        print_json({"figures": results_json(results), "files": files})
        return
    print_results(results)
    for path in list(paths.values())[1:]:
        say(str(path))
    say(f"report: {paths['html']}")
