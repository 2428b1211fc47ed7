-- How many people a definition had at the end of each sync, and what a preview is compared with.

ALTER TABLE syncs ADD COLUMN people BIGINT;
ALTER TABLE previews ADD COLUMN compared BIGINT;
ALTER TABLE previews ADD COLUMN kept BIGINT;
ALTER TABLE preview_sample ADD COLUMN side TEXT;
