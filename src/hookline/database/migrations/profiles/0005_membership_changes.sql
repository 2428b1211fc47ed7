-- Who came to and went from which audience before what holds now, and by which sync what holds now came about.

ALTER TABLE members ADD COLUMN since_sync INTEGER;
CREATE TABLE membership_changes (
    definition INTEGER NOT NULL,
    person BIGINT NOT NULL,
    at BIGINT NOT NULL,
    member INTEGER NOT NULL,
    sync INTEGER,
    PRIMARY KEY (definition, person, at)
) WITHOUT ROWID;
