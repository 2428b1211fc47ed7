-- People, their sessions, API tokens, the audit log, and answers kept for repeated requests.

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
    request_id TEXT NOT NULL
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
