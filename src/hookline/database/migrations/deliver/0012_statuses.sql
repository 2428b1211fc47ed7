-- What became of an event is its status.

ALTER TABLE dead_letters RENAME COLUMN fate TO status;
ALTER TABLE ranges RENAME COLUMN fate TO status;
