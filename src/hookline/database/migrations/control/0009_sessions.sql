-- From where and with what somebody signed in; and why a session ended, for the page where one signs in again.

ALTER TABLE sessions ADD COLUMN address TEXT;
ALTER TABLE sessions ADD COLUMN agent TEXT;
CREATE TABLE ended_sessions (
    digest BLOB NOT NULL,
    reason TEXT NOT NULL,
    ended_at BIGINT NOT NULL,
    PRIMARY KEY (digest)
);
