"""CMU-Movie: Wikipedia's film plots with Freebase genres, by film name and by plot summary."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zlpr._counted import counted
from zlpr.data.sources._archives import RawFile, find_one
from zlpr.data.sources._rows import Reading, lines
from zlpr.data.sources._source import Record, RemoteFile, Source

METADATA_COLUMNS = 9
EXPECTS = "movie.metadata.tsv and plot_summaries.txt, or MovieSummaries.tar.gz with both"


@dataclass(frozen=True)
class _Film:
    name: str
    genres: dict[str, str]  # Freebase id -> name


def records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read the films that have both a plot and an entry in the metadata, in the plots' order.

    Genres are told apart by their Freebase id, as the paper's number of categories (372) needs:
    the names alone are fewer. The label is the genre's name, with the id where two genres share
    it. A film without a genre is a sample with an empty set, as the paper counts it.
    """
    metadata = find_one(raw, "movie.metadata.tsv", expects=EXPECTS)
    plots = find_one(raw, "plot_summaries.txt", expects=EXPECTS)
    films = _read_films(metadata, reading)
    labels = _labels(films)
    for line, text in lines(plots, reading):
        identifier, tab, plot = text.partition("\t")
        if not tab:
            reading.reject(plots, line, "1 column, expected 2 (film id, plot)")
        elif identifier not in films:
            reading.leave_out("plot of a film without metadata")
        else:
            film = films[identifier]
            yield Record(identifier, (film.name, plot), tuple(labels[g] for g in film.genres))


def _read_films(file: RawFile, reading: Reading) -> dict[str, _Film]:
    films = {}
    for line, text in lines(file, reading):
        cells = text.split("\t")
        if len(cells) != METADATA_COLUMNS:
            reading.reject(
                file, line, f"{counted(len(cells), 'column')}, expected {METADATA_COLUMNS}"
            )
            continue
        genres = _parse_genres(cells[8])
        if genres is None:
            reading.reject(file, line, "expected genres as a JSON map of id to name", column=9)
            continue
        films[cells[0]] = _Film(cells[2], genres)
    return films


def _parse_genres(text: str) -> dict[str, str] | None:
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError:
        return None
    if isinstance(value, dict) and all(isinstance(name, str) for name in value.values()):
        return {identifier: name.strip() for identifier, name in value.items()}
    return None


def _labels(films: dict[str, _Film]) -> dict[str, str]:
    """A label for each genre's id: its name, with the id where the name is not enough."""
    names = {genre: name for film in films.values() for genre, name in film.genres.items()}
    sharing = defaultdict(set)
    for genre, name in names.items():
        sharing[name].add(genre)
    return {g: name if len(sharing[name]) == 1 else f"{name} ({g})" for g, name in names.items()}


SOURCE = Source(
    name="CMU-Movie",
    sets=("Movie-Name", "Movie-Summary"),
    summary="films on Wikipedia with their genres (CMU Movie Summary Corpus)",
    address="https://www.cs.cmu.edu/~ark/personas/",
    terms="Creative Commons Attribution-ShareAlike",
    expects=EXPECTS,
    records=records,
    files=(RemoteFile("https://www.cs.cmu.edu/~ark/personas/data/MovieSummaries.tar.gz"),),
)
