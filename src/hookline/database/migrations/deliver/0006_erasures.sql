-- What was erased of people whose data was to go, and which of those erasures are done.

CREATE TABLE erasures (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    retries BIGINT NOT NULL,
    dead_letters BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    done_at BIGINT,
    PRIMARY KEY (request, asked_at, round)
);
