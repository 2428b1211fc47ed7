-- What syncs of definitions that were deleted since have sent something about whom: it is where it was sent.

CREATE TABLE sent_before (
    person BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (person, kind, name)
) WITHOUT ROWID;
