"""Any condition that the language can say, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from hookline.expressions.tree import OPERATORS, All, Any, Call, Compare, Literal, Node, Not, Path

FIELDS = ["type", "event", "properties", "and", "true", "length", "2fa", "-x", "größe", "a.b", "a b", "\\"]

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_NAMES = st.sampled_from(FIELDS) | st.text(min_size=1, max_size=5)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(lambda parts: Path(tuple(parts)))
_OPERANDS = st.recursive(
    _SCALARS.map(Literal) | _PATHS,
    lambda inner: st.builds(
        lambda name, of: Call(name, (of,)), st.sampled_from(["length", "lowercase", "typeof"]), inner
    ),
    max_leaves=3,
)


def _grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    terms = st.lists(inner, min_size=2, max_size=3).map(tuple)
    sides = _OPERANDS | inner
    return (
        terms.map(All)
        | terms.map(Any)
        | inner.map(Not)
        | st.builds(Compare, st.sampled_from(OPERATORS), sides, sides)
        | st.builds(lambda whole, part: Call("contains", (whole, part)), sides, sides)
        | st.builds(lambda whole, pattern: Call("match", (whole, Literal(pattern))), sides, st.text())
    )


CONDITIONS: st.SearchStrategy[Node] = st.recursive(st.booleans().map(Literal) | _PATHS, _grown, max_leaves=8)
