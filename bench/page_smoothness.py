"""The page on many samples and labels: how long views take to open, and a cut to move.

    PYTHONPATH=. python bench/page_smoothness.py [--samples 100000] [--labels 500]

A model whose scores are noise about its labels' words, on that many samples, is reviewed and
served, and Chromium opens its page. A move is what happens between two frames while a slider is
dragged: the decisions that change, and the figures; a frame at 60 Hz has 16.7 ms.
"""

import argparse
import shutil
import time
import zlib
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright
from tests.serving import words
from tests.serving.running import running

from zlpr.serving import Limits, create_app
from zlpr.serving.review import review

MOVES = """step => {
  const slider = document.getElementById('cut'), low = +slider.min, high = +slider.max, took = [];
  for (let turn = 0; turn < 100; turn++) {
    const share = step ? 0.5 : (turn * 37 % 100) / 100;
    slider.value = low + (high - low) * share + step * turn;
    const began = performance.now();
    cuts.moveAll(+slider.value);
    drawFigures();
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  return [took[50], took[95]];
}"""
SCROLLS = """() => {
  const box = document.getElementById('error-rows'), took = [];
  for (let turn = 0; turn < 100; turn++) {
    box.scrollTop = box.scrollHeight * turn / 100;
    const began = performance.now();
    errorRows.draw();
    box.offsetHeight;
    took.push(performance.now() - began);
  }
  took.sort((a, b) => a - b);
  return [took[50], took[95]];
}"""


class QuickModel(words.WordModel):
    """The same with noise that is drawn in single precision."""

    def _noise(self, text: str) -> Any:
        generator = np.random.default_rng(zlib.crc32(text.encode()))
        return generator.standard_normal(len(self.label_names), dtype=np.float32)


def main() -> None:
    """Review, serve, open, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=500)
    args = parser.parse_args()
    model = QuickModel(args.labels)
    data = words.data(model, args.samples)
    started = time.process_time()
    made = review(model, data)
    print(f"review: {time.process_time() - started:.1f} s of the processor")
    print(f"cells: {len(made.cells.scores):,}, {len(made.cells.to_bytes()) / 1e6:.0f} MB to send")
    app = create_app({"many": model}, reviews={"many": made})
    with running(app, Limits()) as (_, port), sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        _look(browser.new_page(viewport={"width": 1280, "height": 900}), port)
        browser.close()


def _look(page: Any, port: int) -> None:
    page.set_default_timeout(120_000)
    page.goto(f"http://127.0.0.1:{port}/")
    page.wait_for_selector("#facts:not(:empty)")
    for tab, sign in (
        ("threshold", "#figures td.now"),
        ("errors", "#error-rows .row"),
        ("labels", "#label-rows .row"),
    ):
        started = time.perf_counter()
        page.click(f"#tab-{tab}")
        page.locator(sign).first.wait_for()
        print(f"{tab} opens in {time.perf_counter() - started:.2f} s")
        if tab == "threshold":
            for name, step in (("a small move", 0.002), ("a jump anywhere", 0)):
                median, most = page.evaluate(MOVES, step)
                print(f"{name}: {median:.1f} ms, 95 % below {most:.1f} ms")
        if tab == "errors":
            median, most = page.evaluate(SCROLLS)
            print(f"{page.inner_text('#error-count').partition(' of')[0]}, a jump in the list:")
            print(f"{median:.1f} ms, 95 % below {most:.1f} ms")


if __name__ == "__main__":
    main()
