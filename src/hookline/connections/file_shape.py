"""The shape of ``connections.yaml``: its sections and keys, and the objects that its values become."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec.structs import replace

from hookline.connections.check import Problem, ProblemCode, join
from hookline.connections.definitions.model import Aggregate, Audience, ComputedTrait
from hookline.connections.model import Destination, Filter, Source, WebhookSettings, is_webhook
from hookline.connections.notifications import Channel, Notification
from hookline.connections.state import Object
from hookline.kinds.catalog import OWN

StructT = TypeVar("StructT", bound=msgspec.Struct)
Given = ParamSpec("Given")

SECTIONS = ("sources", "destinations", "audiences", "computedTraits", "notifications")
MADE_KEYS: dict[type[msgspec.Struct], dict[str, str]] = {Destination: {"rotations": "hookline secrets rotate"}}
"""Keys that the API shows and nobody writes, with the command that makes them."""
CHOICES = {
    "type": get_args(get_type_hints(Source)["type"]),
    "kind": get_args(get_type_hints(Destination)["kind"]),
    "do": get_args(get_type_hints(Filter)["do"]),
    "aggregate": get_args(Aggregate),
}
PROBLEMS_MAX = 100
"""Of one file; of more only how many there are, so that neither time nor answer grows with them."""
NAME_CHARACTERS_MAX = 200
"""Of a key in the place and the sentence of a problem."""


class Problems:
    """The first problems of a file, and how many more there are."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._more = 0

    def add(self, describe: Callable[Given, Problem], *args: Given.args, **kwargs: Given.kwargs) -> None:
        """Keep one, while there is room for it; only then it is put into words."""
        if len(self._found) < PROBLEMS_MAX:
            self._found.append(describe(*args, **kwargs))
        else:
            self._more += 1

    def take(self, problems: Iterable[Problem]) -> None:
        """Keep those that were found elsewhere, as far as there is room; what one stands for is counted on."""
        for problem in problems:
            if problem.code == "more_problems":
                self._more += problem.count
            else:
                self.add(lambda found: found, problem)

    def listed(self, line_of: Callable[[str], int | None] = lambda path: None) -> list[Problem]:
        """Return them in the order of the file, and last one that says how many more there are; ``line_of`` a path is
        asked for those that know no line."""
        found = [each if each.line or not each.path else replace(each, line=line_of(each.path)) for each in self._found]
        found.sort(key=lambda problem: problem.line or 0)
        if self._more:
            found.append(
                Problem("more_problems", "", f"and {self._more:,} more; correct these first", None, self._more)
            )
        return found


def shown_after(problems: Sequence[Problem]) -> str:
    """Return what a sentence that names only the first problem says of the others."""
    more = sum(problem.count for problem in problems) - 1
    return f" (and {more:,} more)" if more else ""


