"""Taking fields out of an event: the ones named, or all but the ones named.

Works on the rendered body, whose every other byte stays as it is (numbers as written, order, escapes), and on decoded
fields. A path goes through lists: it means the field of every element. Such a list is decoded as a whole, for it may
have thousands of elements, or lists within lists: its numbers stay as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from hookline.events.canonical import decode, encode_canonical, encode_verbatim

EMPTIED = ("properties", "traits")
"""Objects that a body has even when nothing is in them; a context without fields is left out."""

Mask: TypeAlias = "dict[str, Mask | None]"
"""Names that lead to the fields meant; None at the end of a path."""


class PropertyEdit(NamedTuple):
    """One edit: ``keep`` leaves only the fields meant (within the objects that any path names), else they go."""

    keep: bool
    mask: Mask

    @classmethod
    def of(cls, paths: Iterable[Sequence[str]], keep: bool) -> PropertyEdit:
        """Return the edit of these paths; of a path and a longer one that begins with it, the shorter counts."""
        mask: Mask = {}
        for path in sorted(paths, key=len, reverse=True):
            inner = mask
            for name in path[:-1]:
                inner = inner.setdefault(name, {})  # type: ignore[assignment]  # shorter paths come later
            inner[path[-1]] = None
        return cls(keep, mask)


def edit_fields(fields: dict[str, Any], edit: PropertyEdit) -> dict[str, Any]:
    """Decoded fields after an edit; what is given stays as it is."""
    return _edited(fields, edit, _Decoded)


def edit_body(body: bytes, edits: Sequence[PropertyEdit], canonical: bool) -> bytes:
    """Return a rendered body after edits; a canonical one stays canonical."""
    try:
        fields = _decode_fields(body)
        for edit in edits:
            fields = _edited(fields, edit, _Encoded)
        return _encode(fields)
    except ValueError:  # a key with a lone surrogate: the slow way knows how to write it
        tree: Any = decode(body)
        for edit in edits:
            tree = _edited(tree, edit, _Decoded)
        return (encode_canonical if canonical else encode_verbatim)(tree)


class _Decoded:
    """Values that are decoded already."""

    @staticmethod
    def opened(value: Any) -> Any:
        return value

    @staticmethod
    def closed(value: Any) -> Any:
        return value


class _Encoded:
    """Values as they are written: decoded one level deep, and only on the way to what is meant."""

    @staticmethod
    def opened(value: msgspec.Raw) -> Any:
        first = memoryview(value)[0]
        if first == _BRACE:
            return _decode_fields(value)
        return _decode_list(value) if first == _BRACKET else None

    @staticmethod
    def closed(value: Any) -> msgspec.Raw:
        return msgspec.Raw(_encode(value))


_Form: TypeAlias = type[_Decoded] | type[_Encoded]


def _edited(fields: dict[str, Any], edit: PropertyEdit, form: _Form) -> dict[str, Any]:
    changed = dict(fields)
    for name, mask in edit.mask.items():
        if name not in changed:
            continue
        if mask is not None:
            if not _is_open(changed[name], form):
                continue
            changed[name] = (_kept if edit.keep else _dropped)(changed[name], mask, form)
        elif not edit.keep:
            if name in EMPTIED:
                changed[name] = form.closed({})
            else:
                del changed[name]
    return changed


def _dropped(value: Any, mask: Mask, form: _Form) -> Any:
    opened = form.opened(value)
    if isinstance(opened, list):
        return form.closed([_dropped(item, mask, _Decoded) if item else item for item in opened])
    if not isinstance(opened, dict) or not any(name in opened for name in mask):
        return value
    left = dict(opened)
    for name, inner in mask.items():
        if name in left:
            if inner is None:
                del left[name]
            else:
                left[name] = _dropped(left[name], inner, form)
    return form.closed(left)


def _kept(value: Any, mask: Mask, form: _Form) -> Any:
    """Return what the mask means of an object or list; a plain value on the way to a field is none of what is meant."""
    opened = form.opened(value)
    if isinstance(opened, list):
        items = [item for item in opened if isinstance(item, dict | list)]
        return form.closed([_kept(item, mask, _Decoded) if item else item for item in items])
    left: dict[str, Any] = {}
    for name, item in opened.items():
        if name in mask:
            inner = mask[name]
            if inner is None:
                left[name] = item
            elif _is_open(item, form):
                left[name] = _kept(item, inner, form)
    return form.closed(left)


def _is_open(value: Any, form: _Form) -> bool:
    if form is _Encoded:
        return memoryview(value)[0] in (_BRACE, _BRACKET)
    return isinstance(value, dict | list)


_BRACE, _BRACKET = b"{["
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[Any], float_hook=lambda text: msgspec.Raw(text.encode())).decode
_encode = msgspec.json.Encoder().encode
