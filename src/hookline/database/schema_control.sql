-- Written by `python -m hookline.database.migrate --write-schema`; change the migrations instead.
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE control_ready (
	id INTEGER NOT NULL, 
	boot_id TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE lane_numbers (
	id INTEGER NOT NULL, 
	next BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE objects (
	kind TEXT NOT NULL, 
	id TEXT NOT NULL, 
	since BIGINT NOT NULL, 
	until BIGINT, 
	document TEXT NOT NULL, 
	owner TEXT, 
	lane TEXT, 
	PRIMARY KEY (kind, id, since)
);
CREATE UNIQUE INDEX objects_in_force ON objects (kind, id) WHERE until IS NULL;
CREATE INDEX objects_since ON objects (since);
CREATE INDEX objects_until ON objects (until) WHERE until IS NOT NULL;
CREATE TABLE versions (
	version INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	author TEXT NOT NULL, 
	ends TEXT NOT NULL, 
	PRIMARY KEY (version)
);
CREATE TABLE notices (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	kind TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	severity TEXT NOT NULL, 
	message TEXT NOT NULL, 
	next_step TEXT NOT NULL, 
	count BIGINT NOT NULL, 
	opened_at BIGINT NOT NULL, 
	last_seen_at BIGINT NOT NULL, 
	resolved_at BIGINT, 
	acknowledged_at BIGINT, 
	unsent TEXT, 
	sends INTEGER NOT NULL, 
	send_due BIGINT, 
	send_error TEXT
);
CREATE UNIQUE INDEX notices_open ON notices (kind, subject) WHERE resolved_at IS NULL;
CREATE INDEX notices_unsent ON notices (send_due) WHERE send_due IS NOT NULL;
CREATE TABLE source_activity (
	source TEXT NOT NULL, 
	last_event_at BIGINT NOT NULL, 
	PRIMARY KEY (source)
);
CREATE TABLE replays (
	lane INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	author TEXT NOT NULL, 
	version BIGINT NOT NULL, 
	request TEXT NOT NULL, 
	starts TEXT NOT NULL, 
	ends TEXT NOT NULL, 
	places BLOB, 
	state TEXT NOT NULL, 
	rate FLOAT, 
	total BIGINT, 
	paused_at BIGINT, 
	ended_at BIGINT, 
	PRIMARY KEY (lane)
);
CREATE TABLE replay_changes (
	id INTEGER NOT NULL, 
	next BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE letter_actions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at BIGINT NOT NULL, 
	author TEXT NOT NULL, 
	letters TEXT NOT NULL
);
INSERT INTO alembic_version (version_num) VALUES ('control_0003');
