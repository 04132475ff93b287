"""Our downloader, which goes on where a download broke off, against pooch's own, which starts anew.

    python bench/download.py [--megabytes 24] [--rate 8] [--json]

A server on this machine sends a file at a fixed rate, once whole and once breaking off at nine
tenths of the first answer, as long downloads do; a client tries again until the file is there and
verified. The bar: where it breaks off ours takes at most 1/1.3 of pooch's time, and where it does
not, at most 1.1 of it.
"""

import argparse
import hashlib
import http.server
import json
import re
import tempfile
import threading
import time
from pathlib import Path

import pooch

from zlpr.data.download import DownloadError, fetch
from zlpr.data.sources import RemoteFile

GAIN_BAR, COST_BAR = 1.3, 1.1
PIECE = 1 << 16


class Slow(http.server.BaseHTTPRequestHandler):
    """Sends a file at a rate, with ranges; the first answer may break off."""

    content = b""
    rate = 1.0
    breaks = 0
    sent = 0

    def do_GET(self) -> None:
        """Send the file, or the rest of it that was asked for."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(found.group(1)) if found else 0
        whole, cls = self.content, type(self)
        self.send_response(206 if start else 200)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(whole) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        self.end_headers()
        end = len(whole)
        if cls.breaks:
            cls.breaks -= 1
            end = start + (len(whole) - start) * 9 // 10
        for at in range(start, end, PIECE):
            piece = whole[at : min(at + PIECE, end)]
            self.wfile.write(piece)
            cls.sent += len(piece)
            time.sleep(len(piece) / cls.rate)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def ours(url: str, digest: str, folder: Path) -> None:
    """Fetch with our downloader until the file is there."""
    for _ in range(5):
        try:
            fetch(RemoteFile(url, digest), folder)
        except DownloadError:
            continue
        return
    raise SystemExit("ours did not finish")


def theirs(url: str, digest: str, folder: Path) -> None:
    """Fetch with pooch's downloader until the file is there."""
    for _ in range(5):
        try:
            pooch.retrieve(url, f"sha256:{digest}", fname="file.bin", path=folder)
        except (ValueError, OSError):
            continue
        return
    raise SystemExit("pooch did not finish")


def measure(megabytes: int, rate: float) -> dict[str, dict[str, float]]:
    """Seconds and bytes of both, with and without a break."""
    pooch.get_logger().setLevel("ERROR")
    Slow.content = bytes(range(256)) * (megabytes * 4096)
    Slow.rate = rate * 1e6
    digest = hashlib.sha256(Slow.content).hexdigest()
    figures: dict[str, dict[str, float]] = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/file.bin"
        for case, breaks in (("whole", 0), ("broken off", 1)):
            figures[case] = {}
            for name, client in (("ours", ours), ("pooch", theirs)):
                Slow.breaks, Slow.sent = breaks, 0
                with tempfile.TemporaryDirectory() as folder:
                    start = time.perf_counter()
                    client(url, digest, Path(folder))
                    figures[case][f"{name}_seconds"] = time.perf_counter() - start
                    figures[case][f"{name}_bytes"] = Slow.sent / len(Slow.content)
            both = figures[case]
            both["ratio"] = both["pooch_seconds"] / both["ours_seconds"]
        server.shutdown()
    return figures


def main() -> int:
    """Measure, print, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(description="Our downloader against pooch's.")
    parser.add_argument("--megabytes", type=int, default=24, help="size of the file (24)")
    parser.add_argument("--rate", type=float, default=8.0, help="megabytes a second (8)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    figures = measure(args.megabytes, args.rate)
    met = figures["broken off"]["ratio"] >= GAIN_BAR and figures["whole"]["ratio"] >= 1 / COST_BAR
    if args.json:
        print(json.dumps({**figures, "met": met}, indent=2))
    else:
        for case, row in figures.items():
            print(
                f"{case:10} ours {row['ours_seconds']:.1f} s and {row['ours_bytes']:.2f} of the "
                f"file sent, pooch {row['pooch_seconds']:.1f} s and {row['pooch_bytes']:.2f}: "
                f"{row['ratio']:.2f} times as long"
            )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
