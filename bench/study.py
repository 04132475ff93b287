"""Lay out the data of the study in `study.toml`: links, and the films joined into one file.

    python bench/study.py DATA study-data
    zlpr compare --grid bench/study.toml --data-root study-data --out study

DATA holds the folders that `study.toml` names, as their publishers give them; the films come as
one JSON file per decade, of which those with an extract and a genre are kept.
"""

import argparse
import json
import lzma
from pathlib import Path

from zlpr._atomic import write_text


def read_films(folder: Path) -> list[dict[str, object]]:
    """Films with their extract as text and their genres as labels."""
    films = []
    for path in sorted(folder.glob("movies-*.json*")):
        opened = lzma.open if path.suffix == ".xz" else open
        with opened(path, "rt", encoding="utf-8") as stream:
            films += json.load(stream)
    return [
        {"text": film["extract"], "labels": sorted(set(film["genres"]))}
        for film in films
        if film.get("extract") and film.get("genres")
    ]


def main() -> None:
    """Write the folder that `--data-root` is to name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the public data")
    parser.add_argument("out", type=Path, help="folder to make")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in ("goemotions", "arxiv6", "uspto", "duee", "mulan"):
        link = args.out / name
        if not link.exists():
            link.symlink_to((args.data / name).resolve(), target_is_directory=True)
    films = read_films(args.data / "wikimovies")
    lines = (json.dumps(film, ensure_ascii=False) + "\n" for film in films)
    write_text(args.out / "wikimovies.jsonl", "".join(lines))
    print(f"{len(films):,} films; now: zlpr compare --grid bench/study.toml --data-root {args.out}")


if __name__ == "__main__":
    main()
