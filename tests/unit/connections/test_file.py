"""The connections file: checked, compared, applied, exported."""

from __future__ import annotations

import difflib
from pathlib import Path

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given, settings

from hookline.connections import file
from hookline.connections.file import Applied
from hookline.connections.file_shape import PROBLEMS_MAX
from hookline.connections.model import LaneConfig, Snapshot, Webhook, WebhookSettings
from hookline.connections.store import Store
from tests.unit.connections.examples import change, destination, ends, source

SECRET = "abcdefghijklmnop"
TEXT = """
sources:
  - {id: website, name: Website, type: web, enabled: true, writeKeys: [wk_website]}        # web | mobile | server
destinations:
  - id: crm
    name: CRM
    kind: webhook
    sources: [website]
    enabled: true
    settings:
      webhooks:
        - {url: "https://crm.example.com/hook", headers: {Authorization: "Bearer abcdefghijkl"}}
      sharedSecret: "abcdefghijklmnop"
"""


def apply(store: Store, text: str, at: int = 0, prune: bool = False) -> Applied:
    """Apply a text while the journal ends at ``at``."""
    return file.apply(store, text, "somebody", ends(at), prune=prune)


def actions(applied: Applied) -> dict[str, str]:
    """What happened to each object."""
    assert applied.problems == ()
    return {change.id: change.action for change in applied.changes}


def found(text: str) -> list[tuple[str, str, int | None]]:
    """The problems of a text."""
    return [(problem.code, problem.path, problem.line) for problem in file.check_text(text)]


