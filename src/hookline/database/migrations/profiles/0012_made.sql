-- In which version of the connections a definition was made: in the messageIds of its syncs, but for one under way.

ALTER TABLE definitions ADD COLUMN made BIGINT;
