-- What became of an event is its status.

ALTER TABLE dead_letters RENAME COLUMN fate TO status;
ALTER TABLE ranges RENAME COLUMN fate TO status;
ALTER TABLE letter_actions RENAME TO dead_letter_actions;
ALTER INDEX letter_actions_pkey RENAME TO dead_letter_actions_pkey; -- postgresql
