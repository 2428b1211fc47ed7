-- The search for people: what of a person's traits can be searched for, the terms of it, and how far it is built.

CREATE TABLE search_terms (
    term TEXT NOT NULL,
    person BIGINT NOT NULL,
    PRIMARY KEY (term, person)
) WITHOUT ROWID;
CREATE TABLE search_people (
    person INTEGER NOT NULL, -- sqlite
    person BIGINT NOT NULL, -- postgresql
    traits BLOB NOT NULL,
    PRIMARY KEY (person)
);
CREATE TABLE search_build (
    made_by TEXT NOT NULL,
    next_person BIGINT NOT NULL,
    end_person BIGINT NOT NULL,
    PRIMARY KEY (made_by)
);
CREATE INDEX persons_identified ON persons (first_seen, id) WHERE user_id IS NOT NULL;
