-- What replays have come to, the event's name in a dead letter, and how far discards are carried out.

DELETE FROM outcome_blocks;
ALTER TABLE dead_letters ADD COLUMN event TEXT;
CREATE TABLE replays (
    lane INTEGER NOT NULL, -- sqlite
    lane BIGINT NOT NULL, -- postgresql
    state TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    reason TEXT,
    PRIMARY KEY (lane)
);
CREATE TABLE letter_actions (
    id INTEGER NOT NULL,
    last BIGINT NOT NULL,
    discarded BIGINT NOT NULL,
    PRIMARY KEY (id)
);
