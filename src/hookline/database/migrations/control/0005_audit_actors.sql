-- What kind of actor an entry of the audit log is of, and counts of what strangers were refused.

ALTER TABLE audit_log ADD COLUMN actor_kind TEXT;
ALTER TABLE audit_log ADD COLUMN count BIGINT;
ALTER TABLE audit_log ADD COLUMN last_at BIGINT;
