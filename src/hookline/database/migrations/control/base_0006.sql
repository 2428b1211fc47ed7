-- What the steps up to 6 make of nothing: where a new database begins.

CREATE TABLE control_ready (
    id INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE lane_numbers (
    id INTEGER NOT NULL,
    next BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE objects (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT,
    document TEXT NOT NULL,
    owner TEXT,
    lane TEXT,
    PRIMARY KEY (kind, id, since)
);
CREATE UNIQUE INDEX objects_in_force ON objects (kind, id) WHERE until IS NULL;
CREATE INDEX objects_since ON objects (since);
CREATE INDEX objects_until ON objects (until) WHERE until IS NOT NULL;
CREATE TABLE versions (
    version INTEGER NOT NULL, -- sqlite
    version BIGINT NOT NULL, -- postgresql
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    ends TEXT NOT NULL,
    PRIMARY KEY (version)
);
CREATE TABLE notices (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    severity TEXT NOT NULL,
    message TEXT NOT NULL,
    next_step TEXT NOT NULL,
    count BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    resolved_at BIGINT,
    acknowledged_at BIGINT,
    unsent TEXT,
    sends INTEGER NOT NULL,
    send_due BIGINT,
    send_error TEXT
);
CREATE UNIQUE INDEX notices_open ON notices (kind, subject) WHERE resolved_at IS NULL;
CREATE INDEX notices_unsent ON notices (send_due) WHERE send_due IS NOT NULL;
CREATE TABLE source_activity (
    source TEXT NOT NULL,
    last_event_at BIGINT NOT NULL,
    PRIMARY KEY (source)
);
CREATE TABLE replays (
    lane INTEGER NOT NULL, -- sqlite
    lane BIGINT NOT NULL, -- postgresql
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    version BIGINT NOT NULL,
    request TEXT NOT NULL,
    starts TEXT NOT NULL,
    ends TEXT NOT NULL,
    places BLOB,
    state TEXT NOT NULL,
    rate FLOAT,
    total BIGINT,
    paused_at BIGINT,
    ended_at BIGINT,
    PRIMARY KEY (lane)
);
CREATE TABLE replay_changes (
    id INTEGER NOT NULL,
    next BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE dead_letter_actions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    dead_letters TEXT NOT NULL
);
CREATE TABLE accounts (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    role TEXT NOT NULL,
    password_hash TEXT,
    invite_digest BLOB,
    invite_until BIGINT,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT,
    disabled_at BIGINT
);
CREATE UNIQUE INDEX accounts_name ON accounts (name_key);
CREATE TABLE sessions (
    digest BLOB NOT NULL,
    account BIGINT,
    admin_token BLOB,
    opened_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX sessions_account ON sessions (account);
CREATE TABLE tokens (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    digest BLOB NOT NULL,
    hint TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT
);
CREATE UNIQUE INDEX tokens_name ON tokens (name);
CREATE UNIQUE INDEX tokens_digest ON tokens (digest);
CREATE TABLE audit_log (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    version BIGINT,
    changes TEXT NOT NULL,
    address TEXT NOT NULL,
    request_id TEXT NOT NULL,
    actor_kind TEXT,
    count BIGINT,
    last_at BIGINT
);
CREATE INDEX audit_log_actor ON audit_log (actor, id);
CREATE INDEX audit_log_action ON audit_log (action, id);
CREATE INDEX audit_log_target ON audit_log (target, id);
CREATE TABLE idempotency_keys (
    digest BLOB NOT NULL,
    at BIGINT NOT NULL,
    request BLOB NOT NULL,
    answer BLOB,
    PRIMARY KEY (digest)
);
CREATE INDEX idempotency_keys_at ON idempotency_keys (at);
