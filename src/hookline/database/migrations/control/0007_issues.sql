-- Issues: the failures of one cause at one destination, what people said of them, and how far attempts were read.

CREATE TABLE issues (
    id TEXT NOT NULL,
    destination TEXT NOT NULL,
    cause BIGINT,
    outcome TEXT NOT NULL,
    http_status INTEGER,
    message TEXT,
    state TEXT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    noted_at BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    openings INTEGER NOT NULL,
    attempts BIGINT NOT NULL,
    events BIGINT NOT NULL,
    attempts_before BIGINT NOT NULL,
    at_least INTEGER NOT NULL,
    resolved_at BIGINT,
    resolved_because TEXT,
    ignored_at BIGINT,
    ignored_by TEXT,
    note TEXT,
    note_by TEXT,
    note_at BIGINT,
    sample BIGINT,
    PRIMARY KEY (id)
);
CREATE INDEX issues_state ON issues (state, last_seen);
CREATE TABLE issue_hours (
    issue TEXT NOT NULL,
    at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (issue, at)
) WITHOUT ROWID;
CREATE TABLE issue_reader (
    id INTEGER NOT NULL,
    last_id BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
