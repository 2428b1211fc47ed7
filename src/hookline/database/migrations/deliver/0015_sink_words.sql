-- What sinks say: of an event that they accepted, and of themselves, such as that a table has a new column.

CREATE TABLE remarks (
    lane BIGINT NOT NULL,
    partition INTEGER NOT NULL,
    "offset" BIGINT NOT NULL,
    remark TEXT NOT NULL,
    PRIMARY KEY (lane, partition, "offset")
);
CREATE INDEX remarks_offset ON remarks (partition, "offset");
CREATE TABLE sink_news (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    at BIGINT NOT NULL,
    sentence TEXT NOT NULL
);