class Configuration:
    """The objects of one file, each with its path; problems found later get their lines from here."""

    def __init__(self, tree: YamlTree) -> None:
        self._tree = tree
        self.sources: list[tuple[str, Source]] = []
        self.destinations: list[tuple[str, Destination]] = []
        self.audiences: list[tuple[str, Audience]] = []
        self.computed_traits: list[tuple[str, ComputedTrait]] = []
        self.notifications: list[tuple[str, Notification]] = []

    def objects(self) -> Iterator[tuple[str, Object]]:
        """Yield every object with its path, those first that others name."""
        yield from self.sources
        yield from self.destinations
        yield from self.audiences
        yield from self.computed_traits
        yield from self.notifications

    def placed(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return the first of the problems with their lines, in the order of the file."""
        first = Problems()
        first.take(problems)
        return first.listed(self._tree.line_of)


def read_configuration(tree: YamlTree) -> tuple[Configuration, list[Problem]]:
    """Return what the document says, as far as it can be understood, and the first problems of its shape."""
    configuration = Configuration(tree)
    problems = Problems()
    problems.take(tree.problems)
    document = {} if tree.value is None else tree.value
    if not isinstance(document, dict):
        problems.add(Problem, "invalid_value", "", f"the file must be a mapping with the keys {', '.join(SECTIONS)}", 1)
        return configuration, problems.listed()
    for name in document:
        if name not in SECTIONS:
            problems.add(_unknown, "", name, SECTIONS)
    configuration.sources = list(_read_section(document, "sources", Source, problems))
    configuration.destinations = list(_read_section(document, "destinations", Destination, problems))
    configuration.audiences = list(_read_section(document, "audiences", Audience, problems))
    configuration.computed_traits = list(_read_section(document, "computedTraits", ComputedTrait, problems))
    configuration.notifications = list(_read_section(document, "notifications", Notification, problems))
    return configuration, configuration.placed(problems.listed())


def _read_section(
    document: dict[str, Any], name: str, type: type[StructT], problems: Problems
) -> Iterator[tuple[str, StructT]]:
    items = document.get(name)
    if items is None:
        return
    if not isinstance(items, list):
        problems.add(Problem, "invalid_value", name, f"write {name} as a list, each item beginning with a hyphen")
        return
    for index, item in enumerate(items):
        path = f"{name}[{index}]"
        known = _without_unknown(item, type, path, problems)
        try:
            yield path, msgspec.convert(known, type)
        except msgspec.ValidationError as error:
            problems.add(_invalid, path, str(error))


def _without_unknown(value: Any, type: Any, path: str, problems: Problems) -> Any:
    """Return the value without keys that its type does not have, each of which is a problem; the rest is checked all
    the same, so that one wrong key does not hide another mistake."""
    if get_origin(type) in (UnionType, Union):
        found = [each for each in get_args(type) if each not in (str, int, float, NoneType)]
        # One thing or a list of such things.
        fitting = (
            [each for each in found if (each is not Channel) == isinstance(value, list)] if Channel in found else found
        )
        type = next(iter(fitting or found), type)
    if get_origin(type) is Annotated:
        type = get_args(type)[0]
    if get_origin(type) is tuple and isinstance(value, list):
        inner = get_args(type)[0]
        return [_without_unknown(item, inner, f"{path}[{index}]", problems) for index, item in enumerate(value)]
    if not (isinstance(type, _StructMeta) and isinstance(value, dict)):
        return value
    known = _keys(type)
    if type is Destination and is_webhook(str(value.get("kind", OWN))):
        known = {**known, "settings": WebhookSettings}
    kept: dict[str, Any] = {}
    for name, inner_value in value.items():
        if name in MADE_KEYS.get(type, {}):
            if inner_value:
                problems.add(_made, join(path, name), MADE_KEYS[type][name])
        elif name in known:
            kept[name] = _without_unknown(inner_value, known[name], join(path, name), problems)
        else:
            problems.add(_unknown, path, name, tuple(known))
    return kept


_StructMeta = type(msgspec.Struct)


@cache
def _keys(type: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the keys of a struct as they are written, with their types."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(type)}


def _made(path: str, command: str) -> Problem:
    name = path.rpartition(".")[2]
    return Problem("invalid_value", path, f"{name} are made with `{command}`, not written; take them out")


def _unknown(around: str, name: str, known: tuple[str, ...]) -> Problem:
    path = join(around, _short(name) or '[""]')
    name = _short(name)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known keys are {', '.join(known)}"
    return Problem("unknown_key", path, f"unknown key {name!r}; {hint}")


def _short(name: str) -> str:
    """Return the beginning of a long name: an alias of a few bytes may repeat one of many megabytes."""
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}…"


def _invalid(path: str, text: str) -> Problem:
    """msgspec's sentence, with the place in our notation and what to write for the commonest mistakes."""
    sentence, _, place = text.partition(" - at `$")
    place = place.rstrip("`").replace("[...]", "").removeprefix(".")
    field = place.rpartition(".")[2]
    if sentence.startswith("Object missing required field"):
        sentence += "; add it"
    elif sentence.startswith("Invalid enum value") and field in CHOICES:
        sentence += f"; write {' or '.join(CHOICES[field])}"
    elif "matching regex" in sentence and field in ("id", "sources"):
        sentence = (
            "an id is made of letters, digits, '_', '.' and '-', begins with a letter or digit, and is at most 64"
        )
    elif sentence.startswith("Expected `str`, got") and "null" not in sentence:
        sentence += "; write the value in quotes"
    return Problem("invalid_value", join(path, place), sentence)


DEPTH_MAX = 32
VALUES_MAX = 1_000_000
NUMBER_CHARACTERS_MAX = 1_000
"""Of what is no text: to read a number in base 60, such as 1:30:00, takes the square of its length."""

_TEXT = "tag:yaml.org,2002:str"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
"""What looks like a date; it stays text, as its key's own rules read it."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"  # after a whole escape, or none
)


def _without_pairs(text: str) -> str:
    """Write out the characters that JSON escapes as two halves, as of an emoji: YAML, which takes all other JSON, knows
    no halves."""
    if _PAIR.search(text) is None:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # in YAML of another form they may stand for themselves
        return text
    return _PAIR.sub(lambda found: found[1] + _whole(int(found[2], 16), int(found[3], 16)), text)


def _whole(high: int, low: int) -> str:
    return chr(0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF))


class YamlTree:
    """The value of a document, the problems met while reading it, and where each part stands.

    ``value`` is None for an empty document and for one that cannot be read at all.
    """

    def __init__(self, text: str, values_max: int = VALUES_MAX) -> None:
        text = _without_pairs(text)
        self._problems = Problems()
        self._keys: dict[int, _Keys] = {}
        self.value: Any = None
        self._root: yaml.Node | None = None
        self._values_max = self._values_left = values_max
        self._scalars = yaml.constructor.SafeConstructor()
        try:
            if self._is_bounded(text):
                self._root = yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            reason = ", ".join(filter(None, [error.context, error.problem]))
            self._problem("invalid_yaml", None, f"this is not valid YAML: {reason}", mark)
        except yaml.YAMLError as error:
            self._problem("invalid_yaml", None, f"this is not valid YAML: {str(error).splitlines()[0]}", None)
        if self._root is not None:
            self.value = self._build(self._root, None, DEPTH_MAX)

    @property
    def problems(self) -> list[Problem]:
        """Return the first problems of the text, in its order."""
        return self._problems.listed()

    def line_of(self, path: str) -> int | None:
        """Return the line, from 1, of what is at ``path`` or of the nearest thing around it."""
        inner, rest = self._root, path
        line = None
        while inner is not None:
            line = int(inner.start_mark.line) + 1 if line is None else line
            found = self._step(inner, rest)
            if found is None:
                break
            line, inner, rest = found
        return line

    def _is_bounded(self, text: str) -> bool:
        """Look through the events first: unlike composing, that takes no stack and no memory per value."""
        depth = values = documents = 0
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            documents += isinstance(event, yaml.DocumentStartEvent)
            values += isinstance(event, yaml.NodeEvent)
            if documents > 1:
                message = "a second document begins here; write everything in one"
                self._problem("extra_document", None, message, event.start_mark)
            elif depth > DEPTH_MAX:
                self._problem("invalid_yaml", None, f"nested deeper than {DEPTH_MAX} levels", event.start_mark)
            elif values > self._values_max:
                self._problem(
                    "invalid_yaml", None, f"more than {self._values_max} values in one file", event.start_mark
                )
            else:
                continue
            return False
        return True

    def _build(self, node: yaml.Node, at: _At | None, depth_left: int) -> Any:
        # An alias stands for its whole anchor again: a few nested ones would stand for billions of values, and one
        # within its own anchor for an endless depth.
        self._values_left -= 1
        if self._values_left < 0 or depth_left < 0:
            if self._values_left >= -1:
                self._problem("invalid_yaml", at, "the aliases stand for too much; write it out", node.start_mark)
                self._values_left = -1
            return None
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, at, depth_left - 1)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self._build(item, _At(at, f"[{index}]"), depth_left - 1) for index, item in items]
        if node.tag == _TIMESTAMP:
            return str(node.value)
        try:
            if node.tag != _TEXT and len(node.value) > NUMBER_CHARACTERS_MAX:
                raise ValueError
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, OverflowError):  # what it raises for a tag that does not fit
            message = f"{str(node.value)[:64]!r} cannot be read as {node.tag.rpartition(':')[2]}; write it in quotes"
            self._problem("invalid_value", at, message, node.start_mark)
            return None

    def _build_mapping(self, node: yaml.MappingNode, at: _At | None, depth_left: int) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._problem("invalid_yaml", at, "a key must be plain text", key.start_mark)
                continue
            # The text as written: YAML would read the header name `No` as false.
            name = str(key.value)
            if name in built:
                message = f"{_short(name)!r} is given twice; keep one"
                self._problem("duplicate_key", _At(at, name), message, key.start_mark)
            built[name] = self._build(value, _At(at, name), depth_left)
        return built

    def _problem(self, code: ProblemCode, at: _At | None, message: str, mark: Any) -> None:
        self._problems.add(lambda: Problem(code, _path(at), message, None if mark is None else mark.line + 1))

    def _step(self, node: yaml.Node, path: str) -> tuple[int, yaml.Node, str] | None:
        """Return one step down along ``path``: the line where it leads, the inner node and the path left; None at
        the end."""
        path = path.removeprefix(".")
        if isinstance(node, yaml.SequenceNode) and path.startswith("["):
            index, _, rest = path[1:].partition("]")
            items: list[yaml.Node] = node.value
            if index.isdigit() and int(index) < len(items):
                item = items[int(index)]
                return item.start_mark.line + 1, item, rest
        if isinstance(node, yaml.MappingNode):
            if id(node) not in self._keys:
                self._keys[id(node)] = _Keys(node)
            return self._keys[id(node)].along(path)
        return None


class _At(NamedTuple):
    """A place while it is walked to. Only a problem needs its path: of each value, it would be long below long keys."""

    around: _At | None
    step: str


def _path(at: _At | None) -> str:
    return "" if at is None else join(_path(at.around), _short(at.step))


class _Keys:
    """The keys of one mapping, found without going through all of them each time."""

    def __init__(self, node: yaml.MappingNode) -> None:
        self._found: dict[str, tuple[int, yaml.Node]] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                self._found.setdefault(str(key.value), (key.start_mark.line + 1, value))
        self._lengths = sorted({len(name) for name in self._found} - {0}, reverse=True)

    def along(self, path: str) -> tuple[int, yaml.Node, str] | None:
        """Return the line and the value of the key that ``path`` begins with, and the path left."""
        if path.startswith('["'):
            try:
                name, end = _JSON.raw_decode(path, 1)
            except ValueError:
                return None
            return (*self._found[name], path[end:].removeprefix("]")) if name in self._found else None
        # The longest key that fits: names of headers may hold dots.
        for length in self._lengths:
            if length <= len(path) and path[length : length + 1] in ("", ".", "[") and path[:length] in self._found:
                return (*self._found[path[:length]], path[length:])
        return None


_JSON = json.JSONDecoder()
