-- New traits of people in chunks, until they are folded into the persons' rows.

CREATE TABLE new_traits (
    chunk INTEGER NOT NULL,
    person BIGINT NOT NULL,
    traits BLOB NOT NULL,
    PRIMARY KEY (chunk, person)
) WITHOUT ROWID;
CREATE TABLE trait_chunks (
    chunk INTEGER NOT NULL,
    people INTEGER NOT NULL,
    PRIMARY KEY (chunk)
);
