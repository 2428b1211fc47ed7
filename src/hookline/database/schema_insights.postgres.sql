-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
-- Running upgrade  -> insights_0001
CREATE TABLE total_series (
    resolution INTEGER NOT NULL,
    at BIGINT NOT NULL,
    accepted BIGINT,
    rejected BIGINT,
    delivered BIGINT,
    failures BIGINT,
    retries BIGINT,
    given_up BIGINT,
    waiting BIGINT,
    lag BIGINT,
    response_0 BIGINT,
    response_1 BIGINT,
    response_2 BIGINT,
    response_3 BIGINT,
    response_4 BIGINT,
    response_5 BIGINT,
    response_6 BIGINT,
    response_7 BIGINT,
    response_8 BIGINT,
    response_9 BIGINT,
    response_10 BIGINT,
    response_11 BIGINT,
    response_12 BIGINT,
    latency_0 BIGINT,
    latency_1 BIGINT,
    latency_2 BIGINT,
    latency_3 BIGINT,
    latency_4 BIGINT,
    latency_5 BIGINT,
    latency_6 BIGINT,
    latency_7 BIGINT,
    latency_8 BIGINT,
    latency_9 BIGINT,
    latency_10 BIGINT,
    latency_11 BIGINT,
    latency_12 BIGINT,
    PRIMARY KEY (resolution, at)
);
CREATE TABLE destination_series (
    resolution INTEGER NOT NULL,
    at BIGINT NOT NULL,
    destination TEXT COLLATE "C" NOT NULL,
    delivered BIGINT,
    attempted BIGINT,
    failures BIGINT,
    retries BIGINT,
    given_up BIGINT,
    filtered BIGINT,
    waiting BIGINT,
    response_0 BIGINT,
    response_1 BIGINT,
    response_2 BIGINT,
    response_3 BIGINT,
    response_4 BIGINT,
    response_5 BIGINT,
    response_6 BIGINT,
    response_7 BIGINT,
    response_8 BIGINT,
    response_9 BIGINT,
    response_10 BIGINT,
    response_11 BIGINT,
    response_12 BIGINT,
    PRIMARY KEY (resolution, at, destination)
);
CREATE TABLE source_series (
    resolution INTEGER NOT NULL,
    at BIGINT NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    events BIGINT,
    filtered BIGINT,
    PRIMARY KEY (resolution, at, source)
);
CREATE TABLE series_place (
    id INTEGER NOT NULL,
    last_slot BIGINT NOT NULL,
    PRIMARY KEY (id)
);
INSERT INTO alembic_version (version_num) VALUES ('insights_0001') RETURNING alembic_version.version_num;
-- Running upgrade insights_0001 -> insights_0002
CREATE TABLE schema_names (
    source TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    examined BIGINT NOT NULL,
    properties TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (source, type, name)
);
CREATE TABLE tracked_users (
    month TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    registers BYTEA NOT NULL,
    PRIMARY KEY (month, source)
);
CREATE TABLE schema_places (
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    PRIMARY KEY (partition)
);
UPDATE alembic_version SET version_num='insights_0002' WHERE alembic_version.version_num = 'insights_0001';
