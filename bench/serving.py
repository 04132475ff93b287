"""`zlpr serve` under load, and beside a bare FastAPI that calls `predict_scores`.

    python bench/serving.py MODEL_FOLDER DATA [--clients 200] [--seconds 60] [--json FILE]

`load`: so many clients on loopback, each with its connection, ask one text after another for so
many seconds. Every answer is compared with what the model predicts for that very text: none may be
lost, wrong or mixed up. The server's memory is read after a sixth of the time and at the end.

`ratio`: the same clients ask `zlpr serve` and the bare service in turns, three times each; the
medians of answers a second and of the latency are compared. The bare service has no limits, no
batches, no token, no log; its route is a plain function, which FastAPI runs in threads, and it
sends the scores alone. So `scores` asks `zlpr serve` for those alone as well (`/v2/…/infer`); the
bar is 0.8 of the bare throughput, and a latency of no more than 1 / 0.8 of the bare one. `answers`
asks `/predict`, which decides and computes probabilities too, and is shown beside it.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from zlpr import load
from zlpr.cli._console import print_table
from zlpr.data import load as load_data

BAR = 0.8
TEXTS = 500
ROUNDS = 3
ROUND_SECONDS = 6.0
OURS = "zlpr serve, scores"
ANSWERS = "zlpr serve, answers"
BARE = "bare FastAPI"


def bare_service(folder: str, port: int) -> None:
    """What someone writes in ten minutes."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Asked(BaseModel):
        texts: list[str]

    model, app = load(folder), FastAPI()

    @app.post("/predict")
    def predict(asked: Asked) -> dict[str, Any]:
        return {"scores": model.predict_scores(asked.texts).tolist()}

    uvicorn.run(app, port=port, log_level="warning", access_log=False)


@contextmanager
def service(command: list[str], port: int) -> Iterator[psutil.Process]:
    """A server in a process of its own, once it answers."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            asyncio.run(_until_there(port, process))
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)


async def _until_there(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError("the server has ended")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError("the server does not answer")


@dataclass(frozen=True)
class Asking:
    """Where and how to ask."""

    port: int
    path: str = "/predict"

    def body(self, text: str) -> dict[str, Any]:
        """A request about one text."""
        if self.path == "/predict":
            return {"texts": [text]}
        tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [text]}
        return {"inputs": [tensor], "outputs": [{"name": "scores"}]}


@dataclass
class Outcome:
    """What a load came to."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def throughput(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def latency(self, share: float) -> float:
        """The latency that a share of the answers stays below, in milliseconds."""
        return 1000 * sorted(self.latencies)[int(share * (len(self.latencies) - 1))]


async def ask_all(
    asking: "Asking",
    texts: list[str],
    clients: int,
    seconds: float,
    expected: list[set[str]] | None,
) -> Outcome:
    """Clients that ask one text after another, each in its own connection."""
    outcome = Outcome()
    started = time.perf_counter()
    end = started + seconds
    one_by_one = (
        _client(asking, texts, number, clients, end, expected, outcome) for number in range(clients)
    )
    await asyncio.gather(*one_by_one)
    outcome.seconds = time.perf_counter() - started
    return outcome


