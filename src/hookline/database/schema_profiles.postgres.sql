-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
-- Running upgrade  -> profiles_0001
CREATE TABLE persons (
    id SERIAL NOT NULL,
    user_id TEXT COLLATE "C",
    first_seen BIGINT NOT NULL,
    traits BYTEA,
    PRIMARY KEY (id)
);
CREATE TABLE merged (
    person INTEGER NOT NULL,
    into_person BIGINT NOT NULL,
    PRIMARY KEY (person)
);
CREATE INDEX merged_into ON merged (into_person);
CREATE TABLE identities (
    kind INTEGER NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX identities_person ON identities (person);
CREATE TABLE repointed (
    id TEXT COLLATE "C" NOT NULL,
    place BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (id, place)
);
CREATE TABLE groups (
    id TEXT COLLATE "C" NOT NULL,
    traits BYTEA,
    PRIMARY KEY (id)
);
CREATE TABLE memberships (
    group_id TEXT COLLATE "C" NOT NULL,
    person BIGINT NOT NULL,
    since BIGINT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (group_id, person)
);
CREATE INDEX memberships_person ON memberships (person);
CREATE TABLE features (
    id SERIAL NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    condition TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    window_ms BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX features_what ON features (type, name, condition, value);
CREATE TABLE backfills (
    feature INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    PRIMARY KEY (feature, partition)
);
CREATE TABLE history (
    feature INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    person BIGINT NOT NULL,
    entries BYTEA NOT NULL,
    entry_values BYTEA,
    PRIMARY KEY (feature, chunk, person)
);
CREATE TABLE chunks (
    chunk INTEGER NOT NULL,
    level INTEGER NOT NULL,
    entries BIGINT NOT NULL,
    PRIMARY KEY (chunk)
);
CREATE TABLE places (
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    PRIMARY KEY (partition)
);
INSERT INTO alembic_version (version_num) VALUES ('profiles_0001') RETURNING alembic_version.version_num;
-- Running upgrade profiles_0001 -> profiles_0002
CREATE TABLE definitions (
    id SERIAL NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    judged TEXT COLLATE "C" NOT NULL,
    evaluated BIGINT,
    number INTEGER NOT NULL,
    next_at BIGINT NOT NULL,
    sending_at BIGINT,
    sending_batch BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX definitions_what ON definitions (kind, name);
CREATE TABLE syncs (
    definition INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    came BIGINT NOT NULL,
    went BIGINT NOT NULL,
    PRIMARY KEY (definition, number)
);
CREATE TABLE members (
    definition INTEGER NOT NULL,
    person BIGINT NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT,
    sent TEXT COLLATE "C",
    sync INTEGER,
    PRIMARY KEY (definition, person)
);
CREATE INDEX members_due ON members (definition, until);
CREATE INDEX members_sync ON members (definition, sync);
CREATE TABLE touched (
    batch BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (batch, person)
);
UPDATE alembic_version SET version_num='profiles_0002' WHERE alembic_version.version_num = 'profiles_0001';
-- Running upgrade profiles_0002 -> profiles_0003
CREATE TABLE erasures (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    people BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    done_at BIGINT,
    PRIMARY KEY (request, asked_at, round)
);
UPDATE alembic_version SET version_num='profiles_0003' WHERE alembic_version.version_num = 'profiles_0002';
-- Running upgrade profiles_0003 -> profiles_0004
ALTER TABLE features ADD COLUMN purpose INTEGER DEFAULT '0' NOT NULL;
DROP INDEX features_what;
CREATE INDEX features_what ON features (type, name, condition, value);
CREATE TABLE previews (
    id TEXT COLLATE "C" NOT NULL,
    asked_at BIGINT NOT NULL,
    definition BYTEA NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    progress FLOAT NOT NULL,
    people BIGINT,
    members BIGINT,
    detail TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE TABLE preview_sample (
    preview TEXT COLLATE "C" NOT NULL,
    person BIGINT NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (preview, person)
);
UPDATE alembic_version SET version_num='profiles_0004' WHERE alembic_version.version_num = 'profiles_0003';
-- Running upgrade profiles_0004 -> profiles_0005
ALTER TABLE members ADD COLUMN since_sync INTEGER;
CREATE TABLE membership_changes (
    definition INTEGER NOT NULL,
    person BIGINT NOT NULL,
    at BIGINT NOT NULL,
    member INTEGER NOT NULL,
    sync INTEGER,
    PRIMARY KEY (definition, person, at)
);
UPDATE alembic_version SET version_num='profiles_0005' WHERE alembic_version.version_num = 'profiles_0004';
-- Running upgrade profiles_0005 -> profiles_0006
CREATE TABLE new_traits (
    chunk INTEGER NOT NULL,
    person BIGINT NOT NULL,
    traits BYTEA NOT NULL,
    PRIMARY KEY (chunk, person)
);
CREATE TABLE trait_chunks (
    chunk INTEGER NOT NULL,
    people INTEGER NOT NULL,
    PRIMARY KEY (chunk)
);
UPDATE alembic_version SET version_num='profiles_0006' WHERE alembic_version.version_num = 'profiles_0005';
-- Running upgrade profiles_0006 -> profiles_0007
ALTER TABLE definitions ADD COLUMN told TEXT COLLATE "C";
CREATE TABLE introductions (
    definition INTEGER NOT NULL,
    destinations TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (definition)
);
UPDATE alembic_version SET version_num='profiles_0007' WHERE alembic_version.version_num = 'profiles_0006';
-- Running upgrade profiles_0007 -> profiles_0008
ALTER TABLE chunks ADD COLUMN shift INTEGER DEFAULT '0' NOT NULL;
DROP TABLE history;
CREATE TABLE history (
    feature INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    bucket BIGINT NOT NULL,
    entries BYTEA NOT NULL,
    entry_values BYTEA,
    PRIMARY KEY (feature, chunk, bucket)
);
UPDATE alembic_version SET version_num='profiles_0008' WHERE alembic_version.version_num = 'profiles_0007';
-- Running upgrade profiles_0008 -> profiles_0009
DROP INDEX features_what;
CREATE INDEX features_what ON features (type, name);
CREATE TABLE long_ids (
    key TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (key)
);
UPDATE alembic_version SET version_num='profiles_0009' WHERE alembic_version.version_num = 'profiles_0008';
