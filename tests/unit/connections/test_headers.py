"""Static headers: only what can be sent and is not Hookline's to write."""

from __future__ import annotations

import pytest

from hookline.kinds.headers import HEADERS_BYTES_MAX, HEADERS_MAX, check_static_headers


def test_usual_headers_pass() -> None:
    """Tokens as names and Latin-1 text as values are accepted, empty values included."""
    check_static_headers({"Authorization": "Bearer x y", "X-Tenant": "caf\u00e9", "X_Odd.Name!": "", "Accept": "*/*"})


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "CONNECTION", "Transfer-Encoding", "Content-Type", "X-Signature"),
        *("User-Agent", "X-Message-Id", "x-hookline-replay", "Expect", "TE", "Trailer", "Upgrade", "Keep-Alive"),
        *("Proxy-Authorization", "proxy-connection", "Proxy-X"),
    ],
)
def test_headers_that_hookline_or_the_connection_own_are_refused(name: str) -> None:
    """A static header can neither replace what is signed and framed nor steer the connection."""
    with pytest.raises(ValueError, match=name):
        check_static_headers({name: "x"})


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a:", "a\r\nb", "a\tb", "caf\u00e9", "a\x00", "(a)", "a/b", "a@b", "\u212aey"]
)
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    """Only RFC 9110 tokens are names, so a name cannot end its own line."""
    with pytest.raises(ValueError, match="header name"):
        check_static_headers({name: "x"})


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x100, 0x20AC, 0x560A, 0x2028, 0xD800, 0x1F600])
def test_a_value_with_a_control_character_or_beyond_latin_1_is_refused(code: int) -> None:
    """No value can hold a line end, in any of the forms that some encoder would make one of."""
    with pytest.raises(ValueError, match=f"'X-A'.*U\\+{code:04X}"):
        check_static_headers({"X-A": f"before{chr(code)}after"})


def test_names_that_differ_only_in_case_are_refused() -> None:
    """One header is sent once."""
    with pytest.raises(ValueError, match="'X-A' and 'x-a'"):
        check_static_headers({"X-A": "1", "x-a": "2"})


def test_the_number_of_headers_is_bounded() -> None:
    """The limit passes, one more does not."""
    headers = {f"X-{number}": "" for number in range(HEADERS_MAX)}
    check_static_headers(headers)
    with pytest.raises(ValueError, match="at most 64"):
        check_static_headers({**headers, "X-More": ""})


def test_the_size_of_all_headers_together_is_bounded() -> None:
    """Exactly the limit passes, one byte more does not, and the header that goes past it is named."""
    value = "v" * (HEADERS_BYTES_MAX - len("X-A: \r\n"))
    check_static_headers({"X-A": value})
    with pytest.raises(ValueError, match=r"'X-A'.*8192 bytes"):
        check_static_headers({"X-A": value + "v"})
