-- Events that failed or expired are those that were not delivered.

ALTER TABLE total_series RENAME COLUMN given_up TO not_delivered;
ALTER TABLE destination_series RENAME COLUMN given_up TO not_delivered;
