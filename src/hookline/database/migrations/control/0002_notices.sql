-- Notices about the system itself, and when each source was last heard.

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
