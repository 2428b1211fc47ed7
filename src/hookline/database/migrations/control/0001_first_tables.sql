-- The first tables of ``control.db``.

CREATE TABLE control_ready (
    id INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE lane_numbers (
    id INTEGER NOT NULL,
    next BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE objects (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT,
    document TEXT NOT NULL,
    owner TEXT,
    lane TEXT,
    PRIMARY KEY (kind, id, since)
);
CREATE UNIQUE INDEX objects_in_force ON objects (kind, id) WHERE until IS NULL;
CREATE INDEX objects_since ON objects (since);
CREATE INDEX objects_until ON objects (until) WHERE until IS NOT NULL;
CREATE TABLE versions (
    version INTEGER NOT NULL, -- sqlite
    version BIGINT NOT NULL, -- postgresql
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    ends TEXT NOT NULL,
    PRIMARY KEY (version)
);
