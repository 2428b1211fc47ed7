"""Expressions as people write them, nearly or not at all: read, written back, and evaluated over stored events."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from random import Random
from typing import Any as Json

from hookline.connections.definitions.check import PERSON_FIELDS
from hookline.connections.model import Filter
from hookline.deliver.event import Event
from hookline.events.canonical import canonicalize_slowly
from hookline.events.view import EVENT_FIELDS, EVENT_OBJECTS, EventView
from hookline.expressions.compile import MISSING, Fields, compile_condition, type_of
from hookline.expressions.lexer import TEXT_CHARACTERS_MAX, ExpressionError
from hookline.expressions.parse import parse, write
from hookline.expressions.tree import All, Any, Call, Compare, Literal, Node, Not, Path, parse_path
from hookline.journal.record import Record
from hookline.kinds.requests import FIELDS
from hookline.route.filters import Filters
from tests.fuzz import events
from tests.fuzz.bare_edge import BareEdge
from tests.fuzz.cases import Cases
from tests.fuzz.mutations import damaged, weighted

CASES = 4_000
KNOWN_FIELDS = (None, *[EVENT_FIELDS] * 6, PERSON_FIELDS, FIELDS)
PATHS = (
    *("type", "event", "name", "userId", "anonymousId", "messageId", "category", "properties", "properties.total"),
    *("properties.10", "properties.2", "properties.text", "context.ip", "context.traits.a", "traits", "timestamp"),
    *("traits.email", "properties.a\\.b", "properties.größe", "properties.\\\\", "properties.and", "context.$"),
)
ODD_PATHS = ("computed.spend", "settings.a", "\\and.x", "größe", "$.a", "groupTraits.plan", "\\.", "receivedAt")
TEXTS = (
    "'track'",
    '"Order Completed"',
    "'u1'",
    "''",
    "'\\u00e9'",
    '"\\"\\n"',
    "'😀'",
    '"\u2028"',
    "'*'",
    "'a' ",
    "'\\\\'",
)
NUMBERS = (
    "0",
    "7",
    "-0",
    "12.5",
    "1e21",
    "5e-7",
    "-1",
    "0.0",
    "1e308",
    "9" * 400,
    "1E+2",
    "00",
    "-0.0",
    "9007199254740993",
)
PATTERNS = ("'*'", "'Order *'", "'*C*d'", "'\\\\*'", "'a**b'", "''", "'caf*'", '"*\\n*"')
WORDS = (
    *PATHS,
    *ODD_PATHS,
    *TEXTS,
    *NUMBERS,
    " and ",
    " or ",
    " not ",
    "(",
    ")",
    "=",
    "!=",
    ">",
    "<=",
    ",",
    "!",
    "length",
    "\\",
    ".",
)


def text_of(random: Random, depth: int = 4) -> str:
    """An expression of the grammar, often one that means something."""
    blank = weighted(random, " ", ("", "\n", "\t ", "\u3000"), 0.2)
    kind = random.random() if depth else 0.9
    if kind < 0.3:
        word = random.choice(("and", "or"))
        terms = [text_of(random, depth - 1) for _ in range(random.choice((2, 2, 3)))]
        return f" {word}{blank or ' '}".join(terms)
    if kind < 0.4:
        return random.choice(("not ", "! ", "not\n")) + text_of(random, depth - 1)
    if kind < 0.5:
        return f"({blank}{text_of(random, depth - 1)}{blank})"
    if kind < 0.8:
        operator = random.choice(("=", "=", "!=", ">", ">=", "<", "<="))
        return f"{_operand(random, depth)}{blank or ' '}{operator}{blank}{_operand(random, depth)}"
    if kind < 0.88:
        return f"contains({_operand(random, depth)},{blank}{_operand(random, depth)})"
    if kind < 0.95:
        return f"match({_operand(random, depth)}{blank}, {random.choice(PATTERNS)})"
    return random.choice(("true", "false", _path(random)))


def _operand(random: Random, depth: int) -> str:
    kind = random.random()
    if kind < 0.5:
        return _path(random)
    if kind < 0.75:
        return random.choice((*TEXTS, *NUMBERS, "null", "true", "false"))
    if kind < 0.9 or not depth:
        return f"{random.choice(('length', 'lowercase', 'typeof'))}({_path(random)})"
    return f"({text_of(random, depth - 1)})"


def _path(random: Random) -> str:
    return weighted(random, random.choice(PATHS), ODD_PATHS, 0.02)


def written(random: Random) -> str:
    """An expression, one that was damaged, or words one after another."""
    kind = random.random()
    if kind < 0.1:
        return "".join(random.choices(WORDS, k=random.choice((1, 3, 10, 40))))
    text = text_of(random)
    return damaged(random, text.encode()).decode("utf-8", "replace") if kind < 0.4 else text


def value_of(node: Node, fields: Fields) -> Json:
    """The plain meaning of an operand."""
    match node:
        case Literal(value):
            return value
        case Path(parts):
            found = fields.get(parts[0], MISSING)
            for name in parts[1:]:
                found = found.get(name, MISSING) if isinstance(found, dict) else MISSING
            return found
        case Call("length", (of,)):
            value = value_of(of, fields)
            return len(value) if isinstance(value, str | list | dict) else MISSING
        case Call("lowercase", (of,)):
            value = value_of(of, fields)
            return value.lower() if isinstance(value, str) else MISSING
        case Call("typeof", (of,)):
            return type_of(value_of(of, fields))
    return holds(node, fields)


def holds(node: Node, fields: Fields) -> bool:
    """The plain meaning of a condition: nothing is compiled, nothing is left out."""
    match node:
        case Not(term):
            return not holds(term, fields)
        case All(terms):
            return min([holds(term, fields) for term in terms])
        case Any(terms):
            return max([holds(term, fields) for term in terms])
        case Compare(operator, left, right):
            return _compared(operator, value_of(left, fields), value_of(right, fields))
        case Call("contains", (whole, part)):
            a, b = value_of(whole, fields), value_of(part, fields)
            if isinstance(a, str):
                return isinstance(b, str) and b in a
            return isinstance(a, list) and any(_same(item, b) for item in a)
        case Call("match", (whole, Literal(str() as pattern))):
            value = value_of(whole, fields)
            return isinstance(value, str) and _fits(re.findall(r"\\.|.", pattern, re.DOTALL), value)
    return value_of(node, fields) is True


def _fits(pieces: Sequence[str], value: str) -> bool:
    """Whether a text is what the pieces of a pattern say: all places are followed at once, so none is gone back to."""
    reached = {0}
    for piece in pieces:
        if piece == "*" and reached:
            reached = set(range(min(reached), len(value) + 1))
        else:
            reached = {place + 1 for place in reached if value[place : place + 1] == piece[-1]}
    return len(value) in reached


def _kind(value: Json) -> str:
    return "none" if isinstance(value, list | dict) or value is MISSING else type_of(value)


def _same(a: Json, b: Json) -> bool:
    return _kind(a) == _kind(b) != "none" and bool(a == b)


def _compared(operator: str, a: Json, b: Json) -> bool:
    if a is MISSING or b is MISSING:
        return False
    if operator in ("=", "!="):
        return _same(a, b) is (operator == "=")
    if _kind(a) != _kind(b) or _kind(a) not in ("string", "number"):
        return False
    return {">": a > b, ">=": a >= b, "<": a < b, "<=": a <= b}[operator]


def event(random: Random) -> bytes:
    """A batch of one event, which the edge may refuse."""
    sound = {
        **events.event(random),
        **random.choice(({}, {}, {"userId": 7, "name": ""}, {"name": 1e3, "category": "c"})),
    }
    item = events.odd_event(random) if random.random() < 0.3 else events.written(random, sound)
    return events.batch(random, [item])


def parsed(text: str, known: Collection[str] | None) -> Node | ExpressionError:
    """The tree, or why there is none."""
    try:
        return parse(text, known)
    except ExpressionError as error:
        return error


def check_text(random: Random, edge: BareEdge) -> None:
    """A tree or a place; the same tree and meaning after writing; the compiled meaning is the plain one."""
    text, known = written(random), random.choice(KNOWN_FIELDS)
    tree = parsed(text, known)
    if isinstance(tree, ExpressionError):
        assert 1 <= tree.column <= len(text) + 1
        assert str(tree).endswith(f" at column {tree.column}")
        return
    again = write(tree)
    if len(again) <= TEXT_CHARACTERS_MAX:
        assert parse(again, known) == tree
        assert write(parse(again, known)) == again
    record = edge.store(event(random))
    if record is None:
        return
    whole = EventView(record).all()
    result = compile_condition(tree)(EventView(record))
    assert result is compile_condition(tree)(whole)
    assert result is holds(tree, whole)
    if known is EVENT_FIELDS:
        check_filters(random, text, record)


def check_filters(random: Random, condition: str, record: Record) -> None:
    """Filters with the condition decide the same twice, and leave the same of both forms of the body."""
    edits = ("dropProperties", "allowProperties")
    inner = [path for path in PATHS if parse_path(path)[0] in EVENT_OBJECTS]
    taken = Filter(condition=condition, do=random.choice(edits), properties=tuple(random.choices(inner, k=2)))
    kept = Filter(condition=condition, do=random.choice(("drop", "sample")), percent=50)
    filters = random.choice(([taken], [taken, kept], [kept, taken]))
    assert Filters(filters).decide(record) == Filters(filters).decide(record)
    whole = Event(0, record)
    (_, plain), (_, canonical) = whole.plain(), whole.canonical()
    left = Filters([taken]).body(record, plain, canonical=False)
    assert Filters([taken]).body(record, canonical, canonical=True) == canonicalize_slowly(left)


def test_no_expression_does_harm(cases: Cases) -> None:
    """Nothing but a tree or the one error, and no event that makes an expression raise or mean something else."""
    edge = BareEdge()
    number = cases.run("expressions", CASES, lambda random: check_text(random, edge))
    print(f"{number} expressions")
