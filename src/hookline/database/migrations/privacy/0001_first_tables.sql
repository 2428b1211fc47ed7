-- Suppression, deletion requests and their evidence.

CREATE TABLE suppressions (
    digest BLOB NOT NULL,
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    request BIGINT,
    PRIMARY KEY (digest)
) WITHOUT ROWID;
CREATE INDEX suppressions_at ON suppressions (at, digest);
CREATE TABLE privacy_changes (
    name TEXT NOT NULL,
    next BIGINT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE suppressed_usage (
    day INTEGER NOT NULL,
    source TEXT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (day, source)
);
CREATE TABLE suppressed_seen (
    source TEXT NOT NULL,
    started FLOAT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (source)
);
CREATE TABLE deletion_requests (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    action TEXT NOT NULL,
    state TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    done_at BIGINT,
    round INTEGER NOT NULL,
    places BLOB,
    erased TEXT
);
CREATE INDEX deletion_requests_state ON deletion_requests (state);
CREATE TABLE deletion_people (
    request BIGINT NOT NULL,
    number INTEGER NOT NULL,
    digest BLOB NOT NULL,
    user_id TEXT,
    identities TEXT,
    identity_count INTEGER NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (request, number)
);
CREATE INDEX deletion_people_digest ON deletion_people (digest);
CREATE TABLE deletion_messages (
    id INTEGER NOT NULL, -- sqlite
    id BIGSERIAL NOT NULL, -- postgresql
    request BIGINT NOT NULL,
    number INTEGER NOT NULL,
    source TEXT NOT NULL,
    events BIGINT NOT NULL,
    destinations TEXT NOT NULL,
    message_id TEXT NOT NULL,
    tries INTEGER NOT NULL,
    state TEXT NOT NULL,
    first_at BIGINT,
    due BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX deletion_messages_request ON deletion_messages (request, number);
CREATE INDEX deletion_messages_due ON deletion_messages (state, due);
CREATE TABLE deletion_receipts (
    message BIGINT NOT NULL,
    destination TEXT NOT NULL,
    fate TEXT NOT NULL,
    reason TEXT,
    at BIGINT NOT NULL,
    PRIMARY KEY (message, destination)
);
