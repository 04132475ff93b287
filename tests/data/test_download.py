"""Downloads against servers on this machine: one that resumes, one that does not, and bad ones."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from zlpr._errors import UserError
from zlpr.data.download import DownloadError, fetch
from zlpr.data.sources import RemoteFile

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PART = 1 << 17


class Server(ThreadingHTTPServer):
    """Serves one file and keeps the headers it was asked with."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.tag = '"one"'
        self.ranges = True
        self.says_length = True
        self.break_after = None
        self.status = 200
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/folder/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.asked.append(dict(self.headers))
        content, start = self.server.content, self.start()
        if start >= len(content) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(206 if start else self.server.status)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        if self.server.says_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : self.server.break_after])

    def start(self):
        """Where to start: where Range says, unless ranges are off or If-Range names another."""
        wanted = self.headers.get("Range", "")
        same = self.headers.get("If-Range", self.server.tag) == self.server.tag
        usable = self.server.ranges and wanted and same
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if usable else 0

    def log_message(self, format, *args):  # noqa: A002
        pass


class Bar:
    def __init__(self):
        self.begun, self.seen = [], 0

    def begin(self, name, total, done):
        self.begun.append((name, total, done))

    def advance(self, count):
        self.seen += count


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def break_off(server, folder, file, size):
    """Let a download break off after `size` bytes."""
    server.break_after = size
    with pytest.raises(DownloadError, match=rf"broke off after {size} of {len(CONTENT)} bytes"):
        fetch(file, folder)
    server.break_after = None


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "data.bin")


def test_a_known_checksum_is_verified_and_the_file_fetched_once(server, tmp_path):
    bar = Bar()
    first = fetch(RemoteFile(server.url, SHA256), tmp_path / "new", watcher=bar)
    assert first.path.read_bytes() == CONTENT
    assert (first.sha256, first.pinned, first.fetched) == (SHA256, True, True)
    assert bar.begun == [("data.bin", len(CONTENT), 0)]
    assert bar.seen == len(CONTENT)
    again = fetch(RemoteFile(server.url, SHA256), tmp_path / "new")
    assert not again.fetched
    assert len(server.asked) == 1
    assert leftovers(tmp_path / "new") == []


def test_a_wrong_checksum_is_refused_and_nothing_kept(server, tmp_path):
    with pytest.raises(DownloadError, match=r"has not the SHA-256 0000"):
        fetch(RemoteFile(server.url, "0" * 64), tmp_path)
    assert not (tmp_path / "data.bin").exists()
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("sha256", [SHA256, ""])
def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path, sha256):
    file = RemoteFile(server.url, sha256)
    break_off(server, tmp_path, file, PART)
    assert not (tmp_path / "data.bin").exists()
    bar = Bar()
    assert fetch(file, tmp_path, watcher=bar).path.read_bytes() == CONTENT
    assert server.asked[1]["Range"] == f"bytes={PART}-"
    assert server.asked[1]["If-Range"] == '"one"'
    assert bar.begun == [("data.bin", len(CONTENT), PART)]
    assert bar.seen == len(CONTENT) - PART


def test_a_server_without_ranges_sends_everything_again(server, tmp_path):
    server.ranges = False
    file = RemoteFile(server.url, SHA256)
    break_off(server, tmp_path, file, PART)
    bar = Bar()
    assert fetch(file, tmp_path, watcher=bar).path.read_bytes() == CONTENT
    assert bar.begun == [("data.bin", len(CONTENT), 0)]


def test_a_file_that_changed_meanwhile_comes_from_its_start(server, tmp_path):
    file = RemoteFile(server.url)
    break_off(server, tmp_path, file, PART)
    server.tag, server.content = '"two"', CONTENT[::-1]
    assert fetch(file, tmp_path).path.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_version_or_checksum_the_beginning_is_not_trusted(server, tmp_path, tag):
    server.tag = tag
    file = RemoteFile(server.url)
    break_off(server, tmp_path, file, PART)
    server.content = CONTENT[::-1]
    assert fetch(file, tmp_path).path.read_bytes() == CONTENT[::-1]
    assert "Range" not in server.asked[1]


def test_a_partial_file_longer_than_the_whole_is_thrown_away(server, tmp_path):
    (tmp_path / ".data.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(RemoteFile(server.url, SHA256), tmp_path).path.read_bytes() == CONTENT
    assert [bool(headers.get("Range")) for headers in server.asked] == [True, False]


def test_a_partial_file_that_is_whole_needs_no_more(server, tmp_path):
    (tmp_path / ".data.bin.part").write_bytes(CONTENT)
    assert fetch(RemoteFile(server.url, SHA256), tmp_path).path.read_bytes() == CONTENT
    assert len(server.asked) == 1


def test_an_unknown_length_is_no_obstacle(server, tmp_path):
    server.says_length = False
    bar = Bar()
    fetch(RemoteFile(server.url, SHA256), tmp_path, watcher=bar)
    assert bar.begun == [("data.bin", None, 0)]


def test_without_a_known_checksum_the_first_one_holds(server, tmp_path):
    file = RemoteFile(server.url)
    first = fetch(file, tmp_path)
    assert (first.sha256, first.pinned) == (SHA256, False)
    assert (tmp_path / "data.bin.sha256").read_text() == f"{SHA256}  data.bin\n"
    (tmp_path / "data.bin").unlink()
    server.content = CONTENT[::-1]
    with pytest.raises(DownloadError, match=SHA256):
        fetch(file, tmp_path)
    assert not (tmp_path / "data.bin").exists()


def test_a_changed_file_on_disk_is_the_users_to_move(server, tmp_path):
    file = RemoteFile(server.url)
    fetch(file, tmp_path)
    (tmp_path / "data.bin").write_bytes(b"edited")
    with pytest.raises(UserError, match=r"data\.bin: its SHA-256 is not .* move it away"):
        fetch(file, tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == b"edited"


def test_a_mirror_serves_the_file_of_the_same_name(server, tmp_path):
    file = RemoteFile("https://publisher.invalid/far/data.bin", SHA256)
    mirror = server.url.removesuffix("data.bin")
    assert fetch(file, tmp_path, mirror=mirror).path.read_bytes() == CONTENT


def test_refusals_and_silence_are_told_in_a_line(server, tmp_path):
    server.status = 404
    with pytest.raises(DownloadError, match=r"data\.bin: the server answered 404"):
        fetch(RemoteFile(server.url), tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match=r"no answer \(ConnectionError\)"):
        fetch(RemoteFile(server.url), tmp_path)
