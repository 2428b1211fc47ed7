"""Mappings: documents in the notation of Segment's Mapping Kit, compiled once and resolved for each event.

    mapping = compile_mapping({"email": {"@path": "$.traits.email"}})
    mapping.resolve(event)

``document`` compiles, ``directives`` says what each directive means, ``paths`` and ``templates`` read the event,
``javascript`` holds the rules of JavaScript's values, and ``bounds`` what may go wrong. The reference is
docs/reference/mappings.md.
"""

from hookline.kinds.mapping.bounds import MappingError, MappingFailed
from hookline.kinds.mapping.document import Mapping, compile_mapping
from hookline.kinds.mapping.javascript import MISSING

__all__ = ["MISSING", "Mapping", "MappingError", "MappingFailed", "compile_mapping"]
