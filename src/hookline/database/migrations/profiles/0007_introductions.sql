-- Which destinations know what a definition tells, and those that are being told it.

ALTER TABLE definitions ADD COLUMN told TEXT;
CREATE TABLE introductions (
    definition INTEGER NOT NULL,
    destinations TEXT NOT NULL,
    at BIGINT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (definition)
);
