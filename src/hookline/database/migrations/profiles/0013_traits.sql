-- As which trait a definition is sent: under a new name destinations know nothing of anybody.

ALTER TABLE definitions ADD COLUMN trait TEXT;
