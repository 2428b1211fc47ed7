-- The first tables of ``profiles.db``: persons, their identities, traits and groups, and the history of features.

CREATE TABLE persons (
    id INTEGER NOT NULL, -- sqlite
    id SERIAL NOT NULL, -- postgresql
    user_id TEXT,
    first_seen BIGINT NOT NULL,
    traits BLOB,
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
    id TEXT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX identities_person ON identities (person);
CREATE TABLE repointed (
    id TEXT NOT NULL,
    place BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (id, place)
) WITHOUT ROWID;
CREATE TABLE groups (
    id TEXT NOT NULL,
    traits BLOB,
    PRIMARY KEY (id)
) WITHOUT ROWID;
CREATE TABLE memberships (
    group_id TEXT NOT NULL,
    person BIGINT NOT NULL,
    since BIGINT NOT NULL,
    place BIGINT NOT NULL,
    PRIMARY KEY (group_id, person)
) WITHOUT ROWID;
CREATE INDEX memberships_person ON memberships (person);
CREATE TABLE features (
    id INTEGER NOT NULL, -- sqlite
    id SERIAL NOT NULL, -- postgresql
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    condition TEXT NOT NULL,
    value TEXT NOT NULL,
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
) WITHOUT ROWID;
CREATE TABLE history (
    feature INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    person BIGINT NOT NULL,
    entries BLOB NOT NULL,
    entry_values BLOB,
    PRIMARY KEY (feature, chunk, person)
) WITHOUT ROWID;
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
