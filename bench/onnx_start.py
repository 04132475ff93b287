"""How long an exported model takes from nothing to its first answer, beside the package.

    python bench/onnx_start.py MODEL_FOLDER [--text TEXT] [--runs 9]

Each run is a fresh interpreter that loads the model and predicts one text; the fastest of the runs
counts, since what makes one slower is the machine. Beside the time on the clock stands that of the
processor, which rises less where other programs run. `import` is `import zlpr.serving.onnx` alone,
`session` that and the model loaded, `answer` that and one text; `package` is `zlpr.load` and the
same text.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from zlpr import load
from zlpr.serving.export import export

CODE = {
    "python": "",
    "import": "import zlpr.serving.onnx",
    "session": "from zlpr.serving.onnx import OnnxModel; OnnxModel(sys.argv[1])",
    "answer": "from zlpr.serving.onnx import OnnxModel;"
    " OnnxModel(sys.argv[1]).predict([sys.argv[3]])",
    "package": "import zlpr; zlpr.load(sys.argv[2]).predict([sys.argv[3]])",
}
BAR = 0.3


def seconds(code: str, arguments: list[str], runs: int) -> tuple[float, float]:
    """The fastest of some runs of a fresh interpreter, by the clock and by the processor."""
    clock, processor = [], []
    for _ in range(runs):
        start, used = time.perf_counter(), _processor_seconds()
        subprocess.run([sys.executable, "-c", f"import sys; {code}", *arguments], check=True)
        clock.append(time.perf_counter() - start)
        processor.append(_processor_seconds() - used)
    return min(clock), min(processor)


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main() -> None:
    """Export, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--text", default="Arrived broken, and nobody answers.")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        export(load(args.folder), path)
        figures["megabytes"] = path.stat().st_size / 1e6
        arguments = [str(path), args.folder, args.text]
        for name, code in CODE.items():
            figures[name], figures[f"{name}_processor"] = seconds(code, arguments, args.runs)
    if args.json:
        print(json.dumps({**figures, "bar": BAR, "met": figures["answer"] < BAR}, indent=2))
        return
    print(f"{figures['megabytes']:.1f} MB")
    for name in CODE:
        print(f"{name:8} {figures[name]:.3f} s, processor {figures[f'{name}_processor']:.3f} s")
    print(f"answer in {BAR} s: {'met' if figures['answer'] < BAR else 'missed'}")


if __name__ == "__main__":
    main()
