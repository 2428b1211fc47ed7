-- The head of a receiver's answer to a failed attempt, and what finds the attempts of one destination by time.

ALTER TABLE attempts ADD COLUMN head TEXT;
CREATE INDEX attempts_destination ON attempts (destination, at);
CREATE INDEX outcome_blocks_at ON outcome_blocks (at);
