"""The SDKs of the field. Their versions are read from the files that pin them."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.service.sdks.sdk import PROGRAMS, ROOT, SDK
from tests.service.sdks.tap import TLS_PORT

BUILD = ROOT / "build"
PYTHON = BUILD / "sdk-venv/bin/python"
NODE_MODULES = BUILD / "sdks/node_modules"
LOCKED_PYTHON = ROOT / "scripts/sdks/requirements.lock"
LOCKED_BUNDLES = ROOT / "scripts/sdks/bundles.txt"
LOCKED_NODE = ROOT / "scripts/sdks/package-lock.json"


def _python(package: str) -> str:
    return _found(rf"^{re.escape(package)}==(\S+)", LOCKED_PYTHON.read_text())


def _node(package: str) -> str:
    bundled = re.search(rf"^{re.escape(package)} (\S+)", LOCKED_BUNDLES.read_text(), re.MULTILINE)
    if bundled:
        return bundled[1]
    return str(json.loads(LOCKED_NODE.read_text())["packages"][f"node_modules/{package}"]["version"])


def _go(module: str) -> str:
    return _found(rf"^\t{re.escape(module)} v(\S+)$", (PROGRAMS / "go/go.mod").read_text())


def _java(of: str) -> str:
    return _found(
        r"<artifactId>analytics</artifactId>\s*<version>(.+?)<", (PROGRAMS / f"java/{of}/pom.xml").read_text()
    )


def _php(of: str) -> str:
    return str(json.loads((PROGRAMS / f"php/{of}/composer.json").read_text())["require"]["segmentio/analytics-php"])


def _ruby() -> str:
    return _found(r'^gem "analytics-ruby", "(.+)"$', (PROGRAMS / "ruby/Gemfile").read_text())


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match, f"no version: {pattern}"
    return match[1]


def _python_sdk(id: str, package: str) -> SDK:
    version = _python(package)
    return SDK(id, package, version, ("analytics-python", version), (str(PYTHON), str(PROGRAMS / f"{id}.py")))


def _node_sdk(id: str, package: str, library: str) -> SDK:
    version, program = _node(package), PROGRAMS / f"{id}.cjs"
    environment = {"NODE_PATH": str(NODE_MODULES)}
    return SDK(id, package, version, (library, version), ("node", str(program)), environment=environment)


def _browser_sdk(id: str, package: str, library: tuple[str, str], title: str = "", **more: Any) -> SDK:
    return SDK(id, title or package, _node(package), library, page=f"{id}.html", **more)


def _go_sdk(id: str, of: str, module: str, library: str) -> SDK:
    command = (str(BUILD / "sdk-go" / of),)
    return SDK(id, module, _go(module), ("analytics-go", library), command, has_true_clock=True, lacks=NO_CATEGORY)


def _java_sdk(id: str, of: str, package: str, lacks: frozenset[str]) -> SDK:
    classes, version = BUILD / "sdk-java" / of, _java(of)
    command = ("java", "-cp", f"{classes}/*:{classes}", "Program")
    return SDK(id, package, version, ("analytics-java", version), command, has_true_clock=True, lacks=lacks | NULLS)


def _php_sdk(of: str, consumer: str) -> SDK:
    version = _php(of)
    vendor = BUILD / "sdk-php" / of / "vendor"
    program = ("php", "-d", "curl.cainfo={CA}", "-d", "openssl.cafile={CA}", str(PROGRAMS / "php/program.php"))
    return SDK(
        f"php{of}_{consumer}",
        f"segmentio/analytics-php, {consumer}",
        version,
        ("analytics-php", version),
        ("sh", str(PROGRAMS / "php/file.sh")) if consumer == "file" else program,
        installed=vendor / "autoload.php",
        tls=of == "3",
        scheme=False,
        port=TLS_PORT if (of, consumer) == ("3", "socket") else 0,
        times="seconds" if of == "3" else "milliseconds",
        environment={"CONSUMER": consumer, "VENDOR": str(vendor), "TLS": "1" if of == "3" else "0"},
    )


def _ruby_sdk() -> SDK:
    gems, version = BUILD / "sdk-ruby", _ruby()
    command = ("ruby", str(PROGRAMS / "ruby/program.rb"))
    installed = gems / f"gems/analytics-ruby-{version}"
    return SDK(
        "ruby",
        "analytics-ruby",
        version,
        ("analytics-ruby", version),
        command,
        installed=installed,
        tls=True,
        scheme=False,
        environment={"GEM_PATH": str(gems)},
        lacks=frozenset({"page category"}),
    )


NO_CATEGORY = frozenset({"page category", "screen category"})
NULLS = frozenset({"identify traits.manager", "track properties.coupon"})
NEXT, RUDDER, RUDDER_NAME = "@segment/analytics-next", "@rudderstack/analytics-js", "RudderLabs JavaScript SDK"
RUDDER_PAGE: dict[str, Any] = {"without": "screen", "lacks": NULLS}
CUSTOMERIO, JUNE = "@customerio/cdp-analytics-browser", "@june-so/analytics-next"
CONSUMERS = ("lib_curl", "fork_curl", "socket", "file")

SDKS = (
    _python_sdk("segment_python", "segment-analytics-python"),
    _python_sdk("rudder_python", "rudder-sdk-python"),
    _node_sdk("segment_node", "@segment/analytics-node", "@segment/analytics-node"),
    _node_sdk("old_segment_node", "analytics-node", "analytics-node"),
    _node_sdk("rudder_node", "@rudderstack/rudder-sdk-node", "analytics-node"),
    _browser_sdk("analytics_js", NEXT, ("analytics.js", "next-" + _node(NEXT)), "analytics.js, served by Hookline"),
    _browser_sdk("analytics_next", NEXT, ("analytics.js", "next-" + _node(NEXT))),
    _browser_sdk("analytics_next_batching", NEXT, ("analytics.js", "next-" + _node(NEXT)), f"{NEXT}, batching"),
    _browser_sdk("rudder_js", RUDDER, (RUDDER_NAME, _node(RUDDER)), **RUDDER_PAGE),
    _browser_sdk(
        "rudder_js_beacon",
        RUDDER,
        (RUDDER_NAME, _node(RUDDER)),
        f"{RUDDER}, beacon",
        **RUDDER_PAGE,
        told_when_left=True,
    ),
    _browser_sdk("old_rudder_js", "rudder-sdk-js", (RUDDER_NAME, _node("rudder-sdk-js")), **RUDDER_PAGE),
    _browser_sdk("customerio", CUSTOMERIO, ("analytics.js", "next-" + _node(CUSTOMERIO))),
    _browser_sdk("june", JUNE, ("analytics.js", "next-" + _node(JUNE)), without="screen"),
    _go_sdk("segment_go", "segment", "github.com/segmentio/analytics-go/v3", "3.0.0"),
    _go_sdk("rudder_go", "rudder", "github.com/rudderlabs/analytics-go/v4", "4.2.0"),
    _java_sdk("segment_java", "segment", "com.segment.analytics.java", frozenset({"screen category"})),
    _java_sdk("rudder_java", "rudder", "com.rudderstack.sdk.java.analytics", NO_CATEGORY),
    *(_php_sdk(of, consumer) for of in ("2", "3") for consumer in CONSUMERS),
    _ruby_sdk(),
)
