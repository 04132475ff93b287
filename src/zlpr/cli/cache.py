"""`zlpr cache`: the embeddings that are kept on the disk; how much they take, and clearing them."""

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from zlpr._escape import for_terminal
from zlpr.cli._console import print_json, print_table, say

if TYPE_CHECKING:
    from zlpr.models.embedding_cache import CachedEncoder

EXAMPLE = "zlpr cache --clear"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do with it, and the form of the answer."""
    parser.add_argument("--clear", action="store_true", help="remove all cached embeddings")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Show what is kept, or remove it."""
    from zlpr.models import embedding_cache as cache

    folder, limit = cache.cache_folder(), cache.size_limit()
    freed = cache.clear() if args.clear else 0
    held = cache.contents()
    if args.json:
        print_json(
            {
                "folder": str(folder),
                "limit_bytes": limit,
                "freed_bytes": freed,
                "encoders": [_entry(encoder) for encoder in held],
            }
        )
        return
    if args.clear:
        say(f"{_megabytes(freed)} freed in {for_terminal(str(folder))}")
        return
    total = _megabytes(sum(encoder.num_bytes for encoder in held))
    say(f"{for_terminal(str(folder))}: {total}, of at most {_megabytes(limit)}")
    if held:
        rows = [
            [
                f"{encoder.num_bytes / 1e6:,.1f}",
                str(encoder.max_length),
                _day(encoder),
                for_terminal(encoder.name),
            ]
            for encoder in held
        ]
        print_table(("MB", "tokens", "last used", "encoder"), rows)
        say("zlpr cache --clear removes all of it; ZLPR_CACHE_GB sets the limit.")


def _entry(encoder: "CachedEncoder") -> dict[str, Any]:
    return {
        "encoder": encoder.name,
        "max_length": encoder.max_length,
        "bytes": encoder.num_bytes,
        "last_used": _day(encoder),
    }


def _day(encoder: "CachedEncoder") -> str:
    return f"{datetime.fromtimestamp(encoder.last_used, UTC):%Y-%m-%d}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
