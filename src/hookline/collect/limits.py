"""Every bound of the collection edge, with its unit and its source. Nothing here is a setting."""

from __future__ import annotations

from hookline.connections.model import BATCH_BYTES_MIN

# SPEC.md section 8 and DESIGN 6.1.
EVENT_BYTES_MAX = 32_768
"""A single call, and one event of a batch with what the envelope adds to it."""
BATCH_BYTES_MAX = BATCH_BYTES_MIN
"""A batch after inflation, where its source does not ask for more (``batchBytes``)."""
BATCH_EVENTS_MAX = 2_500

# What the fields of an event may hold.
MESSAGE_ID_CHARACTERS_MAX = 512
USER_KEY_CHARACTERS_MAX = 512
"""Of a rejected event only; an accepted one is bounded by EVENT_BYTES_MAX."""
TYPE_CHARACTERS_MAX = 64
"""Of a rejected event only: what the caller wrote as its type."""
NESTING_LEVELS_MAX = 128
REJECTED_BODY_BYTES_MAX = 4_096
"""How much of a rejected event is kept for inspection."""
STORED_BYTES_MAX = 2 * 1024 * 1024
"""Events of one request with the envelope repeated for each, as they are stored: four times the largest batch, so that
a few hundred bytes of gzip cannot become megabytes of journal."""
STORED_BYTES_MORE = 1024 * 1024
"""What the envelope may at least add to a batch as large as its source takes them."""

# One request's head.
HEAD_BYTES_MAX = 64 * 1024
"""Target, names and values, and four bytes per header."""
HEAD_FRAME_BYTES_MAX = 64
"""The rest of a request line and the empty line."""
HEADERS_MAX = 100
TARGET_BYTES_MAX = 8 * 1024
WRITE_KEY_CHARACTERS_MAX = 200
QUERY_FIELDS_MAX = 20
PIXEL_FIELDS_MAX = 200
HOST_CHARACTERS_MAX = 261
"""The longest name and a port; a longer Host is not repeated in what SDKs are told."""

# One request's body on the wire.
GZIP_OVERHEAD_BYTES = 1_024
"""What gzip may add to a body that does not compress."""
GZIP_MEMBERS_MAX = 16
DRAIN_BYTES_MAX = 64 * 1024
"""Read past a body's limit before the connection is closed; within it, the connection lives on."""
CHUNK_OVERHEAD_BYTES_MAX = 64 * 1024
"""Chunk extensions and trailers of one body."""
CHUNK_FRAME_BYTES = 24
"""What one honest chunk costs: its size in hex and two line ends."""

# Time.
HEADERS_SECONDS_MAX = 10.0
BODY_SECONDS_MAX = 30.0
STALLED_ANSWER_SECONDS_MAX = 30.0
"""How long a client may leave its answers unread."""
LINGER_SECONDS_MAX = 5.0
"""How long what a refused client still sends is read and dropped, so that it can see its answer."""
DROP_SECONDS = 0.05
"""From one turn of refused clients, in which what they still send is read, to the next."""
DROP_BYTES_MAX = 512 * 1024
"""What one of them may send in a turn, roughly."""
DROP_CLIENTS_MAX = 8
"""Who has a turn at once: a flood of them costs a few hundredths of a core, and they wait for each other."""
SWEEP_SECONDS = 0.5
UPLOAD_SECONDS_MAX = 3.0
"""How long an end waits for requests that are still arriving while it takes new ones all the same."""
QUIET_SECONDS = 0.25
"""How long a kept connection may be silent at the end before it is closed: a request may be on its way on it."""
DRAIN_SECONDS_MAX = 5.0

# All connections together.
CONNECTIONS_MAX = 20_000
UNPROVEN_CONNECTIONS_MAX = 1_024
"""Connections of one address that have not sent one whole request yet; browsers open some ahead, and networks of
providers have many users behind one address, each of whom needs a fraction of a second."""
BUFFERED_BYTES_MAX = 128 * 1024 * 1024
"""Unfinished heads and bodies of all connections."""
PIPELINED_MAX = 32
"""Unanswered requests of one connection before it is read no further."""
BACKLOG_CONNECTIONS = 1_024

RETRY_AFTER_SECONDS = 5
"""What a 503 tells the client."""
RETRY_AFTER_SECONDS_MAX = 600
"""What a 429 tells the client at most, however far its source is in debt."""
