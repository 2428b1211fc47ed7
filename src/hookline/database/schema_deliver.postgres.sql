-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
-- Running upgrade  -> deliver_0001
CREATE TABLE attempts (
    id BIGSERIAL NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    destination TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    url TEXT COLLATE "C",
    at BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    status INTEGER,
    error TEXT COLLATE "C",
    milliseconds INTEGER,
    next_at BIGINT,
    PRIMARY KEY (id)
);
CREATE INDEX attempts_offset ON attempts (partition, "offset");
CREATE TABLE checkpoints (
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    version BIGINT,
    blob BYTEA,
    PRIMARY KEY (partition)
);
CREATE TABLE dead_letters (
    id BIGSERIAL NOT NULL,
    lane BIGINT NOT NULL,
    destination TEXT COLLATE "C" NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    fate TEXT COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    at BIGINT NOT NULL,
    outcome TEXT COLLATE "C",
    status INTEGER,
    error TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX dead_letters_destination ON dead_letters (destination, id);
CREATE INDEX dead_letters_offset ON dead_letters (partition, "offset");
CREATE TABLE lanes (
    lane BIGINT NOT NULL,
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    blob BYTEA,
    PRIMARY KEY (lane, partition)
);
CREATE TABLE outcome_blocks (
    id BIGSERIAL NOT NULL,
    partition INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    last_offset BIGINT NOT NULL,
    at BIGINT NOT NULL,
    entries BYTEA NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX outcome_blocks_offset ON outcome_blocks (partition, first_offset);
CREATE TABLE ranges (
    id BIGSERIAL NOT NULL,
    lane BIGINT NOT NULL,
    destination TEXT COLLATE "C" NOT NULL,
    partition INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    last_offset BIGINT NOT NULL,
    fate TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    reason TEXT COLLATE "C",
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
);
CREATE INDEX retries_due ON retries (lane, due);
CREATE TABLE versions_in_force (
    partition INTEGER NOT NULL,
    version BIGINT NOT NULL,
    "offset" BIGINT NOT NULL,
    PRIMARY KEY (partition, version)
);
INSERT INTO alembic_version (version_num) VALUES ('deliver_0001') RETURNING alembic_version.version_num;
-- Running upgrade deliver_0001 -> deliver_0002
CREATE TABLE lane_filters (
    id BIGSERIAL NOT NULL,
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
    source TEXT COLLATE "C" NOT NULL,
    events BIGINT NOT NULL,
    filtered BIGINT NOT NULL,
    PRIMARY KEY (day, source)
);
UPDATE alembic_version SET version_num='deliver_0002' WHERE alembic_version.version_num = 'deliver_0001';
-- Running upgrade deliver_0002 -> deliver_0003
DELETE FROM outcome_blocks;
ALTER TABLE dead_letters ADD COLUMN event TEXT COLLATE "C";
CREATE TABLE replays (
    lane BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    delivered BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    reason TEXT COLLATE "C",
    PRIMARY KEY (lane)
);
CREATE TABLE letter_actions (
    id INTEGER NOT NULL,
    last BIGINT NOT NULL,
    discarded BIGINT NOT NULL,
    PRIMARY KEY (id)
);
UPDATE alembic_version SET version_num='deliver_0003' WHERE alembic_version.version_num = 'deliver_0002';
-- Running upgrade deliver_0003 -> deliver_0004
ALTER TABLE attempts ADD COLUMN head TEXT COLLATE "C";
CREATE INDEX attempts_destination ON attempts (destination, at);
CREATE INDEX outcome_blocks_at ON outcome_blocks (at);
UPDATE alembic_version SET version_num='deliver_0004' WHERE alembic_version.version_num = 'deliver_0003';
-- Running upgrade deliver_0004 -> deliver_0005
ALTER TABLE outcome_blocks ADD COLUMN first_at BIGINT;
DROP INDEX outcome_blocks_at;
CREATE INDEX outcome_blocks_at ON outcome_blocks (at, first_at);
UPDATE alembic_version SET version_num='deliver_0005' WHERE alembic_version.version_num = 'deliver_0004';
-- Running upgrade deliver_0005 -> deliver_0006
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
UPDATE alembic_version SET version_num='deliver_0006' WHERE alembic_version.version_num = 'deliver_0005';
-- Running upgrade deliver_0006 -> deliver_0007
CREATE TABLE owned (
    partition INTEGER NOT NULL,
    epoch BIGINT NOT NULL,
    worker TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (partition)
);
CREATE TABLE index_runs (
    partition INTEGER NOT NULL,
    first_offset BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    run BYTEA NOT NULL,
    PRIMARY KEY (partition, first_offset)
);
CREATE TABLE erased_parts (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    last_offset BIGINT NOT NULL,
    places BYTEA NOT NULL,
    PRIMARY KEY (request, asked_at, round, partition)
);
UPDATE alembic_version SET version_num='deliver_0007' WHERE alembic_version.version_num = 'deliver_0006';
-- Running upgrade deliver_0007 -> deliver_0008
CREATE TABLE workers (
    worker TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (worker)
);
UPDATE alembic_version SET version_num='deliver_0008' WHERE alembic_version.version_num = 'deliver_0007';
-- Running upgrade deliver_0008 -> deliver_0009
ALTER TABLE dead_letters ADD COLUMN first_at BIGINT;
UPDATE alembic_version SET version_num='deliver_0009' WHERE alembic_version.version_num = 'deliver_0008';
-- Running upgrade deliver_0009 -> deliver_0010
CREATE TABLE ring_entries (
    folder TEXT COLLATE "C" NOT NULL,
    partition INTEGER NOT NULL,
    at BIGINT NOT NULL,
    entries BYTEA NOT NULL,
    PRIMARY KEY (folder, partition)
);
UPDATE alembic_version SET version_num='deliver_0010' WHERE alembic_version.version_num = 'deliver_0009';
