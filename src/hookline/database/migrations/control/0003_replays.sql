-- Replays, and dead letters that are to be discarded.

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
CREATE TABLE letter_actions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    author TEXT NOT NULL,
    letters TEXT NOT NULL
);
