"""The pictures of the page in the documentation.

    python bench/page_pictures.py http://127.0.0.1:8000/ --out docs/figures

while `zlpr serve MODEL DATA` runs there. Needs Chromium.
"""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

TEXT = "The parcel arrived two weeks late, the box was broken, and I want my money back."


def main() -> None:
    """Open the page, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    args = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1120, "height": 720})
        page.goto(args.address)
        page.fill("#text", TEXT)
        page.wait_for_selector("#why:not([hidden])")
        page.wait_for_timeout(500)
        page.screenshot(path=args.out / "page-try.png")
        page.click("#tab-threshold")
        page.wait_for_selector("#figures td.now")
        page.wait_for_timeout(500)
        page.screenshot(path=args.out / "page-threshold.png")
        browser.close()


if __name__ == "__main__":
    main()