async def _client(
    asking: "Asking",
    texts: list[str],
    number: int,
    step: int,
    end: float,
    expected: list[set[str]] | None,
    outcome: Outcome,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", asking.port)
    place = number
    while time.perf_counter() < end:
        own = place % len(texts)
        asked = time.perf_counter()
        try:
            status, body = await _ask(reader, writer, asking, texts[own])
        except (OSError, asyncio.IncompleteReadError) as fault:
            outcome.faults.append(f"lost: {type(fault).__name__}")
            return
        outcome.latencies.append(time.perf_counter() - asked)
        if status != 200:
            outcome.faults.append(f"status {status}")
        elif expected is not None:
            said = set(json.loads(body)["answers"][0]["labels"])
            if said != expected[own]:
                outcome.faults.append("the answer to another text")
        place += step + 1
    writer.close()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asking: "Asking", text: str
) -> tuple[int, bytes]:
    body = json.dumps(asking.body(text)).encode()
    head = (
        f"POST {asking.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    received = await reader.readuntil(b"\r\n\r\n")
    length = int(received.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    return int(received[9:12]), await reader.readexactly(length)


def measure_load(
    process: psutil.Process, asking: Asking, texts: list[str], expected: list[set[str]], args: Any
) -> dict[str, Any]:
    """The long load: what was lost, and how memory went."""
    parts, memory = [args.seconds / 6, 5 * args.seconds / 6], []
    outcomes = []
    for seconds in parts:
        outcomes.append(asyncio.run(ask_all(asking, texts, args.clients, seconds, expected)))
        memory.append(process.memory_info().rss / 1e6)
    return {
        "clients": args.clients,
        "answers": sum(len(outcome.latencies) for outcome in outcomes),
        "faults": [fault for outcome in outcomes for fault in outcome.faults],
        "memory after a sixth, MB": memory[0],
        "memory at the end, MB": memory[1],
    }


def measure_ratio(services: dict[str, Asking], texts: list[str], clients: int) -> dict[str, Any]:
    """The services in turns."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in services}
    for _ in range(ROUNDS):
        for name, asking in services.items():
            outcomes[name].append(asyncio.run(ask_all(asking, texts, clients, ROUND_SECONDS, None)))
    faults = [fault for runs in outcomes.values() for run in runs for fault in run.faults]
    if faults:
        raise RuntimeError(f"{len(faults)} faults: {faults[0]}")
    figures: dict[str, Any] = {
        name: {
            "throughput": statistics.median(run.throughput for run in runs),
            "median, ms": statistics.median(run.latency(0.5) for run in runs),
            "95 %, ms": statistics.median(run.latency(0.95) for run in runs),
        }
        for name, runs in outcomes.items()
    }
    bare = figures[BARE]
    for name in (OURS, ANSWERS):
        own = figures[name]
        figures[f"ratio, {name.rpartition(' ')[2]}"] = {
            key: own[key] / bare[key] if key == "throughput" else bare[key] / own[key]
            for key in own
        }
    return {"clients": clients, **figures}


def main() -> None:
    """Start both, load them, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("data")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=8801)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.bare:
        bare_service(args.folder, args.port)
        return
    texts = list(load_data(args.data).texts[:TEXTS])
    expected = [set(labels) for labels in load(args.folder).predict(texts)]
    own, other = args.port, args.port + 1
    path = f"/v2/models/{Path(args.folder).resolve().name}/infer"
    services = {OURS: Asking(own, path), ANSWERS: Asking(own), BARE: Asking(other)}
    zlpr = [
        sys.executable,
        "-m",
        "zlpr",
        "serve",
        args.folder,
        "--quiet",
        "--port",
        str(own),
    ]
    bare = [sys.executable, __file__, args.folder, args.data, "--bare", "--port", str(other)]
    with service(zlpr, own) as ours, service(bare, other):
        found = {
            "ratio": [measure_ratio(services, texts, clients) for clients in (1, args.clients)],
            "load": measure_load(ours, services[ANSWERS], texts, expected, args),
        }
    _show(found)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _show(found: dict[str, Any]) -> None:
    rows = [
        [f"{part['clients']}", name, *(f"{value:.2f}" for value in part[name].values())]
        for part in found["ratio"]
        for name in part
        if name != "clients"
    ]
    print_table(["clients", "service", "answers/s", "median, ms", "95 %, ms"], rows)
    worst = min(min(part["ratio, scores"].values()) for part in found["ratio"])
    print(f"lowest ratio of scores {worst:.2f}, bar {BAR}: {'met' if worst >= BAR else 'missed'}")
    held = found["load"]
    print(
        f"{held['clients']} clients: {held['answers']:,} answers, {len(held['faults'])} lost or "
        f"wrong; memory {held['memory after a sixth, MB']:.0f} MB after a sixth of the time, "
        f"{held['memory at the end, MB']:.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
