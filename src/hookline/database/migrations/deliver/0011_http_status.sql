-- An attempt's HTTP status, beside the status of the delivery; and a receiver refuses, it does not reject.

ALTER TABLE attempts RENAME COLUMN status TO http_status;
ALTER TABLE dead_letters RENAME COLUMN status TO http_status;
UPDATE attempts SET outcome = 'refused' WHERE outcome = 'rejected';
UPDATE dead_letters SET outcome = 'refused' WHERE outcome = 'rejected';
