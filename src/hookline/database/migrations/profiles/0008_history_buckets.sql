-- The history in rows of many persons: an entry says whose it is, and a row has those of a bucket of persons.

ALTER TABLE chunks ADD COLUMN shift INTEGER DEFAULT '0' NOT NULL;
ALTER TABLE history RENAME TO history_of_persons; -- sqlite
DROP TABLE history; -- postgresql
CREATE TABLE history (
    feature INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    bucket BIGINT NOT NULL,
    entries BLOB NOT NULL,
    entry_values BLOB,
    PRIMARY KEY (feature, chunk, bucket)
) WITHOUT ROWID;
