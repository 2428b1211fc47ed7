"""``/api/v1/destinations/{id}/filters/test``: filters, saved or not yet, tried on recent events."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Controller, post
from litestar.params import JSONBody
from msgspec.structs import replace

from hookline.api.calls import the_call
from hookline.api.listing import Id
from hookline.api.problem import FieldError, Problem, not_found, pointer_of
from hookline.api.services import FromServices
from hookline.connections.check import check_destination, check_plan
from hookline.connections.model import FILTERS_MAX, Filter
from hookline.features.events.service import event_log
from hookline.route.filter_trial import (
    EVENTS_DEFAULT,
    EVENTS_MAX,
    SAMPLES_DEFAULT,
    SAMPLES_MAX,
    FilterTrial,
    try_filters,
)


class FilterTest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Filters to try in place of the saved ones (null: those), on so many events, with so many samples."""

    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=FILTERS_MAX)] | None = None
    events: Annotated[int, msgspec.Meta(ge=1, le=EVENTS_MAX)] = EVENTS_DEFAULT
    samples: Annotated[int, msgspec.Meta(ge=0, le=SAMPLES_MAX)] = SAMPLES_DEFAULT


class FilterTests(Controller):
    """Nothing is changed and nothing is sent."""

    path = "/destinations/{id:str}/filters"

    @post("/test", status_code=200, needs="editor")
    async def test_filters(
        self, services: FromServices, object_id: Id, data: JSONBody[FilterTest | None] = None
    ) -> FilterTrial:
        """Try filters, saved or not yet, on recent events: how many match, and samples before and after."""
        the_call().only_looked = True
        stored = services.store.destination(object_id)
        if stored is None:
            raise not_found("destination", object_id)
        wanted = data or FilterTest()
        destination = stored.object
        if wanted.filters is not None:
            destination = replace(destination, filters=wanted.filters)
        problems = [
            *(each for each in check_destination("", destination) if each.code == "invalid_filter"),
            *check_plan("", destination, services.settings.plan.level),
        ]
        if problems:
            errors = [FieldError(pointer_of(each.path), each.message) for each in problems]
            raise Problem(422, problems[0].code, f"{problems[0]}.", errors)
        return await event_log(services).over_newest(
            lambda records: try_filters(destination, records, wanted.events, wanted.samples)
        )
