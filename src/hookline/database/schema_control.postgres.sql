-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
-- Running upgrade  -> control_0001
CREATE TABLE control_ready (
    id INTEGER NOT NULL,
    boot_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE lane_numbers (
    id INTEGER NOT NULL,
    next BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE objects (
    kind TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT,
    document TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C",
    lane TEXT COLLATE "C",
    PRIMARY KEY (kind, id, since)
);
CREATE UNIQUE INDEX objects_in_force ON objects (kind, id) WHERE until IS NULL;
CREATE INDEX objects_since ON objects (since);
CREATE INDEX objects_until ON objects (until) WHERE until IS NOT NULL;
CREATE TABLE versions (
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    ends TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (version)
);
INSERT INTO alembic_version (version_num) VALUES ('control_0001') RETURNING alembic_version.version_num;
-- Running upgrade control_0001 -> control_0002
CREATE TABLE notices (
    id BIGSERIAL NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    severity TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    next_step TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    resolved_at BIGINT,
    acknowledged_at BIGINT,
    unsent TEXT COLLATE "C",
    sends INTEGER NOT NULL,
    send_due BIGINT,
    send_error TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX notices_open ON notices (kind, subject) WHERE resolved_at IS NULL;
CREATE INDEX notices_unsent ON notices (send_due) WHERE send_due IS NOT NULL;
CREATE TABLE source_activity (
    source TEXT COLLATE "C" NOT NULL,
    last_event_at BIGINT NOT NULL,
    PRIMARY KEY (source)
);
UPDATE alembic_version SET version_num='control_0002' WHERE alembic_version.version_num = 'control_0001';
-- Running upgrade control_0002 -> control_0003
CREATE TABLE replays (
    lane BIGINT NOT NULL,
    at BIGINT NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    request TEXT COLLATE "C" NOT NULL,
    starts TEXT COLLATE "C" NOT NULL,
    ends TEXT COLLATE "C" NOT NULL,
    places BYTEA,
    state TEXT COLLATE "C" NOT NULL,
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
CREATE TABLE letter_actions (
    id BIGSERIAL NOT NULL,
    at BIGINT NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    letters TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);
UPDATE alembic_version SET version_num='control_0003' WHERE alembic_version.version_num = 'control_0002';
-- Running upgrade control_0003 -> control_0004
CREATE TABLE accounts (
    id BIGSERIAL NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    password_hash TEXT COLLATE "C",
    invite_digest BYTEA,
    invite_until BIGINT,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT,
    disabled_at BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX accounts_name ON accounts (name_key);
CREATE TABLE sessions (
    digest BYTEA NOT NULL,
    account BIGINT,
    admin_token BYTEA,
    opened_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
CREATE INDEX sessions_account ON sessions (account);
CREATE TABLE tokens (
    id BIGSERIAL NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL,
    hint TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX tokens_name ON tokens (name);
CREATE UNIQUE INDEX tokens_digest ON tokens (digest);
CREATE TABLE audit_log (
    id BIGSERIAL NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    version BIGINT,
    changes TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX audit_log_actor ON audit_log (actor, id);
CREATE INDEX audit_log_action ON audit_log (action, id);
CREATE INDEX audit_log_target ON audit_log (target, id);
CREATE TABLE idempotency_keys (
    digest BYTEA NOT NULL,
    at BIGINT NOT NULL,
    request BYTEA NOT NULL,
    answer BYTEA,
    PRIMARY KEY (digest)
);
CREATE INDEX idempotency_keys_at ON idempotency_keys (at);
UPDATE alembic_version SET version_num='control_0004' WHERE alembic_version.version_num = 'control_0003';
-- Running upgrade control_0004 -> control_0005
ALTER TABLE audit_log ADD COLUMN actor_kind TEXT COLLATE "C";
ALTER TABLE audit_log ADD COLUMN count BIGINT;
ALTER TABLE audit_log ADD COLUMN last_at BIGINT;
UPDATE alembic_version SET version_num='control_0005' WHERE alembic_version.version_num = 'control_0004';