def test_the_example_of_the_design_is_right() -> None:
    """The file that the documentation shows has no problem."""
    assert file.check_text(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "problem", "said"),
    [
        ("enabled: true, w", "enabld: true, w", ("unknown_key", "sources[0].enabld", 3), "did you mean 'enabled'?"),
        ("destinations:", "destinatons:", ("unknown_key", "destinatons", 4), "did you mean 'destinations'?"),
        ("type: web", "type: desk", ("invalid_value", "sources[0].type", 3), "web or mobile or server"),
        ("sources:\n", "sources:\n  - {id: profiles, name: P}\n", ("invalid_value", "sources[0].id", 3), "another id"),
        ("type: web", "rateLimit: {bytes: 5TB}", ("invalid_value", "sources[0].rateLimit.bytes", 3), "matching regex"),
        ("type: web", "rateLimit: {bytes: 5GB}", ("invalid_value", "sources[0].rateLimit.bytes", 3), "to 1GB"),
        ("type: web", "rateLimit: {burst: 2d}", ("invalid_value", "sources[0].rateLimit.burst", 3), "a day"),
        ("type: web", "rateLimit: {event: 5}", ("unknown_key", "sources[0].rateLimit.event", 3), "'events'"),
        ("id: crm", "id: 5", ("invalid_value", "destinations[0].id", 5), "in quotes"),
        ("id: crm", "id: a b", ("invalid_value", "destinations[0].id", 5), "letters, digits"),
        ("    name: CRM\n", "", ("invalid_value", "destinations[0]", 5), "`name`; add it"),
        ("    enabled: true\n", "    name: B\n", ("duplicate_key", "destinations[0].name", 9), "given twice"),
        ("kind: webhook", "filters: [x]", ("invalid_value", "destinations[0].filters[0]", 7), "Expected `object`"),
        ("sources: [website]", "sources: [w]", ("unknown_source", "destinations[0].sources[0]", 8), "no source 'w'"),
        ('"https://', '"ftp://', ("invalid_url", "destinations[0].settings.webhooks[0].url", 12), "https://"),
        ("Authorization", "Host", ("invalid_headers", "destinations[0].settings.webhooks[0].headers", 12), "'Host'"),
        (f'"{SECRET}"', '"env:HOME"', ("invalid_secret", "destinations[0].settings.sharedSecret", 13), "HOOKLINE_"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, problem: tuple[str, str, int], said: str) -> None:
    """Each kind of mistake gives one problem: code, path, line, and what to write."""
    assert TEXT.count(old) == 1
    (only,) = file.check_text(TEXT.replace(old, new))
    assert (only.code, only.path, only.line) == problem
    assert said in only.message


def test_all_mistakes_are_named_at_once() -> None:
    """One wrong key does not hide the next mistake; problems come in the order of the file."""
    text = TEXT.replace("type: web", "typ: web, writeKey: []").replace('"https://crm.example.com/hook"', "7")
    assert found(text) == [
        ("unknown_key", "sources[0].typ", 3),
        ("unknown_key", "sources[0].writeKey", 3),
        ("invalid_value", "destinations[0].settings.webhooks[0].url", 12),
    ]


def test_many_mistakes_are_a_hundred_and_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is put into words only while there is room for it, so that a small file keeps nobody waiting."""
    asked: list[str] = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda name, *_, **__: asked.append(name) or [])
    keys = ", ".join(f"u{number}: 1" for number in range(5_000))
    problems = file.check_text(f"sources:\n- {{id: a, name: a, type: web, {keys}}}\n")
    assert len(asked) == PROBLEMS_MAX
    assert [problem.line for problem in problems] == [2] * PROBLEMS_MAX + [None]
    assert str(problems[-1]) == "and 4,900 more; correct these first"


def test_many_objects_with_a_mistake_are_a_hundred_and_a_number() -> None:
    """What the shape does not show is bounded as well."""
    problems = file.check_text("sources:\n" + "- {id: a, name: a, type: web}\n" * 300)
    assert {problem.code for problem in problems} == {"duplicate_id", "more_problems"}
    assert [problem.line for problem in problems] == [*range(3, PROBLEMS_MAX + 3), None]
    assert sum(problem.count for problem in problems) == 299


@pytest.mark.parametrize("text", ["", "sources:\ndestinations: []\n"])
def test_an_empty_file_is_right(text: str) -> None:
    """A file may describe nothing."""
    assert file.check_text(text) == []


@pytest.mark.parametrize("text", ["- 1", "word", "sources: {a: b}", "sources: [1]", "destinations: [[]]"])
def test_another_shape_is_one_problem(text: str) -> None:
    """A document that is no configuration at all is refused without a traceback."""
    assert [code for code, _, _ in found(text)] == ["invalid_value"]


@pytest.mark.parametrize("batch_bytes", [512_000, 4_194_304])
def test_a_source_may_ask_for_larger_batches(store: Store, batch_bytes: int) -> None:
    """From what every source takes up to 4 MiB; an exported file says it where it is more."""
    text = f"sources:\n  - {{id: web, name: Web, batchBytes: {batch_bytes}}}\n"
    assert file.apply(store, text, "me", dict).problems == ()
    source = store.source("web")
    assert source is not None
    assert source.object.batch_bytes == batch_bytes
    assert ("batchBytes" in file.export(store.snapshot())) == (batch_bytes > 512_000)


@pytest.mark.parametrize("batch_bytes", ["511_999", "4194305", "4MB", "true", "null"])
def test_other_sizes_of_batches_are_refused(batch_bytes: str) -> None:
    """What is less than every SDK sends, more than is bounded, or no number."""
    (problem,) = file.check_text(f"sources: [{{id: web, name: Web, batchBytes: {batch_bytes}}}]")
    assert (problem.code, problem.path) == ("invalid_value", "sources[0].batchBytes")


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("id: web", 'id: "web\\n"', "sources[0].id"),
        ("wk_1", '"wk_1\\n"', "sources[0].writeKeys[0]"),
        ("sources: [web]", 'sources: ["web\\n"]', "destinations[0].sources[0]"),
    ],
)
def test_nothing_ends_in_a_line_end(old: str, new: str, path: str) -> None:
    """Neither an id nor a write key: it could not stand in an address or a header."""
    text = (
        "sources: [{id: web, name: Web, writeKeys: [wk_1]}]\n"
        "destinations: [{id: crm, name: CRM, sources: [web], settings: {webhooks: [{url: https://crm.example.com}]}}]\n"
    )
    assert file.check_text(text) == []
    problems = file.check_text(text.replace(old, new, 1))
    assert problems[0].code == "invalid_value"
    assert problems[0].path.startswith(path.rpartition("[")[0])


def test_duplicates_are_named() -> None:
    """An id and a write key occur once."""
    text = "sources: [{id: a, name: a, writeKeys: [k]}, {id: b, name: b, writeKeys: [k]}, {id: a, name: c}]"
    assert found(text) == [("duplicate_write_key", "sources[1].writeKeys[0]", 1), ("duplicate_id", "sources[2].id", 1)]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and one in another encoding are problems, not tracebacks; a byte order mark is no problem."""
    path = tmp_path / "connections.yaml"
    assert [problem.code for problem in file.check(path)] == ["file_unreadable"]
    path.write_bytes(b"sources: []\nx: \xff\n")
    assert [(problem.code, problem.line) for problem in file.check(path)] == [("file_unreadable", 2)]
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert file.check(path) == []


def test_applying_creates_changes_and_keeps(store: Store) -> None:
    """A first apply creates, a second does nothing, an edit changes only what it says and never resets a lane."""
    assert actions(apply(store, TEXT, at=5)) == {"website": "create", "crm": "create"}
    assert actions(apply(store, TEXT, at=6)) == {"website": "keep", "crm": "keep"}
    assert store.version == 1
    applied = apply(store, TEXT.replace("name: CRM", "name: Sales"), at=7)
    assert actions(applied) == {"website": "keep", "crm": "change"}
    assert [(field.path, field.before, field.after) for field in applied.changes[1].fields] == [
        ("name", "CRM", "Sales")
    ]
    assert store.snapshot().lanes == {"crm": LaneConfig(number=1, sources={"website": {0: 5}}, since={0: 5})}


def test_a_difference_shows_no_secret(store: Store) -> None:
    """A changed secret or credential header is shown as changed, masked."""
    apply(store, TEXT)
    shown = file.diff(store, TEXT.replace(SECRET, "0123456789abcdef").replace('abcdefghijkl"', '0123456789ab"'))
    fields = [(field.path, field.before, field.after) for field in shown.changes[1].fields]
    assert fields == [
        ("settings.webhooks[0].headers.Authorization", "…ijkl", "…89ab"),
        ("settings.sharedSecret", "…mnop", "…cdef"),
    ]
    assert store.version == 1


def test_a_difference_names_what_apply_would_refuse(store: Store) -> None:
    """Comparing finds the same problems as applying, with their lines, and changes nothing."""
    shown = file.diff(store, TEXT.replace("sources: [website]", "sources: [nope]"))
    assert [(problem.code, problem.line) for problem in shown.problems] == [("unknown_source", 8)]
    assert store.version == 0


def test_a_problem_anywhere_changes_nothing(store: Store) -> None:
    """A file is applied whole or not at all."""
    applied = apply(store, TEXT.replace("sources: [website]", "sources: [nope]"))
    assert ([problem.code for problem in applied.problems], store.version) == (["unknown_source"], 0)


def test_what_left_the_file_goes_only_with_prune(store: Store) -> None:
    """Deleting needs to be asked for, and spares what the file does not own."""
    apply(store, TEXT)
    change(store, source("app"))
    kept = apply(store, "")
    assert actions(kept) == {"crm": "keep", "website": "keep"}
    assert kept.changes[0].note is not None
    assert actions(apply(store, "", prune=True)) == {"crm": "delete", "website": "delete"}
    assert [stored.object.id for stored in store.sources()] == ["app"]


def test_what_the_api_made_is_not_overwritten(store: Store) -> None:
    """An object of the same id that says something else is an error; one that says the same becomes the file's."""
    change(store, source(name="Made by hand", type="web"))
    (problem,) = apply(store, TEXT).problems
    assert (problem.code, problem.path, problem.line) == ("made_elsewhere", "sources[0]", 3)
    change(store, source(type="web"))
    assert actions(apply(store, TEXT)) == {"website": "keep", "crm": "create"}
    assert [stored.owner for stored in store.sources()] == ["file"]


def test_a_file_may_name_a_source_made_through_the_api(store: Store) -> None:
    """Against a running installation, a destination may use what is there, though the file alone is incomplete."""
    change(store, source())
    text = TEXT[TEXT.index("destinations:") :]
    assert actions(apply(store, text)) == {"crm": "create"}
    assert [code for code, _, _ in found(text)] == ["unknown_source"]


def test_keep_leaves_the_stored_secret(store: Store) -> None:
    """The file need not hold secrets once they are stored; where none is stored, keep is an error."""
    apply(store, TEXT)
    kept = TEXT.replace(SECRET, "keep").replace("Bearer abcdefghijkl", "keep").replace("name: CRM", "name: Sales")
    assert actions(apply(store, kept)) == {"website": "keep", "crm": "change"}
    settings = store.snapshot().destinations[0].settings
    assert (settings.shared_secret, settings.webhooks[0].headers) == (SECRET, {"Authorization": "Bearer abcdefghijkl"})
    (problem,) = apply(store, kept.replace("id: crm", "id: other")).problems
    assert (problem.code, problem.line) == ("nothing_to_keep", 12)


def test_an_export_holds_no_secret_and_changes_nothing(store: Store) -> None:
    """What is exported can be applied at once, by the file that then owns it, without touching secrets or lanes."""
    change(store, source(), destination(secret=SECRET, headers={"X-Api-Key": "k" * 20, "X-Plain": "shown"}), at=3)
    before = store.snapshot()
    text = file.export(before)
    assert SECRET not in text
    assert "k" * 20 not in text
    assert "X-Plain: shown" in text
    assert actions(apply(store, text, at=9)) == {"website": "keep", "crm": "keep"}
    after = store.snapshot()
    assert (after.sources, after.destinations, after.lanes) == (before.sources, before.destinations, before.lanes)


WORDS = st.one_of(
    st.sampled_from(
        ["null", "yes", "1e3", "2024-01-01", "~", "# no", "a: b", "- x", "'", '"', "é\u2028", " x ", "0x1F"]
    ),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20),
)


