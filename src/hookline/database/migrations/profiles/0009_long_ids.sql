-- Keys of a bounded length: long ids stand in them by their hash, and features by what is short of them.

DROP INDEX features_what;
CREATE INDEX features_what ON features (type, name);
CREATE TABLE long_ids (
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (key)
) WITHOUT ROWID;
