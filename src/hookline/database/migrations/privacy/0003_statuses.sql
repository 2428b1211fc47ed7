-- What became of a deletion request at a destination is its status.

ALTER TABLE deletion_receipts RENAME COLUMN fate TO status;
