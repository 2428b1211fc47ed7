"""``hookline computed-traits values`` and ``explain``."""

from __future__ import annotations

from hookline.cli.app import HERE, Json
from hookline.cli.object_commands import computed_traits_app
from hookline.cli.target import Target


@computed_traits_app.command
def values(id: str, /, *, limit: int = 50, as_json: Json = False, server: Target = HERE) -> int:
    """List who has which value, as the computed trait's last sync left them.

    Parameters
    ----------
    id
        Id of the computed trait.
    limit
        How many to list.
    as_json
        Print them as JSON.
    """
    from hookline.cli.trait_values import print_values

    return print_values(server.admin(), id, limit, as_json)


@computed_traits_app.command
def explain(
    id: str,
    /,
    *,
    user_id: str | None = None,
    anonymous_id: str | None = None,
    as_json: Json = False,
    server: Target = HERE,
) -> int:
    """Say which value a person has right now, and which events it is made of.

    Parameters
    ----------
    id
        Id of the computed trait.
    user_id
        The person with this user id.
    anonymous_id
        The person this anonymous id belongs to.
    as_json
        Print it as JSON.
    """
    from hookline.cli.trait_values import print_value_explanation

    return print_value_explanation(server.admin(), id, user_id, anonymous_id, as_json)
