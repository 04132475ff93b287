"""What all tests in a real browser share: which one, what they need, and how ink shows on paper."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; .ci/chromium installs it"),
]


def contrast(page, selector):
    """The WCAG contrast of an element's text with the card or page behind it."""
    return page.evaluate(
        """selector => {
          const parse = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
          const light = c => { const [r, g, b] = parse(c); return .2126*r + .7152*g + .0722*b; };
          const element = document.querySelector(selector), style = getComputedStyle(element);
          let back = element;
          while (/rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(back).backgroundColor))
            back = back.parentElement;
          const ink = element instanceof SVGElement ? style.fill : style.color;
          const [a, b] = [light(ink), light(getComputedStyle(back).backgroundColor)];
          return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        }""",
        selector,
    )


AXE = Path(__file__).parent / "axe" / "axe.min.js"


OF_COLOURS = ["color-contrast", "link-in-text-block"]
COLOURS_ALONE = {"runOnly": {"type": "rule", "values": OF_COLOURS}}
"""For axe, where a page that was looked at already has other colours."""


def serious_findings(page, options=None):
    """What axe finds wrong with a page as it stands, of what it calls serious or critical."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options = {"resultTypes": ["violations"], "selectors": False, **(options or {})}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [
        f"{finding['id']}: {finding['nodes'][0]['html'][:120]}"
        for finding in found
        if finding["impact"] in {"serious", "critical"}
    ]
