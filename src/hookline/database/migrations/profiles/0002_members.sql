-- Who is a member of what, what was told to destinations, and who has to be looked at again.

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
