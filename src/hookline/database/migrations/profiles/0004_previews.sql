-- Previews, and which features are kept for them alone.

ALTER TABLE features ADD COLUMN purpose INTEGER DEFAULT '0' NOT NULL;
DROP INDEX features_what;
CREATE INDEX features_what ON features (type, name, condition, value);
CREATE TABLE previews (
    id TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    definition BLOB NOT NULL,
    state TEXT NOT NULL,
    progress FLOAT NOT NULL,
    people BIGINT,
    members BIGINT,
    detail TEXT,
    PRIMARY KEY (id)
) WITHOUT ROWID;
CREATE TABLE preview_sample (
    preview TEXT NOT NULL,
    person BIGINT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (preview, person)
) WITHOUT ROWID;
