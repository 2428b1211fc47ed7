"""Operations on people, tokens and the audit log."""

from __future__ import annotations

from hookline.control.audit.entry import AuditEntry
from hookline.control.listing import Listing
from hookline.control.openapi.operation import PAGE, WRITE, Operation
from hookline.control.tokens import MadeToken, NewToken, TokenView
from hookline.control.users import Invitation, InvitedUser, Me, PasswordChange, SignedOut, User, UserChange

_USERS, _TOKENS, _AUDIT_LOG = "/api/v1/users", "/api/v1/tokens", "/api/v1/audit-log"
_USER = f"{_USERS}/{{id}}"

PEOPLE_OPERATIONS: tuple[Operation, ...] = (
    Operation("get", _USERS, "listUsers", "List the accounts in the order they were made.", Listing[User], query=PAGE),
    Operation(
        "post",
        _USERS,
        "inviteUser",
        "Make an account and the link with which its owner chooses a password (once, within 72 hours).",
        InvitedUser,
        201,
        Invitation,
        problems=WRITE,
    ),
    Operation("get", f"{_USERS}/me", "getMe", "Return who makes this call, and what they may do.", Me),
    Operation(
        "post",
        f"{_USERS}/me/password",
        "changePassword",
        "Change one's own password; every session ends, this one goes on under a new key.",
        SignedOut,
        body=PasswordChange,
        problems=(409, 422, 429),
    ),
    Operation(
        "post",
        f"{_USERS}/me/sign-out",
        "signOutEverywhere",
        "End every session of one's own, this one too.",
        SignedOut,
        problems=(409,),
    ),
    Operation("get", _USER, "getUser", "Return one account.", User, problems=(404,), tagged=True),
    Operation(
        "patch",
        _USER,
        "patchUser",
        "Give an account another role, or disable it; its sessions end.",
        User,
        body=UserChange,
        body_type="application/merge-patch+json",
        problems=(404, 409, 412, 422),
        tagged=True,
    ),
    Operation(
        "post",
        f"{_USER}/invite",
        "inviteUserAgain",
        "Make a new link for an account, also for one whose password is forgotten; the last one is worth nothing.",
        InvitedUser,
        problems=(404,),
    ),
    Operation("delete", _USER, "removeUser", "Take an account away.", None, 204, problems=(404, 409, 412), tagged=True),
    Operation(
        "get", _TOKENS, "listTokens", "List the tokens in the order they were made.", Listing[TokenView], query=PAGE
    ),
    Operation(
        "post",
        _TOKENS,
        "createToken",
        "Make a token; its text is in this answer and nowhere else.",
        MadeToken,
        201,
        NewToken,
        problems=WRITE,
    ),
    Operation("get", f"{_TOKENS}/{{id}}", "getToken", "Return one token.", TokenView, problems=(404,)),
    Operation(
        "delete",
        f"{_TOKENS}/{{id}}",
        "revokeToken",
        "Revoke a token: it opens nothing from now on.",
        None,
        204,
        problems=(404,),
    ),
    Operation(
        "get",
        _AUDIT_LOG,
        "listAuditLog",
        "List who did what, newest first; kept for a year, and at most a million entries. What nobody known was"
        " refused is counted by the hour, and kept for a month.",
        Listing[AuditEntry],
        query=(*PAGE, "actor", "action", "target", "happenedFrom", "happenedTo"),
    ),
    Operation(
        "get",
        f"{_AUDIT_LOG}/{{id}}",
        "getAuditEntry",
        "Return one entry of the audit log.",
        AuditEntry,
        problems=(404,),
    ),
)
