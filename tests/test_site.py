"""The site builds strictly, holds what its pages promise, and everyone can read it."""

import fcntl
import functools
import http.server
import os
import re
import subprocess
import sys
import threading

import pytest

from tests.browsing import COLOURS_ALONE, IN_A_BROWSER, OF_COLOURS
from tests.code_blocks import ROOT

ONE_OF_A_KIND = [
    *(".", "examples", "glossary", "tutorials/first-model", "guides/choosing", "concepts/loss"),
    *("reference/losses", "reference/losses/pairwise"),
]
"""Pages that have every kind of element; `make accessibility` looks at all pages."""
LINK = re.compile(r'(?:src|href)="([^"#?]+)"')
THE_REST = {"rules": {name: {"enabled": False} for name in OF_COLOURS}}
STILL = "*, ::before, ::after { transition: none !important; animation: none !important; }"
CUT_FORMULAS = """[...document.querySelectorAll("div.arithmatex")]
  .filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.querySelector("annotation").textContent)"""
WITHOUT_FORMULAS = """for (const each of document.querySelectorAll(".katex-html")) each.remove()"""
WITHOUT_COLOURED_CODE = """for (const each of document.querySelectorAll("pre > code"))
  each.textContent = each.textContent"""
NEW_KINDS = """known => {
  // Elements with text of their own, one of each kind: a kind is its name and those above it.
  const seen = new Set(known), found = [];
  for (const element of document.body.querySelectorAll("*")) {
    element.removeAttribute("data-new");
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    if (element.closest(".katex") || !element.checkVisibility()) continue;
    const names = [];
    for (let at = element; at !== document.body && names.length < 3; at = at.parentElement)
      names.push(at.localName + "." + [...at.classList].join("."));
    const kind = names.join(" ");
    if (seen.has(kind)) continue;
    seen.add(kind);
    found.push(kind);
    element.toggleAttribute("data-new", true);
  }
  return found;
}"""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built once for all processes of a run of the tests."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):
        shared = shared.parent
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            command = [sys.executable, ROOT / "docs" / "build.py", folder]
            built = subprocess.run(command, capture_output=True, text=True)
            assert built.returncode == 0, built.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def address(site):
    """Where the site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pages_of(site):
    return sorted(
        page.parent.relative_to(site).as_posix()
        for page in site.rglob("index.html")
        if "playground" not in page.parts
    )


def test_the_site_holds_what_its_pages_promise(site):
    commands = (site / "reference" / "cli" / "index.html").read_text(encoding="utf-8")
    for option in ("--plot", "--raw", "--mirror", "--method"):  # of zlpr data's four actions
        assert option in commands, option
    assert 'id="zlpr-data-split"' in commands
    assert 'src="playground/index.html"' in (site / "index.html").read_text(encoding="utf-8")
    page = (site / "playground" / "index.html").read_text(encoding="utf-8")
    for name in re.findall(r'(?:src|href)="([\w.]+)"', page):
        assert (site / "playground" / name).is_file(), name
    assert (site / "playground" / "model.js").stat().st_size < 300_000
    loss = (site / "reference" / "losses" / "zlpr" / "index.html").read_text(encoding="utf-8")
    assert loss.index('id="zlpr.losses.zlpr_loss"') < loss.index('id="zlpr.losses.ZLPRLoss"')
    assert "learn_threshold" in loss  # the signature of the module class


def test_every_loss_is_in_the_table_of_the_reference(site):
    from zlpr.losses import available

    table = (site / "reference" / "losses" / "index.html").read_text(encoding="utf-8")
    for name in available():
        assert f"<code>{name}</code>" in table, name


def test_what_pages_show_and_link_is_there(site):
    """Pictures, scripts and pages of the site itself; a strict build lets a lost picture pass."""
    for name in pages_of(site):
        folder = site / name
        for link in LINK.findall((folder / "index.html").read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", link):
                assert (folder / link).exists(), f"{name}: {link}"


class TestInABrowser:
    pytestmark = IN_A_BROWSER

    @pytest.fixture
    def page(self, new_page, address):
        page = new_page(f"{address}/")
        page.add_init_script((ROOT / "tests" / "axe" / "axe.min.js").read_text(encoding="utf-8"))
        return page

    def test_an_index_drops_below_what_it_belongs_to(self, new_page, address):
        page = new_page(f"{address}/concepts/loss/")
        page.wait_for_selector("html[data-math=set]")
        assert page.evaluate("document.fonts.check('16px KaTeX_Main')")
        base, index = page.evaluate(
            """[...document.querySelectorAll(".katex")]
              .find(each => each.querySelector("annotation").textContent === "s_l > 0")
              .querySelectorAll(".mathnormal").values()
              .map(each => each.getBoundingClientRect())
              .map(box => (box.top + box.bottom) / 2).toArray()"""
        )
        assert index > base + 2  # pixels, from the middle of one to that of the other
        assert page.faults == []
        assert not [url for url in page.requested if not url.startswith(address)]

    def test_everyone_can_read_the_pages(self, site, page, address):
        """No serious or critical finding of axe, on a desk and a phone, in light and dark.

        Colours are looked at in both schemes once for each kind of element, of which pages share
        most. Formulas are set, and fit the page of a desk; formulas and coloured code are taken out
        where they would only be thousands of elements more.
        """
        findings, known = [], {"default": set(), "slate": set()}
        for name in pages_of(site) if "ZLPR_EVERY_PAGE" in os.environ else ONE_OF_A_KIND:
            page.set_viewport_size({"width": 1280, "height": 844})
            page.goto(f"{address}/{name}/")
            page.add_style_tag(content=STILL)
            if page.query_selector(".arithmatex"):
                page.wait_for_selector("html[data-math=set]")
                findings += [f"{name}: cut: {formula}" for formula in page.evaluate(CUT_FORMULAS)]
            page.evaluate(WITHOUT_FORMULAS)
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 844})
                for scheme in ("default", "slate"):
                    page.evaluate("name => { document.body.dataset.mdColorScheme = name; }", scheme)
                    if new := page.evaluate(NEW_KINDS, list(known[scheme])):
                        known[scheme] |= set(new)
                        found = _serious(page, '{include: [["[data-new]"]]}', COLOURS_ALONE)
                        findings += [f"{name}, {width} px, {scheme}: {each}" for each in found]
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    findings.append(f"{name}: wider than {width} px")
            page.evaluate(WITHOUT_COLOURED_CODE)
            findings += [f"{name}, 390 px: {each}" for each in _serious(page, "document", THE_REST)]
        assert findings == [], "\n".join(findings[:40])


def _serious(page, where, options):
    return page.evaluate(
        f"""async options => (await axe.run({where}, options)).violations
          .filter(each => ["serious", "critical"].includes(each.impact))
          .flatMap(each => each.nodes.slice(0, 3).map(
            node => each.id + ": " + node.html.slice(0, 150) + " " + node.failureSummary))""",
        {"resultTypes": ["violations"], "iframes": False, "selectors": False, **options},
    )
