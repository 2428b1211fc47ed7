"""The six calls with their fields, the same for every kind of client. What becomes of a call is not here.

Each takes its fields by name or by place (the order of Segment's Python library), or as one mapping with the originals'
camelCase names. It returns the messageId, or None when the event was not queued.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]


class Verbs:
    """The six calls. A subclass says where they go."""

    def identify(
        self,
        user_id: object = None,
        traits: Fields | None = None,
        context: Fields | None = None,
        timestamp: object = None,
        anonymous_id: object = None,
        integrations: Fields | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Tie a user to traits."""
        given = (user_id,) if isinstance(user_id, Mapping) else ()
        fields: dict[str, Any] = {
            "userId": None if given else user_id,
            "traits": traits,
            "context": context,
            "timestamp": timestamp,
            "anonymousId": anonymous_id,
            "integrations": integrations,
            "messageId": message_id,
        }
        return self._call("identify", given, fields)

    def track(
        self,
        user_id: object = None,
        event: str | None = None,
        properties: Fields | None = None,
        context: Fields | None = None,
        timestamp: object = None,
        anonymous_id: object = None,
        integrations: Fields | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Record an action."""
        given = (user_id,) if isinstance(user_id, Mapping) else ()
        fields: dict[str, Any] = {
            "userId": None if given else user_id,
            "event": event,
            "properties": properties,
            "context": context,
            "timestamp": timestamp,
            "anonymousId": anonymous_id,
            "integrations": integrations,
            "messageId": message_id,
        }
        return self._call("track", given, fields)

    def page(
        self,
        *given: object,
        user_id: object = None,
        category: str | None = None,
        name: str | None = None,
        properties: Fields | None = None,
        context: Fields | None = None,
        timestamp: object = None,
        anonymous_id: object = None,
        integrations: Fields | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Record a page view. By place: user, category, name, properties; one string after the user is the name."""
        fields: dict[str, Any] = {
            "userId": user_id,
            "category": category,
            "name": name,
            "properties": properties,
            "context": context,
            "timestamp": timestamp,
            "anonymousId": anonymous_id,
            "integrations": integrations,
            "messageId": message_id,
        }
        return self._call("page", given, fields)

    def screen(
        self,
        *given: object,
        user_id: object = None,
        category: str | None = None,
        name: str | None = None,
        properties: Fields | None = None,
        context: Fields | None = None,
        timestamp: object = None,
        anonymous_id: object = None,
        integrations: Fields | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Record a screen view. By place: user, category, name, properties; one string after the user is the name."""
        fields: dict[str, Any] = {
            "userId": user_id,
            "category": category,
            "name": name,
            "properties": properties,
            "context": context,
            "timestamp": timestamp,
            "anonymousId": anonymous_id,
            "integrations": integrations,
            "messageId": message_id,
        }
        return self._call("screen", given, fields)

    def group(
        self,
        user_id: object = None,
        group_id: object = None,
        traits: Fields | None = None,
        context: Fields | None = None,
        timestamp: object = None,
        anonymous_id: object = None,
        integrations: Fields | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Associate a user with a group."""
        given = (user_id,) if isinstance(user_id, Mapping) else ()
        fields: dict[str, Any] = {
            "userId": None if given else user_id,
            "groupId": group_id,
            "traits": traits,
            "context": context,
            "timestamp": timestamp,
            "anonymousId": anonymous_id,
            "integrations": integrations,
            "messageId": message_id,
        }
        return self._call("group", given, fields)

    def alias(
        self,
        previous_id: object = None,
        user_id: object = None,
        context: Fields | None = None,
        timestamp: object = None,
        integrations: Fields | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Associate one identity with another: who was ``previous_id`` is ``user_id`` from now on."""
        given = (previous_id,) if isinstance(previous_id, Mapping) else ()
        fields: dict[str, Any] = {
            "previousId": None if given else previous_id,
            "userId": user_id,
            "context": context,
            "timestamp": timestamp,
            "integrations": integrations,
            "messageId": message_id,
        }
        return self._call("alias", given, fields)

    def _call(self, kind: str, given: tuple[object, ...], fields: dict[str, Any]) -> str | None:
        """Make the call. ``given`` is one mapping, or for page and screen what was given by place."""
        raise NotImplementedError
