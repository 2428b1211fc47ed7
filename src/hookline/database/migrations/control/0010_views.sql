-- Saved views: the address of a list with its filters, under a name, for whoever saved it or for everybody.

CREATE TABLE views (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    query TEXT NOT NULL,
    owner TEXT NOT NULL,
    shared INTEGER NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX views_path ON views (path);
