-- When a dead letter's event was tried first, by the service's own clock.

ALTER TABLE dead_letters ADD COLUMN first_at BIGINT;
