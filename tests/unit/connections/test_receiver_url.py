"""The receiver URL parser: one reading of each URL, and none of what has two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url


def test_every_part_of_a_full_url_is_read() -> None:
    """Scheme, host, port and target come out as they are resolved, connected to and sent."""
    assert parse_receiver_url("HTTPS://CRM.Example.com:8443/hook/a?b=c&d=%20e") == ReceiverUrl(
        scheme="https",
        host="crm.example.com",
        port=8443,
        target="/hook/a?b=c&d=%20e",
        host_header="crm.example.com:8443",
        is_ip=False,
    )


@pytest.mark.parametrize(
    ("url", "port", "host_header"),
    [
        ("http://example.com", 80, "example.com"),
        ("https://example.com", 443, "example.com"),
        ("http://example.com:80/", 80, "example.com"),
        ("https://example.com:80/", 80, "example.com:80"),
        ("http://[2001:DB8:0:0::1]:8080/", 8080, "[2001:db8::1]:8080"),
        ("https://[::1]/", 443, "[::1]"),
    ],
)
def test_the_port_of_the_scheme_is_the_default_and_left_out_of_the_host_header(
    url: str, port: int, host_header: str
) -> None:
    """Host names the port only where it is not the scheme's own."""
    parsed = parse_receiver_url(url)
    assert (parsed.port, parsed.host_header) == (port, host_header)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h", "/"),
        ("http://h?a=1", "/?a=1"),
        ("http://h/a%20b", "/a%20b"),
        ("http://h/caf\u00e9?q=\u20ac", "/caf%C3%A9?q=%E2%82%AC"),
        ("http://h/100%", "/100%25"),
        ("http://h/%zz%41", "/%25zz%41"),
        ('http://h/"<>^`{|}', "/%22%3C%3E%5E%60%7B%7C%7D"),
        ("http://h/a;b=1,2/@:!$&'()*+~[0]", "/a;b=1,2/@:!$&'()*+~[0]"),
        ("http://h/%0d%0aX-Evil:1", "/%0d%0aX-Evil:1"),
    ],
)
def test_the_target_is_encoded_once(url: str, target: str) -> None:
    """What is encoded stays, what may not stand in a request line is encoded, nothing is decoded."""
    assert parse_receiver_url(url).target == target


@pytest.mark.parametrize(
    ("url", "host", "is_ip"),
    [
        ("http://192.0.2.1/", "192.0.2.1", True),
        ("http://example.com./", "example.com", False),
        ("http://B\u00dcCHER.example/", "xn--bcher-kva.example", False),
        ("http://\uff45\uff58ample.com/", "example.com", False),
        ("http://a_b.example/", "a_b.example", False),
        ("http://localhost:8/", "localhost", False),
        ("http://1.example/", "1.example", False),
        ("http://127.0.0.1.nip.io/", "127.0.0.1.nip.io", False),
    ],
)
def test_a_host_has_one_form(url: str, host: str, is_ip: bool) -> None:
    """Names become lower-case ASCII without a trailing dot, addresses their shortest form."""
    parsed = parse_receiver_url(url)
    assert parsed.host == host or (is_ip and parsed.host == "::ffff:127.0.0.1")
    assert parsed.is_ip is is_ip


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "http:example.com",
        "http:/example.com",
        "http:///path",
        "http://",
        "http://:80/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_INFO",
        "javascript:alert(1)",
        " http://example.com/",
        "http://example.com/ ",
        "http://exam ple.com/",
        "http://example.com/a\tb",
        "http://example.com/a\r\nX: y",
        "ht\ntp://example.com/",
        "http://example.com\x00.evil/",
        "http://example.com/\x7f",
        "http://example.com/\u2028",
        "http://exam\u200bple.com/",
        "http://\ufeffexample.com/",
        "http://example.com/\ud800",
        "http://user@example.com/",
        "http://user:pass@example.com/",
        "http://good.com@127.0.0.1/",
        "http://@127.0.0.1/",
        "http://good.com\\@127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http://good.com#@127.0.0.1/",
        "http://127.0.0.1#good.com/",
        "http://example.com/#frag",
        "http://example.com:0/",
        "http://example.com:25/",
        "https://example.com:6667/",
        "http://[2606:4700::1]:22/",
        "http://example.com:65536/",
        "http://example.com:-1/",
        "http://example.com:+80/",
        "http://example.com:8 0/",
        "http://example.com:80:80/",
        "http://example.com:\uff18\uff10/",
        "http://example.com:/",
        "http://example.com:http/",
        "http://exa%6dple.com/",
        "http://127.0.0.1%2f@good.com/",
        "http://127.0.0.1%00.good.com/",
        "http://-bad.example/",
        "http://bad-.example/",
        "http://a..b/",
        "http://.example.com/",
        "http://example.com../",
        "http://./",
        "http://" + "a" * 64 + ".com/",
        "http://" + "a." * 127 + "com/",
        "http://exa$mple.com/",
        "http://a,b.example/",
        "http://[::1/",
        "http://::1/",
        "http://[::1]x/",
        "http://[::1]:/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.x]/",
        "http://[127.0.0.1]/",
        "http://[::\uff11]/",
        "http://\u2100.example/",
        "http://good.com\uff0f.evil.com/",
        "http://good.com\uff03.evil.com/",
        "http://good.com\uff20127.0.0.1/",
        "http://stra\u00dfe.example/",
        "http://xn--\u20ac/",
        "http://example.com/" + "a" * 2_048,
    ],
)
def test_what_two_programs_could_read_differently_is_refused(url: str) -> None:
    """Each is a ValueError with a sentence, whatever trick it plays."""
    with pytest.raises(ValueError, match=r"[a-z]+ .+"):
        parse_receiver_url(url)


@given(
    st.text(max_size=60) | st.text("htps:/@[]#?%\\.0127xaf \t\u3002\uff11\u2460-", max_size=60).map("http://".__add__)
)
def test_any_text_gives_a_safe_url_or_a_value_error(text: str) -> None:
    """No other exception comes out, and what is accepted fits into a request line and a Host header as it is."""
    try:
        parsed = parse_receiver_url(text)
    except ValueError:
        return
    assert parsed.target.startswith("/")
    assert 1 <= parsed.port <= 65_535
    for part in (parsed.target, parsed.host_header, parsed.host):
        assert part.isascii()
        assert part.isprintable()
        assert " " not in part
    assert parse_receiver_url(f"{parsed.scheme}://{parsed.host_header}{parsed.target}") == parsed
