"""Mutated files for every reader: each is read, or refused in one line that names it.

    python bench/fuzz_readers.py [--cases 10000] [--seed 0] [--kinds K …] [--keep FOLDER] [--json]

Good files of every format (tables, JSON, Parquet, fastText, LibMultiLabel, sparse features, ARFF
with its XML, Hugging Face folders, folders of parts, lines, the publishers' own forms), plain and
compressed, are damaged by flipped bytes, cuts, repeats and awkward tokens. A process of its own
reads them, with a bound on its memory, and is killed where a file takes too long. A fault is

- an exception other than `UserError`, or a message of several lines or without the file's name,
- data that contradicts itself, or a count of rows that `read` and `iterate` do not share,
- a file that takes more than `--seconds` of the processor, or adds more than `--megabytes`,
- the end of the process.

The exit code is 1 if there was one; `--keep` copies the files that caused it.
"""

import argparse
import bz2
import collections
import gzip
import json
import lzma
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 1 << 18  # bytes of a mutated file
PATIENCE = 300.0  # seconds, for a process that waits for ever
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TOKENS = [
    *(
        b'"',
        b"'",
        b'""',
        b"\\",
        b"\\'",
        b"\t",
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b",",
        b";",
        b"|",
        b"%",
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b"[[",
        b"{}",
        b"null",
        b"NaN",
        b"true",
        b"-1",
        b"1e999",
        b"?",
        b"0 0",
    ),
    *(b"9" * 30, b"-" * 50, b"[" * 3000, b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80"),
    *(
        b"__label__",
        b"@data",
        b"@attribute x {a,b}",
        b"{0 'a', 1 'b\\",
        b"\\ud800",
        b"\xe2\x80\xa8",
    ),
    *(b'"text"', b'"labels"', b":", b"1:1", b"999999999:1", b"<?xml version='1.0' encoding='x'?>"),
    *(
        b"<!DOCTYPE a>",
        b"<label name='a'/>",
        b"&amp;",
        b"PK\x03\x04",
        b"PAR1",
        b"\x1f\x8b",
        b"BZh9",
    ),
]


@dataclass(frozen=True)
class Specimen:
    """A good file or folder: its files, what is read, and how."""

    name: str
    files: dict[str, bytes]
    entry: str
    how: dict[str, Any] = field(default_factory=dict)
    source: str = ""


def specimens() -> list[Specimen]:
    """One good specimen for every reader and every compression."""
    found = [*_texts(), *_arrow(), *_features(), *_sources()]
    for specimen in list(found):
        if len(specimen.files) == 1 and not specimen.source and ".parquet" not in specimen.entry:
            ((name, content),) = specimen.files.items()
            for ending, compress in COMPRESS.items():
                files = {name + ending: compress(content)}
                packed = Specimen(specimen.name + ending, files, name + ending, specimen.how)
                found.append(packed)
    return found


def _texts() -> list[Specimen]:
    from zlpr.data import Dataset, demo, make_split, save, write

    small = make_split(demo.make(40), seed=1)
    odd = Dataset.from_label_sets(
        [{"a", "b,c"}, set(), {'q"x'}] * 5,
        texts=['say "hi"\nthere', "tab\tand 'quote'", "中文 text"] * 5,
        ids=[f"id{i}" for i in range(15)],
    )
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet"):
            write(odd, folder / name)
            found.append(_of(folder / name))
        for name in ("fasttext", "libmultilabel"):
            write(small, folder / f"{name}.txt", format=name)
            found.append(_of(folder / f"{name}.txt", name))
        write(small, folder / "table", format="huggingface")
        write(odd, folder / "parts", format="huggingface")
        save(small, folder / "folder")
        found += [_of(folder / name, name) for name in ("table", "parts", "folder")]
    indicators = "id,text,l1,l2\n" + "".join(f"{i},some text,{i % 2},1\n" for i in range(20))
    lists = "text,labels\n" + 'x y,"[\'a\', \'b\']"\nz w,"[""c""]"\n' * 9
    lines = "a line of text\nanother, with a comma\n\n" * 9
    found.append(Specimen("indicators", {"i.csv": indicators.encode()}, "i.csv"))
    found.append(Specimen("lists", {"l.csv": lists.encode()}, "l.csv"))
    found.append(Specimen("lines", {"l.txt": lines.encode()}, "l.txt", {"labelled": False}))
    return found


def _arrow() -> list[Specimen]:
    """Columns in the forms that other writers give them: dictionaries, long texts, compressed."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(
        {
            "id": pyarrow.array(range(60), pyarrow.int16()),
            "text": pyarrow.array(["some words", "中文 text", ""] * 20, pyarrow.large_string()),
            "labels": pyarrow.array([["a"], ["b", "a"], []] * 20),
            "split": pyarrow.array(["train", "test", "train"] * 20).dictionary_encode(),
        }
    )
    described = b'{"_data_files": [{"filename": "data.arrow"}]}'
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for packing in ("snappy", "zstd", "gzip"):
            name = f"{packing}.parquet"
            parquet.write_table(table, folder / name, compression=packing, row_group_size=25)
            found.append(_of(folder / name, f"parquet-{packing}"))
        for packing in (None, "zstd", "lz4"):
            options = pyarrow.ipc.IpcWriteOptions(compression=packing)
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, table.schema, options=options) as stream:
                stream.write_table(table, max_chunksize=25)
            files = {
                "saved/data.arrow": sink.getvalue().to_pybytes(),
                "saved/state.json": described,
                "saved/dataset_info.json": b"{}",
            }
            found.append(Specimen(f"arrow-{packing or 'plain'}", files, "saved"))
    return found


def _features() -> list[Specimen]:
    import numpy as np
    from scipy import sparse

    from zlpr.data import Dataset, write

    matrix = np.random.default_rng(0).random((12, 6)).round(2) * (np.arange(72).reshape(12, 6) % 3)
    sets = [{f"l{i % 4}"} for i in range(12)]
    nominal = (
        "@relation r\n@attribute 'x y' {red,'light, blue',\"g\"}\n@attribute n numeric\n"
        "@attribute s string\n@attribute l0 {0,1}\n@data\n" + "'light, blue',1.5,'a text',1\n" * 9
    )
    quoted = (
        "@relation r\n@attribute n numeric\n@attribute k {'0','a b'}\n@attribute l0 {0,1}\n@data\n"
        + "{0 1.5, 1 'a b', 2 1}\n{}\n" * 9
    )
    xml = b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="l0"></label></labels>'
    found = [
        Specimen("nominal", {"n.arff": nominal.encode(), "n.xml": xml}, "n.arff"),
        Specimen("quoted", {"q.arff": quoted.encode(), "q.xml": xml}, "q.arff"),
        Specimen("libsvm", {"x.svm": b"1,2 0:1 5:0.5\n 3:1\n2 1:1e3\n" * 9}, "x.svm"),
    ]
    with tempfile.TemporaryDirectory() as place:
        for kind, features in (("dense", matrix), ("sparse", sparse.csr_array(matrix))):
            folder = Path(place) / kind
            write(Dataset.from_label_sets(sets, features=features), folder / "m.arff")
            found.append(_of(folder, f"arff-{kind}", "m.arff"))
        write(Dataset.from_label_sets(sets, features=sparse.csr_array(matrix)), folder / "x.svm")
        found.append(_of(folder / "x.svm"))
    return found


def _sources() -> list[Specimen]:
    """The publishers' own forms, from the fixtures of the tests."""
    kinds = {
        "archive": "Archive",
        "cmu-movie": "CMU-Movie",
        "cnipa": "CNIPA",
        "toutiao": "Toutiao",
        "goemotions": "GoEmotions",
        "goemotions-simplified": "GoEmotions-Simplified",
        "toxic": "Toxic",
        "uspto": "USPTO",
        "uspto-table": "USPTO",
    }
    fixtures = ROOT / "tests" / "data" / "sources" / "files"
    found = []
    for folder, source in kinds.items():
        plain = _of(fixtures / folder, folder)
        found.append(Specimen(folder, plain.files, plain.entry, source=source))
    return found


def _of(path: Path, name: str = "", entry: str = "") -> Specimen:
    """A specimen of what is on the disk."""
    if path.is_file():
        return Specimen(name or path.suffix[1:], {path.name: path.read_bytes()}, path.name)
    files = {str(p.relative_to(path.parent)): p for p in sorted(path.rglob("*")) if p.is_file()}
    inside = f"{path.name}/{entry}" if entry else path.name
    return Specimen(name, {name: p.read_bytes() for name, p in files.items()}, inside)


def mutated(specimen: Specimen, others: list[Specimen], rng: random.Random) -> dict[str, bytes]:
    """The files of a specimen, one or more of them damaged."""
    files = dict(specimen.files)
    for name in rng.sample(sorted(files), k=1 if rng.random() < 0.8 else len(files)):
        ending = Path(name).suffix
        if ending in COMPRESS and rng.random() < 0.5:
            plain = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[ending].decompress(files[name])
            files[name] = COMPRESS[ending](_damaged(plain, others, rng))
        else:
            files[name] = _damaged(files[name], others, rng)
    if len(files) > 1 and rng.random() < 0.05:
        del files[rng.choice(sorted(files))]
    return files


def _damaged(content: bytes, others: list[Specimen], rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        end = min(end, at + rng.choice((1, 4, 30, 1000)))
        piece = content[at:end]
        action = rng.randrange(9)
        if action == 0 and content:
            flipped = bytearray(content)
            flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            content = bytes(flipped)
        elif action == 1:
            content = content[:at] + rng.randbytes(len(piece)) + content[end:]
        elif action == 2:
            content = content[:at] + content[end:]
        elif action == 3:
            content = content[:at]
        elif action in (4, 5):
            content = content[:at] + rng.choice(TOKENS) + content[end if action == 4 else at :]
        elif action == 6:
            content = content[:at] + piece * rng.choice((2, 30, 3000)) + content[end:]
        elif action == 7:
            content = content[:at] + rng.choice(TOKENS) * rng.choice((2, 300, 30000)) + content[at:]
        else:
            other = rng.choice(list(rng.choice(others).files.values()))
            content = content[:at] + other[rng.randrange(len(other) + 1) :]
        content = content[:LONGEST]
    return content


def work(megabytes: int) -> None:
    """The process that reads: a JSON line per case on standard input, an outcome per line back."""
    import datasets  # noqa: F401 - what readers load is no part of a file's time
    import lxml.etree  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    import zlpr.data  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    bound = size + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(outcome(**json.loads(line))), file=answers, flush=True)


def outcome(path: str, how: dict[str, Any], source: str) -> tuple[str, str]:
    """Read a file: "read", "refused", or "fault" with what is wrong."""
    import traceback

    from zlpr import UserError
    from zlpr.data import load
    from zlpr.data.sources import prepare

    try:
        sets = list(prepare(source, path).datasets.values()) if source else [load(path, **how)]
        problem = next(filter(None, map(_contradiction, sets)), "") or _disagreement(path, how)
    except UserError as refused:
        message = str(refused)
        if "\n" in message or len(message) > 2000:
            return "fault", f"not one line: {message[:300]!r}"
        named = str(Path(path).parent) in message  # it may be the file beside, such as ARFF's XML
        return ("refused", "") if named else ("fault", f"without its name: {message}")
    except Exception:
        return "fault", traceback.format_exc(limit=-3)
    return ("fault", problem) if problem else ("read", "")


def _contradiction(data: Any) -> str:
    """What is wrong with data in itself."""
    if len(set(data.label_names)) != data.num_labels:
        return "a label name appears twice"
    if data.labels.has_canonical_format is False or not data.labels.data.all():
        return "a label matrix with repeated or false entries"
    for text in data.texts or ():
        text.encode()
    return ""


def _disagreement(path: str, how: dict[str, Any]) -> str:
    """What `read` and `iterate` say differently of a file."""
    from zlpr.data import iterate, read

    if not Path(path).is_file():
        return ""
    streamed = sum(len(block.labels) for block in iterate(path, **how))
    whole = len(read(path, **how))
    return "" if streamed == whole else f"iterate gives {streamed} rows, read {whole}"


class Worker:
    """A process that reads files, started again when it ends."""

    def __init__(self, seconds: float, megabytes: int) -> None:
        self._seconds, self._megabytes = seconds, megabytes
        self._before = 0.0
        self._start()

    def _start(self) -> None:
        command = [sys.executable, __file__, "--work", "--megabytes", str(self._megabytes)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._process.stdout.readline()  # type: ignore[union-attr]

    def read(self, case: dict[str, Any]) -> tuple[str, str]:
        """The outcome of one case."""
        process = self._process
        process.stdin.write(json.dumps(case) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        line = process.stdout.readline() if self._answers() else None  # type: ignore[union-attr]
        if line:
            kind, detail = json.loads(line)
            return kind, detail
        self._before += self._processor_seconds()
        if line is None:
            process.kill()
        code = process.wait()
        self._start()
        return "fault", f"more than {self._seconds} s" if line is None else f"ended with {code}"

    def _answers(self) -> bool:
        """Wait for the answer while it may still come; what others compute meanwhile is no time."""
        limit, started = self._processor_seconds() + self._seconds, time.monotonic()
        while self._processor_seconds() < limit and time.monotonic() < started + PATIENCE:
            if select.select([self._process.stdout], [], [], 0.5)[0]:
                return True
        return False

    @property
    def spent(self) -> float:
        """Seconds of processor time that all cases took."""
        return self._before + self._processor_seconds()

    def _processor_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


def campaign(args: argparse.Namespace) -> dict[str, Any]:
    """Run the cases and count what came of them."""
    every = [found for found in specimens() if not args.kinds or found.name in args.kinds]
    if not every:
        raise SystemExit(f"--kinds: there are {', '.join(found.name for found in specimens())}")
    rng = random.Random(args.seed)  # noqa: S311 - nothing here is secret
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    faults, slowest = [], (0.0, "")
    worker = Worker(args.seconds, args.megabytes)
    with tempfile.TemporaryDirectory() as place:
        for specimen in every:  # the specimens themselves are good
            kind, detail = run_case(worker, specimen, specimen.files, Path(place) / "good")
            assert kind == "read", (specimen.name, kind, detail)
        for number in range(args.cases):
            specimen = every[number % len(every)]
            files = mutated(specimen, every, rng)
            start = worker.spent
            kind, detail = run_case(worker, specimen, files, Path(place) / "case")
            slowest = max(slowest, (worker.spent - start, f"{specimen.name} ({number})"))
            counts[specimen.name][kind] += 1
            if kind == "fault":
                faults.append({"case": number, "specimen": specimen.name, "detail": detail})
                if args.keep:
                    target = Path(args.keep) / f"{number}-{specimen.name}"
                    shutil.copytree(Path(place) / "case", target, dirs_exist_ok=True)
    worker.close()
    return {
        "cases": args.cases,
        "seed": args.seed,
        "bounds": {"seconds": args.seconds, "megabytes": args.megabytes},
        "outcomes": {name: dict(count) for name, count in counts.items()},
        "total": dict(sum(counts.values(), collections.Counter())),
        "slowest": {"seconds": round(slowest[0], 2), "case": slowest[1]},
        "faults": faults,
    }


def run_case(
    worker: Worker, specimen: Specimen, files: dict[str, bytes], folder: Path
) -> tuple[str, str]:
    """Write the files of a case and have them read."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    path = str(folder / specimen.entry)
    return worker.read({"path": path, "how": specimen.how, "source": specimen.source})


def main() -> int:
    """Run a campaign and print its figures."""
    parser = argparse.ArgumentParser(description="Mutated files for every reader.")
    parser.add_argument("--cases", type=int, default=10_000, help="mutated files (10,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the mutations (0)")
    parser.add_argument("--kinds", nargs="+", default=[], help="damage files of these kinds only")
    parser.add_argument("--seconds", type=float, default=10.0, help="that a file may take (10)")
    parser.add_argument("--megabytes", type=int, default=1024, help="that reading may add (1024)")
    parser.add_argument("--keep", metavar="FOLDER", help="copy the files that caused a fault")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.megabytes)
        return 0
    found = campaign(args)
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        for fault in found["faults"]:
            print(f"case {fault['case']}, {fault['specimen']}: {fault['detail']}")
        print(
            f"{found['cases']:,} files of {len(found['outcomes'])} kinds (seed {found['seed']}): "
            + ", ".join(f"{count:,} {kind}" for kind, count in sorted(found["total"].items()))
            + f"; {len(found['faults'])} faults; slowest {found['slowest']['seconds']} s, "
            + found["slowest"]["case"]
        )
    return 1 if found["faults"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
