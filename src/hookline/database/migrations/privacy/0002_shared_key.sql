-- The key of the hashes, where the database is PostgreSQL and machines share it.

CREATE TABLE privacy_key (
    id INTEGER NOT NULL, -- sqlite
    id SERIAL NOT NULL, -- postgresql
    key BLOB NOT NULL,
    PRIMARY KEY (id)
);
