"""Canonical JSON against JavaScript itself: the research vectors, and Node on generated documents."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import subprocess
from pathlib import Path

import msgspec
import pytest

from hookline.events import canonical
from hookline.events.canonical import SAFE_INTEGER_MAX, canonicalize, canonicalize_slowly, float_of, is_canonical

VECTORS = json.loads((Path(__file__).parent / "js-canonical-vectors.json").read_text(encoding="utf-8"))
DOCUMENTS = 4_000
NODE = r"""
const lines = require('fs').readFileSync(0, 'utf8').split('\n'); lines.pop();
process.stdout.write(lines.map(line => JSON.stringify(JSON.parse(line))).join('\n'));
"""


def _input(vector: dict[str, str]) -> bytes:
    return vector["input"].encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("vector", [v for v in VECTORS["vectors"] if v["output"] is not None], ids=lambda v: v["name"])
def test_accepted_vector(vector: dict[str, str]) -> None:
    """Both ways give the bytes and the signature that JavaScript gave."""
    expected = vector["output"].encode()
    assert canonicalize(_input(vector)) == expected
    assert canonicalize_slowly(_input(vector)) == expected
    assert hmac.new(VECTORS["secret"].encode(), expected, hashlib.sha1).hexdigest() == vector["hmac_sha1_hex"]


@pytest.mark.parametrize("vector", [v for v in VECTORS["vectors"] if v["output"] is None], ids=lambda v: v["name"])
def test_refused_vector(vector: dict[str, str]) -> None:
    """What JSON.parse refuses is a ValueError, never output."""
    with pytest.raises(ValueError):  # noqa: PT011
        canonicalize(_input(vector))


def test_node_agrees_on_generated_documents() -> None:
    """Thousands of documents full of traps come out byte for byte as Node writes them, by both ways."""
    chance = random.Random(20261120)
    documents = [_document(chance, 4) for _ in range(DOCUMENTS)]
    answers = _node(documents)
    quick = 0
    for document, answer in zip(documents, answers, strict=True):
        assert canonicalize(document.encode()) == answer, document
        assert canonicalize_slowly(document.encode()) == answer, document
        assert canonicalize(answer) == answer
        quick += _is_quick(document)
    assert DOCUMENTS // 10 < quick < DOCUMENTS * 9 // 10  # both ways were really taken


def test_quick_numbers_agree_with_node() -> None:
    """Every float that the quick way lets through is written as JavaScript writes it."""
    chance = random.Random(7)
    texts = [repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-25, 25)) for _ in range(20_000)]
    document = "[" + ",".join(texts) + "]"
    answers = _node([document])[0][1:-1].split(b",")
    for text, answer in zip(texts, answers, strict=True):
        assert canonicalize(text.encode()) == answer


@pytest.mark.parametrize("number", [SAFE_INTEGER_MAX - 1, SAFE_INTEGER_MAX, 10**15, 1_763_622_000_123_456])
def test_long_safe_integers_stay_on_the_quick_way(number: int) -> None:
    """Sixteen digits alone do not make an integer unsafe (microsecond clocks are common)."""
    assert is_canonical(b'{"at":%d}' % number)
    assert not is_canonical(b'{"at":%d}' % (SAFE_INTEGER_MAX + 1))


@pytest.mark.parametrize(
    "document",
    [
        b'{"1":1,"a":[{"2":[1],"1":{"b":1,"0":2}}],"0":[]}',
        b'{"n":12345678901234567890,"s":"12345678901234567890\\\\","m":[ -9007199254740993, 1234567890123456]}',
        b'{"a":"\\"12345678901234567","n": 12345678901234567}',
        b"[%b, -%b, 1]" % (b"9" * 400, b"9" * 400),
        b"[1e16, 1e21, 0.000005, 1e300, -1e400, 1e-7, 5e-324]",
    ],
)
def test_no_document_that_can_be_read_takes_the_slow_way(document: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes up to fifty times as long, and senders choose what they send."""
    expected = canonicalize_slowly(document)
    monkeypatch.setattr(canonical, "canonicalize_slowly", lambda data: pytest.fail("the slow way"))
    assert canonicalize(document) == expected


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    """Nesting that no encoder could follow is refused as a ValueError."""
    with pytest.raises(ValueError, match="deeply"):
        canonicalize(b"[" * 100_000 + b"]" * 100_000)


def _is_quick(document: str) -> bool:
    try:
        tree = msgspec.json.Decoder(float_hook=float_of).decode(document.encode())
    except ValueError:
        return False
    return is_canonical(msgspec.json.encode(tree))


def _node(documents: list[str]) -> list[bytes]:
    lines = "".join(document + "\n" for document in documents).encode()
    return subprocess.run(
        ["node", "-e", NODE], input=lines, stdout=subprocess.PIPE, check=True, timeout=60
    ).stdout.split(b"\n")


def _document(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(7, 10) if depth == 4 else chance.randrange(10) if depth else chance.randrange(7)
    if kind < 3:
        return _number(chance)
    if kind < 6:
        return _string(chance)
    if kind == 6:
        return chance.choice(["true", "false", "null"])
    space = chance.choice(["", "", " ", "\t "])
    count = chance.randrange(5)
    if kind == 7:
        return "[" + f"{space},".join(_document(chance, depth - 1) for _ in range(count)) + space + "]"
    members = [f"{_key(chance)}{space}:{space}{_document(chance, depth - 1)}" for _ in range(count)]
    return "{" + space + ",".join(members) + "}"


def _key(chance: random.Random) -> str:
    traps = ["0", "1", "10", "01", "-1", "4294967294", "4294967295", "99999999999", "__proto__", "a", "\\u0061", ""]
    return '"' + chance.choice(traps) + '"' if chance.random() < 0.2 else _string(chance)


def _number(chance: random.Random) -> str:
    forms = [
        lambda: str(chance.randrange(-1000, 1000)),
        lambda: f"{chance.randrange(10_000) / 100:.2f}",
        lambda: repr(chance.random()),
        lambda: str(SAFE_INTEGER_MAX + chance.randrange(-2, 3)),
        lambda: f"{chance.randrange(1, 100)}e{chance.randrange(-330, 330)}",
        lambda: f"{chance.uniform(-10, 10)}E{chance.choice('+-')}{chance.randrange(0, 25)}",
        lambda: str(chance.getrandbits(chance.randrange(1, 200))),
        lambda: chance.choice(["-0", "-0.0", "0e9", "1" + "0" * 400, "1e400", "5e-324", "100.0"]),
    ]
    return forms[min(chance.randrange(16), 7) if chance.random() < 0.3 else chance.randrange(2)]()


def _string(chance: random.Random) -> str:
    plain = "abcXYZ 019_-/<>&'\x7f\x80éß中\u2028\ufeff😀"
    escapes = ['\\"', "\\\\", "\\/", "\\n", "\\b", "\\u001F", "\\u00e9", "\\ud83d\\ude00"]
    lone = ["\\ud83d", "\\uDE00", "\\uDE00\\uD83D"]
    pool = [*plain, *escapes, *(lone if chance.random() < 0.05 else [])]
    return '"' + "".join(chance.choice(pool) for _ in range(chance.randrange(12))) + '"'
