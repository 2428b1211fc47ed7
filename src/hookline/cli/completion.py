"""``hookline completion``: what a shell may offer for a command that is being typed, live ids among it.

The scripts ask ``hookline complete`` at each Tab. It answers with one candidate a line, and with nothing where it knows
none, or the service is away: the shell then offers files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from cyclopts import App

from hookline.cli.admin_api import CommandFailed
from hookline.cli.app import SERVICE, Flag, app
from hookline.cli.service.options import SUMMARIES
from hookline.cli.target import Target

ASK_SECONDS = 1.0
"""The first call after a start takes longest; a service that is not there refuses at once."""
OFFERED_MAX = 200
Shell = Literal["bash", "zsh", "fish"]

SCRIPTS: dict[str, str] = {
    "bash": """_hookline() {
    local each
    COMPREPLY=()
    while IFS= read -r each; do
        COMPREPLY+=("$(printf %q "$each")")
    done < <(hookline complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _hookline hookline
""",
    "zsh": """#compdef hookline
_hookline() {
    local -a offered
    offered=("${(@f)$(hookline complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${offered[1]}" ]]; then compadd -- "${offered[@]}"; else _files; fi
}
if [[ "${funcstack[1]}" = _hookline ]]; then _hookline "$@"; else compdef _hookline hookline; fi
""",
    "fish": """function __hookline_complete
    set -l words (commandline -opc) (commandline -ct)
    hookline complete -- $words[2..-1] 2>/dev/null
end
complete -c hookline -f -a '(__hookline_complete)'
""",
}

LISTS = {
    "destination": "destinations",
    "source": "sources",
    "audience": "audiences",
    "computed-trait": "computed-traits",
    "issue": "issues",
    "kind": "kinds",
    "replay": "replays",
    "token": "tokens",
    "user": "users",
    "notice": "notices",
    "dead-letter": "dead-letters",
    "notification": "notifications",
    "deletion-request": "deletion-requests",
}
"""Where the API lists what has an id, by what it is called."""
OF_DESTINATIONS = frozenset(
    {"pause", "resume", "disable", "try", "test", "metrics", "attempts", "retry-now", "secrets"}
)
"""Commands whose first word is a destination."""


@app.command(group=SERVICE)
def completion(shell: Shell, /, *, install: Flag = False) -> int:
    """Print or install the script that completes commands, options and ids in a shell.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    install
        Install the script in your home folder.
    """
    if not install:
        print(SCRIPTS[shell], end="")
        return 0
    path = _place(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SCRIPTS[shell])
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror}") from None
    print(f"written to {path}; it works in new shells")
    if shell == "zsh":
        print(f"zsh looks there if ~/.zshrc has, before compinit: fpath=({path.parent} $fpath)")
    return 0


@app.command(show=False)
def complete(*words: str) -> int:
    """Print what may stand for the last of the words, a candidate a line.

    Parameters
    ----------
    words
        What is typed so far behind ``hookline``.
    """
    for each in offered(words):
        print(each)
    return 0


def offered(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last word, which may be empty, behind the words before it."""
    *before, last = words or ("",)
    found = (each for each in _candidates(before, last) if each.startswith(last))
    return sorted(dict.fromkeys(each for _, each in zip(range(OFFERED_MAX), found, strict=False)))


def _place(shell: Shell) -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": data / "bash-completion/completions/hookline",
        "zsh": data / "zsh/site-functions/_hookline",
        "fish": config / "fish/completions/hookline.fish",
    }[shell]


def _candidates(before: Sequence[str], last: str) -> Iterator[str]:
    at, chain, given = app, list[str](), list[str]()
    for index, word in enumerate(before):
        commands = at.resolved_commands()
        if not given and word in commands and not word.startswith("-"):
            at, chain = commands[word], [*chain, word]
        else:
            given = list(before[index:])
            break
    arguments = list(_arguments(at)) if chain and chain[0] not in SUMMARIES else []
    taking = next((each for each in arguments if given and given[-1] in each.names and each.hint is not bool), None)
    if taking is not None:
        yield from _values(taking, taking.names[0].lstrip("-"), chain, before)
        return
    if not given:
        yield from (each for each, inner in at.resolved_commands().items() if not each.startswith("-") and inner.show)
    if last.startswith("-"):
        yield from (name for each in arguments for name in each.names if name.startswith("--"))
        yield "--help"
        return
    places = [each for each in arguments if "POSITIONAL" in each.field_info.kind.name]
    filled = _count_of_words(given, arguments)
    if places:
        place = places[min(filled, len(places) - 1)]
        yield from _values(place, place.names[0].lstrip("-").lower(), chain, before)


def _arguments(command: App) -> Iterator[Any]:
    for each in command.assemble_argument_collection() if command.default_command is not None else ():
        if each.show and each.names and each.names != ("*",):
            yield each


def _count_of_words(given: Sequence[str], arguments: Sequence[Any]) -> int:
    """Return how many of the words are no options and no values of options."""
    taking = {name for each in arguments if each.hint is not bool for name in each.names if name.startswith("-")}
    return sum(not word.startswith("-") and given[index - 1] not in taking for index, word in enumerate(given))


def _values(argument: Any, name: str, chain: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    choices = argument.get_choices()
    if choices:
        yield from choices
        return
    kind = name.removesuffix("s") if name not in ("id", "ids", "name") else chain[0].removesuffix("s")
    if name == "ids" and chain[0] == "dead-letters":
        kind = "dead-letter"
    if not name.startswith("destination") and len(chain) == 1 and chain[0] in OF_DESTINATIONS:
        kind = "destination"
    collection = LISTS.get(kind)
    if collection is None:
        return
    try:
        target = Target(**_given_target(before))
        answer = target.admin().request("GET", f"/{quote(collection)}?limit={OFFERED_MAX}", None, ASK_SECONDS)
    except (CommandFailed, OSError, ValueError):
        return
    key = {"users": "name", "tokens": "name", "kinds": "kind"}.get(collection, "id")
    yield from (str(each[key]) for each in answer["items"] if key in each)


def _given_target(before: Sequence[str]) -> dict[str, Any]:
    """Return the server that the line names."""
    names = {
        "--data-dir": ("data_dir", str),
        "--config": ("config", Path),
        "--api": ("api", str),
        "--token": ("token", str),
    }
    return {names[option][0]: names[option][1](value) for option, value in pairwise(before) if option in names}
