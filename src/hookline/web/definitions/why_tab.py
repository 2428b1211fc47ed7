"""Why a person is in an audience or not, or has a value: judged right now, clause by clause."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from hookline.connections.definitions.model import Audience, ComputedTrait, Definition
from hookline.control.audience_explanation import Explanation, explanation_of
from hookline.control.profile_log import ProfileReader
from hookline.control.services import Services
from hookline.control.trait_explanation import TraitExplanation, trait_explanation_of
from hookline.events.timestamps import iso
from hookline.web.address import person_href

CHANGES_SHOWN_MAX = 50


class ChangeRow(NamedTuple):
    """The person became a member, or ceased to be one; ``sync`` is None where that came before it was written down."""

    at: str
    member: bool
    sync: int | None


class WhyTab(NamedTuple):
    """``user`` is who was asked about, empty for nobody yet; both explanations are None for somebody unknown.
    ``history`` is the membership of an audience, newest first."""

    user: str
    person: str
    audience: Explanation | None
    trait: TraitExplanation | None
    history: Sequence[ChangeRow]


async def why_tab(services: Services, definition: Definition, user: str) -> WhyTab:
    """Explain a definition for a user id, or else an anonymous id."""
    found: Explanation | TraitExplanation | None = None
    if user.strip():
        traits = {each.object.id: each.object for each in services.store.in_force("computedTrait")}
        now_ms = int(time.time() * 1000)
        found = await services.profiles.read(lambda reader: _explained(reader, definition, traits, user, now_ms))
    history: list[ChangeRow] = []
    if isinstance(found, Explanation):
        history = await services.profiles.read(lambda reader: _history(reader, definition.id, user)) or []
    is_user = found is not None and found.user_id is not None
    return WhyTab(
        user=user,
        person="" if found is None else person_href(found.user_id if is_user else None, user),
        audience=found if isinstance(found, Explanation) else None,
        trait=found if isinstance(found, TraitExplanation) else None,
        history=history,
    )


def _explained(
    reader: ProfileReader, definition: Definition, traits: dict[str, ComputedTrait], id: str, now_ms: int
) -> Explanation | TraitExplanation | None:
    ids: Sequence[tuple[str | None, str | None]] = ((id, None), (None, id))
    for user_id, anonymous_id in ids:
        found: Any
        if isinstance(definition, Audience):
            found = explanation_of(reader, definition, traits, user_id, anonymous_id, now_ms)
        else:
            found = trait_explanation_of(reader, definition, user_id, anonymous_id, now_ms)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _history(reader: ProfileReader, audience: str, id: str) -> list[ChangeRow]:
    person = reader.people.by_user_id(id) or reader.people.by_anonymous_id(id)
    changes = [] if person is None else reader.membership_changes(person, audience)
    return [ChangeRow(iso(each.at_ms), each.member, each.sync) for each in changes[:CHANGES_SHOWN_MAX]]
