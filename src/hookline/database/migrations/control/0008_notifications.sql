-- Since when a notice is so, and what notification rules have said of which notices, to whom, and how it went.

ALTER TABLE notices ADD COLUMN since BIGINT;
CREATE TABLE notification_outages (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    rule TEXT NOT NULL,
    token TEXT NOT NULL,
    opened_at BIGINT NOT NULL,
    ended_at BIGINT,
    said TEXT NOT NULL,
    said_at BIGINT,
    held INTEGER NOT NULL
);
CREATE TABLE notification_outage_notices (
    outage BIGINT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    severity TEXT NOT NULL,
    message TEXT NOT NULL,
    next_step TEXT NOT NULL,
    count BIGINT NOT NULL,
    since BIGINT NOT NULL,
    gone_at BIGINT,
    PRIMARY KEY (outage, kind, subject)
);
CREATE TABLE notification_messages (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    rule TEXT NOT NULL,
    outage BIGINT,
    what TEXT NOT NULL,
    channel TEXT NOT NULL,
    channel_kind TEXT NOT NULL,
    shown TEXT NOT NULL,
    content TEXT NOT NULL,
    at BIGINT NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    due BIGINT,
    sent_at BIGINT,
    error TEXT
);
CREATE INDEX notification_messages_due ON notification_messages (due) WHERE due IS NOT NULL;
CREATE INDEX notification_messages_rule ON notification_messages (rule, id);
CREATE TABLE notification_cursor (
    id INTEGER NOT NULL,
    notice BIGINT NOT NULL,
    PRIMARY KEY (id)
);
