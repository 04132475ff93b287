"""Fixtures of tests in several folders: a cache, processes, a browser, pages and their faults."""

import gc

import pytest

from tests.browsing import CHROMIUM

gc.disable()  # until all is imported, of which nothing becomes garbage


def pytest_collection_finish():
    """Leave modules and tests, millions of objects, out of every collection of garbage to come.

    Trainers ask for whole collections, each of which would look at all of them.
    """
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """Let libraries clean up after themselves at the end, which else complain of leaks."""
    gc.unfreeze()


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A folder of the test's own for embeddings, in the place of the user's."""
    from zlpr.models.embedding_cache import FOLDER

    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def quick_workers():
    """Workers of a comparison that are forked from a server which has loaded what they load.

    Commands that tests start, and those of the documentation, start theirs as users have it.
    """
    from tests.processes import CONTEXT

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zlpr.compare.processes.START", CONTEXT)
        yield


@pytest.fixture(scope="module")
def browser():
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield made
        made.close()


@pytest.fixture
def new_page(browser):
    """Opens an address; what the page complains of and asks for is kept, and it is closed."""
    pages = []

    def opened(address, width=1280, scheme="light", **options):
        size = {"width": width, "height": 844}
        page = browser.new_page(viewport=size, color_scheme=scheme, **options)
        page.set_default_timeout(20_000)
        page.faults, page.requested = [], []
        page.on("console", lambda message: page.faults.append(message.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("request", lambda request: page.requested.append(request.url))
        page.goto(address)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
