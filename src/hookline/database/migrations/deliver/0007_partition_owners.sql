-- Where partitions go from worker to worker: who owns which, sealed runs of the index, and what was erased.

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
