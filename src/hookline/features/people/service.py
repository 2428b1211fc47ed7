"""What people are looked up with, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.features.people.log import PersonLog, ProfileLog


@part
def profile_log(services: Services) -> ProfileLog:
    """Return what reads people, audiences and traits."""
    return ProfileLog(services.settings)


@part
def person_log(services: Services) -> PersonLog:
    """Return what reads one person's events."""
    return PersonLog(services.settings)
