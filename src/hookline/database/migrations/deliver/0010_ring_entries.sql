-- What the rings of many deliver processes know, for whoever takes a partition up.

CREATE TABLE ring_entries (
    folder TEXT NOT NULL,
    partition INTEGER NOT NULL,
    at BIGINT NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (folder, partition)
);
