-- Who was taken out because their data was to go, and which of those erasures are done.

CREATE TABLE erasures (
    request BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    round INTEGER NOT NULL,
    people BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    done_at BIGINT,
    PRIMARY KEY (request, asked_at, round)
);
