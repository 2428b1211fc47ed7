"""Lines to paste: they say exactly the key and the address, whatever the key holds, wherever they are pasted."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from html.parser import HTMLParser
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from hookline.features.setup.snippets import (
    few_of_source,
    for_kotlin,
    in_script,
    places_of_source,
    single_quoted,
    snippet,
    without_scheme,
)

URL = "http://127.0.0.1:8080"
PUBLIC_URL = "https://shop.example/events"
KEYS = ["wk_plain", """wk'"$(touch x)`\\${y}<b>""", "</script><script>x", "%s%20&amp;#{1}\\", "\\u0022+/?#"]
IDS = [each.id for place in places_of_source("wk", URL, "web") for each in place.snippets]


class Elements(HTMLParser):
    """The elements of a piece of HTML, each with its attributes and the text in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        """Text of the last element."""
        tag, attributes, text = self.found[-1]
        self.found[-1] = (tag, attributes, text + data)


def node(program: str) -> object:
    """What a program of Node.js prints as JSON."""
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("key", KEYS)
def test_the_curl_line_survives_the_shell(key: str) -> None:
    """Pasted into a shell, the line gives curl exactly the key and valid JSON."""
    line = snippet("curl", key, URL).text
    script = f'curl() {{ for each in "$@"; do printf \'%s\\0\' "$each"; done; }}\n{line}'
    given = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.split("\0")
    assert given[:3] == ["-u", key + ":", f"{URL}/v1/track"]
    assert json.loads(given[4])["event"] == "Signed Up"
    assert shlex.split(line.replace("\\\n", ""))[0] == "curl"


@pytest.mark.parametrize("key", KEYS)
def test_the_python_lines_say_the_key(key: str) -> None:
    """They are Python, and call init with the key and the endpoint."""
    tree = ast.parse(snippet("python", key, URL).text)
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    init = next(each for each in calls if ast.unparse(each.func) == "analytics.init")
    assert [ast.literal_eval(each) for each in init.args] == [key, {"endpoint": URL}]


@pytest.mark.parametrize("key", KEYS)
def test_the_lines_for_the_python_library_of_segment_say_the_key(key: str) -> None:
    """As the guide for people who come from Segment promises: host and key are all that is set."""
    tree = ast.parse(snippet("segment-python", key, URL).text)
    set_there = {ast.unparse(each.targets[0]): each.value for each in ast.walk(tree) if isinstance(each, ast.Assign)}
    values = {name: ast.literal_eval(value) for name, value in set_there.items()}
    assert values == {"analytics.write_key": key, "analytics.host": URL}


@pytest.mark.parametrize("key", KEYS)
def test_the_browser_lines_load_our_script_for_the_key(key: str) -> None:
    """As HTML they are one script; run, it asks this server for the script of exactly this key, once, and queues."""
    elements = Elements(snippet("browser", key, PUBLIC_URL).text).found
    assert [tag for tag, _, _ in elements] == ["script"]
    program = elements[0][2]
    said = node(
        "var added = []; global.window = global;"
        "global.document = {createElement: () => ({}), head: {appendChild: s => added.push(s.src)}};"
        f"{program};{program};"
        "console.log(JSON.stringify([analytics._writeKey, analytics._cdn, added, analytics]))"
    )
    assert isinstance(said, list)
    assert said[:2] == [key, PUBLIC_URL]
    (source,) = said[2]
    path = urlsplit(source).path
    assert unquote(path) == f"/events/analytics.js/v1/{key}/analytics.min.js"
    assert path.count("/") == 5
    assert said[3] == [["page"], ["page"]]


@pytest.mark.parametrize("key", KEYS)
def test_the_pixel_is_a_picture_with_the_key(key: str) -> None:
    """As HTML it is one picture of no size to speak of; its address has the key and an event."""
    ((tag, attributes, _),) = Elements(snippet("pixel", key, URL).text).found
    source = urlsplit(attributes["src"] or "")
    assert (tag, attributes["width"], attributes["height"], attributes["alt"]) == ("img", "1", "1", "")
    assert (f"{source.scheme}://{source.netloc}", source.path) == (URL, "/v1/pixel/track")
    assert parse_qs(source.query)["writeKey"] == [key]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("id", ["node", "next-js", "rudder-js", "react-native"])
def test_javascript_says_the_key(id: str, key: str) -> None:
    """The first string in double quotes is the key, as Node.js reads it."""
    literal = re.search(r'"(?:[^"\\]|\\.)*"', snippet(id, key, URL).text)
    assert literal
    assert node(f"console.log(JSON.stringify({literal[0]}))") == key


@pytest.mark.parametrize("key", KEYS)
def test_strings_of_other_languages(key: str) -> None:
    """Single quotes of PHP and Ruby take everything but themselves and backslashes; Kotlin's double ones no dollar."""
    inner = single_quoted(key)[1:-1]
    assert re.fullmatch(r"(?:[^'\\]|\\['\\])*", inner)
    assert re.sub(r"\\(['\\])", r"\1", inner) == key
    assert re.search(r"(?<!\\)(?:\\\\)*\$", for_kotlin(key)) is None
    assert json.loads(for_kotlin(key).replace("\\$", "$")) == key
    assert "<" not in in_script(key)


@pytest.mark.parametrize("id", IDS)
def test_every_sdk_is_told_the_address(id: str) -> None:
    """With the path that the public address has, in the form that the SDK takes."""
    text = unquote(snippet(id, "wk_1", PUBLIC_URL).text)
    assert without_scheme(PUBLIC_URL) in text
    assert "wk_1" in text
    assert "https only" not in text
    assert not re.search(r"%[sd]", text)


@pytest.mark.parametrize("id", ["ruby", "swift", "android"])
def test_sdks_that_speak_https_only_say_so(id: str) -> None:
    """Before somebody looks for the mistake elsewhere."""
    assert "https only" in snippet(id, "wk_1", URL).text


def test_sdks_with_larger_batches_say_how_large() -> None:
    """RudderStack's, which drop what is refused; the page offers to take theirs."""
    sizes = {each.id: each.batch_bytes for place in places_of_source("wk", URL, "web") for each in place.snippets}
    assert {id for id, size in sizes.items() if size} == {"rudder-js"}
    assert sizes["rudder-js"] == 4 * 1024 * 1024


def test_http_is_allowed_where_an_sdk_asks() -> None:
    """PHP and React Native have a switch for it, which is not there with https."""
    assert "'ssl' => false" in snippet("php", "wk", URL).text
    assert "allowInsecureProxy: true" in snippet("react-native", "wk", URL).text
    assert "ssl" not in snippet("php", "wk", PUBLIC_URL).text
    assert "Insecure" not in snippet("react-native", "wk", PUBLIC_URL).text


@pytest.mark.parametrize(
    ("type_", "first"), [("web", "In a web page"), ("server", "On a server"), ("mobile", "In an app")]
)
def test_what_fits_the_source_comes_first(type_: str, first: str) -> None:
    """All places are there whatever the type, and no SDK twice."""
    places = places_of_source("wk", URL, type_)
    assert places[0].title == first
    ids = [each.id for place in places for each in place.snippets]
    assert sorted(ids) == sorted(set(IDS))
    assert len(ids) == len(set(ids))
    assert {each.id for each in few_of_source("wk", URL)} < set(ids)