@settings(max_examples=60, deadline=None)
@given(WORDS, st.lists(st.text("abcXYZ019-", min_size=1, max_size=9), unique=True, max_size=3), st.booleans())
def test_any_name_survives_an_export(name: str, headers: list[str], enabled: bool) -> None:
    """Whatever people call things, an exported file says the same when it is read back."""
    webhook = Webhook(url="https://crm.example.com/", headers=dict.fromkeys(headers, "No"))
    wanted = destination(name=name, enabled=enabled, settings=WebhookSettings(webhooks=(webhook,)))
    state = Snapshot(version=1, sources=(source(name=name),), destinations=(wanted,))
    read, problems = file.read(file.export(state))
    assert problems == []
    assert [object for _, object in read.objects()] == [source(name=name), wanted]


def test_a_sources_rate_limit_goes_out_as_it_came_in(store: Store) -> None:
    """Sizes and times stay as they were written, and a limit that says nothing is left out."""
    limit = "{events: 0.5, bytes: 1MB, burst: 30s}"
    apply(store, TEXT.replace("type: web", f"type: web, rateLimit: {limit}"))
    (source,) = yaml.safe_load(file.export(store.snapshot()))["sources"]
    assert source["rateLimit"] == yaml.safe_load(limit)
    apply(store, TEXT.replace("type: web", "type: web, rateLimit: {}"))
    assert "rateLimit" not in file.export(store.snapshot())


def test_an_export_reads_like_the_documented_file(store: Store) -> None:
    """Keys come in the documented order, and what is not set is left out; settings of other kinds are as they came."""
    lake = "id: lake, name: Lake, kind: files, sources: [website], settings: {where: folder, format: ndjson}"
    apply(store, f"{TEXT}  - {{{lake}}}")
    exported = yaml.safe_load(file.export(store.snapshot()))["destinations"][1]
    assert exported["settings"] == {"where": "folder", "format": "ndjson"}
    apply(store, "{}", prune=True)
    change(store, source(), destination())
    document = yaml.safe_load(file.export(store.snapshot()))
    assert list(document) == ["sources", "destinations"]
    assert list(document["sources"][0]) == ["id", "name", "type", "enabled", "writeKeys"]
    assert list(document["destinations"][0]) == ["id", "name", "kind", "sources", "enabled", "settings"]
    assert document["destinations"][0]["settings"] == {"webhooks": [{"url": "https://crm.example.com/hook"}]}
