-- Which filters decided about a lane's events, and how many events each source sent per day.

CREATE TABLE lane_filters (
    id INTEGER NOT NULL, -- sqlite
    id BIGSERIAL NOT NULL, -- postgresql
    lane BIGINT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX lane_filters_lane ON lane_filters (lane, partition);
CREATE TABLE usage (
    day INTEGER NOT NULL,
    source TEXT NOT NULL,
    events BIGINT NOT NULL,
    filtered BIGINT NOT NULL,
    PRIMARY KEY (day, source)
);
