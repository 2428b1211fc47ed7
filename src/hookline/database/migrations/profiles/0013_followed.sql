-- As which trait a definition is sent, and in which version of the connections it was followed last.

ALTER TABLE definitions ADD COLUMN trait TEXT;
ALTER TABLE definitions ADD COLUMN followed BIGINT;
