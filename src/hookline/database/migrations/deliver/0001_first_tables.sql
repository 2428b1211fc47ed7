-- The first tables of ``deliver.db``.

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
    status INTEGER,
    error TEXT,
    milliseconds INTEGER,
    next_at BIGINT,
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
    fate TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at BIGINT NOT NULL,
    outcome TEXT,
    status INTEGER,
    error TEXT
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
    fate TEXT NOT NULL,
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
