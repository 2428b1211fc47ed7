-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
-- Running upgrade  -> privacy_0001
CREATE TABLE suppressions (
    digest BYTEA NOT NULL,
    at BIGINT NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    request BIGINT,
    PRIMARY KEY (digest)
);
CREATE INDEX suppressions_at ON suppressions (at, digest);
CREATE TABLE privacy_changes (
    name TEXT COLLATE "C" NOT NULL,
    next BIGINT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE suppressed_usage (
    day INTEGER NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (day, source)
);
CREATE TABLE suppressed_seen (
    source TEXT COLLATE "C" NOT NULL,
    started FLOAT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (source)
);
CREATE TABLE deletion_requests (
    id BIGSERIAL NOT NULL,
    at BIGINT NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    done_at BIGINT,
    round INTEGER NOT NULL,
    places BYTEA,
    erased TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX deletion_requests_state ON deletion_requests (state);
CREATE TABLE deletion_people (
    request BIGINT NOT NULL,
    number INTEGER NOT NULL,
    digest BYTEA NOT NULL,
    user_id TEXT COLLATE "C",
    identities TEXT COLLATE "C",
    identity_count INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (request, number)
);
CREATE INDEX deletion_people_digest ON deletion_people (digest);
CREATE TABLE deletion_messages (
    id BIGSERIAL NOT NULL,
    request BIGINT NOT NULL,
    number INTEGER NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    events BIGINT NOT NULL,
    destinations TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    tries INTEGER NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    first_at BIGINT,
    due BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX deletion_messages_request ON deletion_messages (request, number);
CREATE INDEX deletion_messages_due ON deletion_messages (state, due);
CREATE TABLE deletion_receipts (
    message BIGINT NOT NULL,
    destination TEXT COLLATE "C" NOT NULL,
    fate TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C",
    at BIGINT NOT NULL,
    PRIMARY KEY (message, destination)
);
INSERT INTO alembic_version (version_num) VALUES ('privacy_0001') RETURNING alembic_version.version_num;
-- Running upgrade privacy_0001 -> privacy_0002
CREATE TABLE privacy_key (
    id SERIAL NOT NULL,
    key BYTEA NOT NULL,
    PRIMARY KEY (id)
);
UPDATE alembic_version SET version_num='privacy_0002' WHERE alembic_version.version_num = 'privacy_0001';
