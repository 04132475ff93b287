"""Embeddings are computed once, kept whole or not at all, and make room for newer ones."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import tiny
from zlpr._errors import UserError
from zlpr.models import embedding_cache as cache
from zlpr.models.embedding_progress import embedding_progress
from zlpr.models.encoder import Encoder

pytestmark = pytest.mark.usefixtures("own_cache")


class Counting(Encoder):
    """Remembers what it was asked to embed."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], watch: Any = None) -> NDArray[np.float32]:
        self.asked.extend(texts)
        return super().embed(texts, watch)


@pytest.fixture
def encoder(tmp_path: Path) -> Counting:
    (tmp_path / "encoder").mkdir()
    return Counting(str(tiny.bert(tmp_path / "encoder")))


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"bread {number}" for number in range(first, first + count)]


def test_a_text_is_embedded_once(encoder: Counting) -> None:
    texts = numbered(200)
    first = cache.embed(encoder, texts + texts)
    np.testing.assert_allclose(first[:200], Encoder(encoder.name).embed(texts), atol=1e-6)
    np.testing.assert_array_equal(first[:200], first[200:])
    assert sorted(encoder.asked) == sorted(texts)
    np.testing.assert_array_equal(cache.embed(encoder, texts[::-1]), first[:200][::-1])
    assert len(encoder.asked) == 200
    cache.embed(encoder, [*texts, "soup"])
    assert encoder.asked[200:] == ["soup"]


def test_another_encoder_and_another_length_have_their_own(
    encoder: Counting, tmp_path: Path
) -> None:
    cache.embed(encoder, numbered(200))
    (tmp_path / "other").mkdir()
    for other in (
        Counting(str(tiny.bert(tmp_path / "other", seed=1))),
        Counting(encoder.name, max_length=3),
    ):
        cache.embed(other, numbered(200))
        assert len(other.asked) == 200
    assert len(cache.contents()) == 3


def test_few_texts_and_a_limit_of_nothing_leave_no_file(
    encoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.embed(encoder, numbered(cache.FEWEST - 1))
    monkeypatch.setenv(cache.LIMIT, "0")
    cache.embed(encoder, numbered(300))
    assert not list(cache.cache_folder().rglob("*.safetensors"))


def test_what_was_not_used_for_longest_makes_room(
    encoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        cache.embed(encoder, numbered(200, 1000 * number))
    (folder,) = (entry.folder for entry in cache.contents())
    for age, file in enumerate(sorted(folder.glob("*.safetensors"), key=os.path.getmtime)):
        os.utime(file, (0, 1000 + age))
    cache.embed(encoder, numbered(200))  # the oldest is used again
    size = sum(entry.num_bytes for entry in cache.contents())
    monkeypatch.setenv(cache.LIMIT, str(size * 1.1 / 1e9))
    cache.embed(encoder, numbered(200, 5000))
    assert sum(entry.num_bytes for entry in cache.contents()) <= size * 1.1
    asked = len(encoder.asked)
    cache.embed(encoder, numbered(200))
    cache.embed(encoder, numbered(200, 5000))
    assert len(encoder.asked) == asked
    cache.embed(encoder, numbered(200, 1000))
    assert len(encoder.asked) == asked + 200


def test_damage_is_computed_anew_and_leavings_of_a_kill_go(encoder: Counting) -> None:
    whole = cache.embed(encoder, numbered(200))
    (file,) = cache.cache_folder().rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-100])
    left = file.with_name(f".{file.name}.x.part")
    left.write_bytes(b"half")
    os.utime(left, (0, time.time() - 7200))
    np.testing.assert_allclose(cache.embed(encoder, numbered(200)), whole, atol=1e-6)
    assert not left.exists()
    assert len(encoder.asked) == 400


def test_a_kill_costs_only_the_last_seconds(
    encoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SECONDS_BETWEEN_FILES", 0.0)
    monkeypatch.setattr("zlpr.models.encoder._TOKENS_AT_ONCE", 4 * 150)

    def killed(done: int, total: int) -> None:
        if done >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), embedding_progress(killed):
        cache.embed(encoder, numbered(500))
    assert cache.contents()[0].num_bytes > 150 * 16 * 4
    encoder.asked.clear()
    cache.embed(encoder, numbered(500))
    assert len(encoder.asked) <= 350


def test_two_at_once_share_the_work(encoder: Counting) -> None:
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: cache.embed(encoder, numbered(200)), range(2)))
    np.testing.assert_allclose(made[0], made[1], atol=1e-6)


def test_a_cache_that_cannot_be_written_is_done_without(
    encoder: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "file"))
    assert cache.embed(encoder, numbered(200)).shape == (200, 16)


def test_clearing_frees_what_was_there(encoder: Counting) -> None:
    cache.embed(encoder, numbered(200))
    size = cache.contents()[0].num_bytes
    assert cache.clear() == size > 0
    assert cache.contents() == []
    assert cache.clear() == 0


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.LIMIT, "lots")
    with pytest.raises(UserError, match="ZLPR_CACHE_GB='lots': expected a number"):
        cache.size_limit()


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.cache_folder() == Path("/caches/zlpr/embeddings")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path("~/.cache/zlpr/embeddings").expanduser()


def test_a_number_that_changed_on_the_disk_is_seen(encoder: Counting) -> None:
    whole = cache.embed(encoder, numbered(200))
    (file,) = cache.cache_folder().rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-2] ^= 1  # still a finite number
    file.write_bytes(content)
    np.testing.assert_allclose(cache.embed(encoder, numbered(200)), whole, atol=1e-6)
    assert len(encoder.asked) == 400


def test_what_is_no_embedding_stays_when_the_cache_is_cleared(
    encoder: Counting, tmp_path: Path
) -> None:
    cache.embed(encoder, numbered(200))
    (entry,) = cache.contents()
    (entry.folder / "notes.txt").write_text("mine")
    (entry.folder / "x.safetensors").mkdir()
    cache.embed(encoder, numbered(200))
    (entry.folder / "x.safetensors").rmdir()
    cache.clear()
    assert [path.name for path in entry.folder.iterdir()] == ["notes.txt"]
    moved = tmp_path / "moved"
    cache.embed(encoder, numbered(200))
    entry.folder.rename(moved)
    entry.folder.symlink_to(moved)
    assert cache.clear() > 0
    assert not list(moved.glob("*.safetensors"))
