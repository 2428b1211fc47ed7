-- The cause of a failed attempt and of a dead letter, as a number: by it they are gathered into issues.

ALTER TABLE attempts ADD COLUMN cause BIGINT;
ALTER TABLE dead_letters ADD COLUMN cause BIGINT;
CREATE INDEX dead_letters_cause ON dead_letters (destination, cause, status);
