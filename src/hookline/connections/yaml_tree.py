"""YAML text as plain values, with the line of every one of them.

Reads one document of mappings, lists and scalars; refuses what would be read otherwise than it looks (a key given
twice) and what could exhaust memory or stack (nesting, aliases). Knows nothing of connections.
"""

from __future__ import annotations

from typing import Any

import yaml

from hookline.connections.check import Problem, ProblemCode, join

DEPTH_MAX = 32
VALUES_MAX = 1_000_000

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
"""What looks like a date; it stays text, as its key's own rules read it."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlTree:
    """The value of a document, the problems met while reading it, and where each part stands.

    ``value`` is None for an empty document and for one that cannot be read at all.
    """

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self.value: Any = None
        self._root: yaml.Node | None = None
        self._values_left = VALUES_MAX
        self._scalars = yaml.constructor.SafeConstructor()
        try:
            if self._is_bounded(text):
                self._root = yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            reason = ", ".join(filter(None, [error.context, error.problem]))
            self._problem("invalid_yaml", "", f"this is not valid YAML: {reason}", mark)
        except yaml.YAMLError as error:
            self._problem("invalid_yaml", "", f"this is not valid YAML: {str(error).splitlines()[0]}", None)
        if self._root is not None:
            self.value = self._build(self._root, "", DEPTH_MAX)

    def line_of(self, path: str) -> int | None:
        """Return the line, from 1, of what is at ``path`` or of the nearest thing around it."""
        inner, rest = self._root, path
        line = None
        while inner is not None:
            line = int(inner.start_mark.line) + 1 if line is None else line
            found = _step(inner, rest)
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
                self._problem("extra_document", "", message, event.start_mark)
            elif depth > DEPTH_MAX:
                self._problem("invalid_yaml", "", f"nested deeper than {DEPTH_MAX} levels", event.start_mark)
            elif values > VALUES_MAX:
                self._problem("invalid_yaml", "", f"more than {VALUES_MAX} values in one file", event.start_mark)
            else:
                continue
            return False
        return True

    def _build(self, node: yaml.Node, path: str, depth_left: int) -> Any:
        # An alias stands for its whole anchor again: a few nested ones would stand for billions of values, and one
        # within its own anchor for an endless depth.
        self._values_left -= 1
        if self._values_left < 0 or depth_left < 0:
            if self._values_left >= -1:
                self._problem("invalid_yaml", path, "the aliases stand for too much; write it out", node.start_mark)
                self._values_left = -1
            return None
        if isinstance(node, yaml.MappingNode):
            return self._build_mapping(node, path, depth_left - 1)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self._build(item, f"{path}[{index}]", depth_left - 1) for index, item in items]
        if node.tag == _TIMESTAMP:
            return str(node.value)
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            message = f"{str(node.value)[:64]!r} cannot be read as {node.tag.rpartition(':')[2]}; write it in quotes"
            self._problem("invalid_value", path, message, node.start_mark)
            return None

    def _build_mapping(self, node: yaml.MappingNode, path: str, depth_left: int) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._problem("invalid_yaml", path, "a key must be plain text", key.start_mark)
                continue
            # The text as written: YAML would read the header name `No` as false.
            name = str(key.value)
            if name in built:
                message = f"{name!r} is given twice; keep one"
                self._problem("duplicate_key", join(path, name), message, key.start_mark)
            built[name] = self._build(value, join(path, name), depth_left)
        return built

    def _problem(self, code: ProblemCode, path: str, message: str, mark: Any) -> None:
        self.problems.append(Problem(code, path, message, None if mark is None else mark.line + 1))


def _step(node: yaml.Node, path: str) -> tuple[int, yaml.Node, str] | None:
    """Return one step down along ``path``: the line where it leads, the inner node and the path left; None at
    the end."""
    path = path.removeprefix(".")
    if isinstance(node, yaml.SequenceNode) and path.startswith("["):
        index, _, rest = path[1:].partition("]")
        items: list[yaml.Node] = node.value
        if index.isdigit() and int(index) < len(items):
            item = items[int(index)]
            return item.start_mark.line + 1, item, rest
    if isinstance(node, yaml.MappingNode) and path:
        # The longest key that fits: names of headers may hold dots.
        for key, value in sorted(node.value, key=lambda pair: -len(str(pair[0].value))):
            name = str(key.value)
            if path == name or path.startswith((f"{name}.", f"{name}[")):
                return key.start_mark.line + 1, value, path[len(name) :]
    return None
