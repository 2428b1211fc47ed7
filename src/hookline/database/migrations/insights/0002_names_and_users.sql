-- What sources send, and how many users they track.

CREATE TABLE schema_names (
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    count BIGINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    examined BIGINT NOT NULL,
    properties TEXT NOT NULL,
    PRIMARY KEY (source, type, name)
) WITHOUT ROWID;
CREATE TABLE tracked_users (
    month TEXT NOT NULL,
    source TEXT NOT NULL,
    registers BLOB NOT NULL,
    PRIMARY KEY (month, source)
);
CREATE TABLE schema_places (
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    PRIMARY KEY (partition)
);
