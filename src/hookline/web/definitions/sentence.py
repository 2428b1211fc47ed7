"""A definition as a sentence that goes on in steps, with what it names as links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.definitions.model import Audience, Condition, Definition
from hookline.people.definitions.explain import clause_text, trait_text
from hookline.web.definitions.section import AUDIENCE


class SentenceStep(NamedTuple):
    """One step: how it begins, what it says, the audience it names with its page, and the steps within it."""

    begins: str
    text: str
    audience: str
    href: str
    terms: Sequence[SentenceStep]


def sentence_of(definition: Definition) -> SentenceStep:
    """Return what a definition says, to follow “A person” or “Of each person”."""
    if isinstance(definition, Audience):
        return _said(definition.condition)
    return SentenceStep("", trait_text(definition), "", "", ())


def _said(condition: Condition) -> SentenceStep:
    terms = [*(condition.all or ()), *(condition.any or ()), *([] if condition.not_ is None else [condition.not_])]
    if terms:
        return SentenceStep("for whom", clause_text(condition), "", "", [_said(each) for each in terms])
    if condition.audience is not None:
        return SentenceStep("who", "is a member of", condition.audience, AUDIENCE.href(condition.audience), ())
    return SentenceStep("with" if condition.if_ is not None else "who", clause_text(condition), "", "", ())
