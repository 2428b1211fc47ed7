-- What a destination said that it erased, as evidence.

ALTER TABLE deletion_receipts ADD COLUMN remark TEXT;
