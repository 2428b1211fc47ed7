-- What became of a deletion request at a destination is its status.

ALTER TABLE deletion_receipts RENAME COLUMN fate TO status;
UPDATE deletion_receipts SET status = 'not_delivered' WHERE status = 'given_up';
