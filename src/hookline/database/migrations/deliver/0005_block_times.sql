-- Since when the results of a block are, so that those of a time are found; unknown for older blocks.

ALTER TABLE outcome_blocks ADD COLUMN first_at BIGINT;
DROP INDEX outcome_blocks_at;
CREATE INDEX outcome_blocks_at ON outcome_blocks (at, first_at);
