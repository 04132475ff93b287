import html
import re

from tests.serving.words import WordModel
from zlpr.serving import create_app
from zlpr.serving.docs_page import docs_page


def test_every_route_of_the_schema_is_on_the_page():
    openapi = create_app({"words": WordModel(3)}).app.openapi()
    page = html.unescape(docs_page(openapi))
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            assert f"{method.upper()} {path}" in page
            assert route["summary"] in page
    assert {"/predict", "/explain", "/v2/models/{name}/infer"} <= openapi["paths"].keys()
    assert not re.search(r"<script|<style|style=", page)


def test_words_of_the_schema_are_no_markup():
    route = {"summary": "<script>", "tags": ["<b>"], "parameters": [{"name": "<i>", "in": "query"}]}
    page = docs_page({"paths": {"/<u>": {"get": route}}})
    assert not re.search("<script>|<b>|<i>|<u>", page)
    assert "&lt;script&gt;" in page
