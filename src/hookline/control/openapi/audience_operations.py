"""Operations on who is in an audience, on values of computed traits, and on syncs."""

from __future__ import annotations

from hookline.control.audience_explanation import Explanation
from hookline.control.audience_members import MembershipChange, MemberView
from hookline.control.audience_previews import PreviewRequest, PreviewView
from hookline.control.listing import Listing
from hookline.control.openapi.operation import PAGE, Operation
from hookline.control.syncs import SyncAsked, SyncView
from hookline.control.trait_explanation import TraitExplanation
from hookline.control.trait_values import TraitValue


def _syncs(path: str, noun: str) -> tuple[Operation, ...]:
    title = noun.title().replace(" ", "")
    return (
        Operation(
            "post",
            f"{path}/{{id}}/sync",
            f"sync{title}",
            f"Sync one {noun} now; after the sync that is under way, if one is.",
            SyncAsked,
            202,
            problems=(404, 409),
        ),
        Operation(
            "get",
            f"{path}/{{id}}/syncs",
            f"list{title}Syncs",
            f"List the syncs of one {noun}, newest first: when, and how many came and went.",
            Listing[SyncView],
            query=PAGE,
            problems=(404,),
        ),
    )


AUDIENCE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "get",
        "/api/v1/audiences/{id}/members",
        "listMembers",
        "List the members of an audience as its last sync left them, in the order in which they were first seen.",
        Listing[MemberView],
        query=PAGE,
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/audiences/{id}/explain",
        "explainMembership",
        "Say whether a person belongs to an audience right now, and what decides each clause: give `userId` or "
        "`anonymousId`.",
        Explanation,
        query=("explainedUserId", "anonymousId"),
        problems=(400, 404),
    ),
    Operation(
        "get",
        "/api/v1/audiences/{id}/history",
        "listMembershipChanges",
        "List when a person came to an audience and went from it, newest first: give `userId` or `anonymousId`.",
        Listing[MembershipChange],
        query=("explainedUserId", "anonymousId"),
        problems=(400, 404),
    ),
    Operation(
        "post",
        "/api/v1/audience-previews",
        "createAudiencePreview",
        "Look how many people a condition, or a computed trait, finds before it is saved; nobody is told. At most 10 "
        "at a time, kept for an hour at most.",
        PreviewView,
        202,
        body=PreviewRequest,
        problems=(400, 409, 422),
    ),
    Operation(
        "get",
        "/api/v1/audience-previews/{id}",
        "getAudiencePreview",
        "Return how far a preview is, how many people it found, and up to ten of them.",
        PreviewView,
        problems=(404,),
    ),
    *_syncs("/api/v1/audiences", "audience"),
    *_syncs("/api/v1/computed-traits", "computed trait"),
    Operation(
        "get",
        "/api/v1/computed-traits/{id}/values",
        "listValues",
        "List the values of a computed trait as its last sync left them, in the order in which people were first seen.",
        Listing[TraitValue],
        query=PAGE,
        problems=(404,),
    ),
    Operation(
        "get",
        "/api/v1/computed-traits/{id}/explain",
        "explainValue",
        "Say which value a person has right now, and which events it is made of: give `userId` or `anonymousId`.",
        TraitExplanation,
        query=("explainedUserId", "anonymousId"),
        problems=(400, 404),
    ),
)
