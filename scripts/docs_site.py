#!/usr/bin/env python3
"""Write the documentation as a site of files: the pages that control serves, which need nothing but this folder.

python scripts/docs_site.py build/docs      begin at build/docs/index.html, from any web server or from the disk
"""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial
from pathlib import Path
from posixpath import dirname, relpath

from hookline.web.docs import INDEX, PAGES, SEARCH_FILE, DocPage, pictures, render_doc, search_script
from hookline.web.rendering import STATIC_FOLDER

ADDRESS = re.compile(r'(?P<name>href|src|data-root|data-index)="(?P<path>/[^"?#]*)(?:\?[^"#]*)?(?P<anchor>#[^"]*)?"')


def write_site(folder: Path) -> list[Path]:
    """Write every page, picture, style sheet and script; return the pages."""
    shutil.rmtree(folder, ignore_errors=True)
    written, used = [], set[str]()
    for doc in (INDEX, *PAGES):
        html = render_doc(doc, site=True)
        used |= {
            found["path"].removeprefix("/static/") for found in ADDRESS.finditer(html) if "/static/" in found["path"]
        }
        written.append(_write(folder / _file_of(doc), ADDRESS.sub(partial(_relative, doc), html)))
    _write(folder / SEARCH_FILE, search_script())
    for name, file in [*pictures().items(), *((f"static/{name}", STATIC_FOLDER / name) for name in used)]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)
    return written


def _file_of(doc: DocPage) -> str:
    return f"{doc.path or 'index'}.html"


def _relative(doc: DocPage, found: re.Match[str]) -> str:
    """Return an attribute with its address as it is from this page, without a version: files are not kept for ever."""
    path = found["path"]
    pages = {each.href: _file_of(each) for each in (INDEX, *PAGES)}
    there = pages.get(path) or path.removeprefix("/docs/" if path.startswith("/docs/") else "/")
    if doc.href == path and found["anchor"]:
        return f'{found["name"]}="{found["anchor"]}"'
    address = relpath(there or ".", dirname(_file_of(doc)) or ".")
    return f'{found["name"]}="{address}{"/" if path.endswith("/") else ""}{found["anchor"] or ""}"'


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs")
    print(f"{len(write_site(folder))} pages, from {folder}/index.html")
