-- What the steps up to 9 make of nothing: where a new database begins.

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
    purpose INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE backfills (
    feature INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    end_offset BIGINT NOT NULL,
    PRIMARY KEY (feature, partition)
) WITHOUT ROWID;
CREATE TABLE chunks (
    chunk INTEGER NOT NULL,
    level INTEGER NOT NULL,
    entries BIGINT NOT NULL,
    shift INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (chunk)
);
CREATE TABLE places (
    partition INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    missed BIGINT NOT NULL,
    PRIMARY KEY (partition)
);
CREATE TABLE definitions (
    id INTEGER NOT NULL, -- sqlite
    id SERIAL NOT NULL, -- postgresql
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    judged TEXT NOT NULL,
    evaluated BIGINT,
    number INTEGER NOT NULL,
    next_at BIGINT NOT NULL,
    sending_at BIGINT,
    sending_batch BIGINT,
    told TEXT,
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
) WITHOUT ROWID;
CREATE TABLE members (
    definition INTEGER NOT NULL,
    person BIGINT NOT NULL,
    value TEXT NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT,
    sent TEXT,
    sync INTEGER,
    since_sync INTEGER,
    PRIMARY KEY (definition, person)
) WITHOUT ROWID;
CREATE INDEX members_due ON members (definition, until) WHERE until IS NOT NULL; -- sqlite
CREATE INDEX members_due ON members (definition, until); -- postgresql
CREATE INDEX members_sync ON members (definition, sync) WHERE sync IS NOT NULL; -- sqlite
CREATE INDEX members_sync ON members (definition, sync); -- postgresql
CREATE TABLE touched (
    batch BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (batch, person)
) WITHOUT ROWID;
CREATE TABLE erasures (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    people BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    done_at BIGINT,
    PRIMARY KEY (request, asked_at, round)
);
CREATE TABLE previews (
    id TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    definition BLOB NOT NULL,
    state TEXT NOT NULL,
    progress FLOAT NOT NULL,
    people BIGINT,
    members BIGINT,
    detail TEXT,
    PRIMARY KEY (id)
) WITHOUT ROWID;
CREATE TABLE preview_sample (
    preview TEXT NOT NULL,
    person BIGINT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (preview, person)
) WITHOUT ROWID;
CREATE TABLE membership_changes (
    definition INTEGER NOT NULL,
    person BIGINT NOT NULL,
    at BIGINT NOT NULL,
    member INTEGER NOT NULL,
    sync INTEGER,
    PRIMARY KEY (definition, person, at)
) WITHOUT ROWID;
CREATE TABLE new_traits (
    chunk INTEGER NOT NULL,
    person BIGINT NOT NULL,
    traits BLOB NOT NULL,
    PRIMARY KEY (chunk, person)
) WITHOUT ROWID;
CREATE TABLE trait_chunks (
    chunk INTEGER NOT NULL,
    people INTEGER NOT NULL,
    PRIMARY KEY (chunk)
);
CREATE TABLE introductions (
    definition INTEGER NOT NULL,
    destinations TEXT NOT NULL,
    at BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (definition)
);
CREATE TABLE history (
    feature INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    bucket BIGINT NOT NULL,
    entries BLOB NOT NULL,
    entry_values BLOB,
    PRIMARY KEY (feature, chunk, bucket)
) WITHOUT ROWID;
CREATE INDEX features_what ON features (type, name);
CREATE TABLE long_ids (
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (key)
) WITHOUT ROWID;
