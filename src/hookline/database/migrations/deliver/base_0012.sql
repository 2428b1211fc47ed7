-- What the steps up to 12 make of nothing: where a new database begins.

CREATE TABLE attempts (
    id INTEGER NOT NULL, -- sqlite
    id BIGSERIAL NOT NULL, -- postgresql
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    destination TEXT NOT NULL,
    number INTEGER NOT NULL,
    url TEXT,
    at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    http_status INTEGER,
    error TEXT,
    milliseconds INTEGER,
    next_at BIGINT,
    head TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX attempts_offset ON attempts (partition, "offset");
CREATE TABLE checkpoints (
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    version BIGINT,
    blob BLOB,
    PRIMARY KEY (partition)
);
CREATE TABLE dead_letters (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    lane BIGINT NOT NULL,
    destination TEXT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at BIGINT NOT NULL,
    outcome TEXT,
    http_status INTEGER,
    error TEXT,
    event TEXT,
    first_at BIGINT
);
CREATE INDEX dead_letters_destination ON dead_letters (destination, id);
CREATE INDEX dead_letters_offset ON dead_letters (partition, "offset");
CREATE TABLE lanes (
    lane BIGINT NOT NULL,
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    state TEXT NOT NULL,
    blob BLOB,
    PRIMARY KEY (lane, partition)
);
CREATE TABLE outcome_blocks (
    id INTEGER NOT NULL, -- sqlite
    id BIGSERIAL NOT NULL, -- postgresql
    partition INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    last_offset BIGINT NOT NULL,
    at BIGINT NOT NULL,
    entries BLOB NOT NULL,
    first_at BIGINT,
    PRIMARY KEY (id)
);
CREATE INDEX outcome_blocks_offset ON outcome_blocks (partition, first_offset);
CREATE TABLE ranges (
    id INTEGER NOT NULL, -- sqlite
    id BIGSERIAL NOT NULL, -- postgresql
    lane BIGINT NOT NULL,
    destination TEXT NOT NULL,
    partition INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    last_offset BIGINT NOT NULL,
    status TEXT NOT NULL,
    at BIGINT NOT NULL,
    reason TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX ranges_offset ON ranges (partition, first_offset);
CREATE TABLE retries (
    lane BIGINT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    first_at BIGINT NOT NULL,
    due BIGINT NOT NULL,
    urls INTEGER,
    PRIMARY KEY (lane, partition, "offset")
) WITHOUT ROWID;
CREATE INDEX retries_due ON retries (lane, due);
CREATE TABLE versions_in_force (
    partition INTEGER NOT NULL,
    version BIGINT NOT NULL,
    "offset" BIGINT NOT NULL,
    PRIMARY KEY (partition, version)
);
CREATE TABLE lane_filters (
    id INTEGER NOT NULL, -- sqlite
    id BIGSERIAL NOT NULL, -- postgresql
    lane BIGINT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX lane_filters_lane ON lane_filters (lane, partition);
CREATE TABLE usage (
    day INTEGER NOT NULL,
    source TEXT NOT NULL,
    events BIGINT NOT NULL,
    filtered BIGINT NOT NULL,
    PRIMARY KEY (day, source)
);
CREATE TABLE replays (
    lane INTEGER NOT NULL, -- sqlite
    lane BIGINT NOT NULL, -- postgresql
    state TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    reason TEXT,
    PRIMARY KEY (lane)
);
CREATE TABLE dead_letter_actions (
    id INTEGER NOT NULL,
    last BIGINT NOT NULL,
    discarded BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX attempts_destination ON attempts (destination, at);
CREATE INDEX outcome_blocks_at ON outcome_blocks (at, first_at);
CREATE TABLE erasures (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    retries BIGINT NOT NULL,
    dead_letters BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    done_at BIGINT,
    PRIMARY KEY (request, asked_at, round)
);
CREATE TABLE owned (
    partition INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    worker TEXT NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (partition)
);
CREATE TABLE index_runs (
    partition INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    digest TEXT NOT NULL,
    run BLOB NOT NULL,
    PRIMARY KEY (partition, first_offset)
);
CREATE TABLE erased_parts (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    last_offset BIGINT NOT NULL,
    places BLOB NOT NULL,
    PRIMARY KEY (request, asked_at, round, partition)
);
CREATE TABLE workers (
    worker TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (worker)
);
CREATE TABLE ring_entries (
    folder TEXT NOT NULL,
    partition INTEGER NOT NULL,
    at BIGINT NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (folder, partition)
);
