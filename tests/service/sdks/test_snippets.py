"""The lines that the page of a source offers for servers, pasted into a program and run with the SDK they are for."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hookline.features.setup.snippets import snippet
from tests.service.harness import wait_until
from tests.service.sdks.every_sdk import BUILD, NODE_MODULES, PYTHON, SDKS
from tests.service.sdks.field import Field
from tests.service.sdks.sdk import PROGRAMS

JAVA = """import com.segment.analytics.*; import com.segment.analytics.messages.*; import java.util.*;
public class Program { public static void main(String[] arguments) throws Exception {
%s
Thread.currentThread().join(); // servers go on, and the library sends meanwhile
} }"""
GO = """package main
import ("log"; "github.com/segmentio/analytics-go/v3")
func main() {
%s
}"""
PHP = "<?php require getenv('VENDOR') . '/autoload.php';\n%s"


@dataclass(frozen=True)
class Frame:
    """What somebody has already into which the lines are pasted."""

    snippet: str
    sdk: str
    file: str
    text: str
    command: tuple[str, ...]


FRAMES = (
    Frame("segment-python", "segment_python", "program.py", "%s", (str(PYTHON), "program.py")),
    Frame("node", "segment_node", "program.mjs", "%s", ("node", "program.mjs")),
    Frame("go", "segment_go", "main.go", GO, ("go", "run", "-mod=readonly", "main.go")),
    Frame("java", "segment_java", "Program.java", JAVA, ("java", "-cp", f"{BUILD}/sdk-java/segment/*", "Program.java")),
    Frame("php", "php2_lib_curl", "program.php", PHP, ("php", "program.php")),
    Frame("php", "php3_lib_curl", "program.php", PHP, ("php", "-d", "curl.cainfo={CA}", "program.php")),
    Frame("ruby", "ruby", "program.rb", "%s", ("ruby", "program.rb")),
)
SDK_OF = {sdk.id: sdk for sdk in SDKS}


@pytest.mark.parametrize("frame", [f for f in FRAMES if SDK_OF[f.sdk].is_installed], ids=lambda frame: frame.sdk)
def test_the_lines_of_a_source_send_an_event(field: Field, frame: Frame, tmp_path: Path) -> None:
    """As they are, they run, and their event arrives."""
    sdk = SDK_OF[frame.sdk]
    with field.tap(sdk) as tap:
        (tmp_path / frame.file).write_text(frame.text % snippet(frame.snippet, f"wk_{sdk.id}", tap.url).text)
        (tmp_path / "node_modules").symlink_to(NODE_MODULES)
        for lock in ("go.mod", "go.sum"):
            shutil.copy(PROGRAMS / "go" / lock, tmp_path)
        program = subprocess.Popen(field.command(frame.command), cwd=tmp_path, env=field.environment(sdk, tap))
        try:
            events = wait_until(lambda: [event for connection in tap.connections for event in connection.events])
        finally:
            program.kill()  # its own end, if it has one, does not matter
            program.wait()
    assert [event["event"] for event in events] == ["Signed Up"]
    assert field.receiver.wait_for(events[0]["messageId"])[0].json["properties"] == {"plan": "pro"}
