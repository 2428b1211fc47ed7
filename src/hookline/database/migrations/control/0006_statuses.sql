-- Replays and actions that are kept name the dead letters they mean by today's words.

ALTER TABLE letter_actions RENAME TO dead_letter_actions;
ALTER INDEX letter_actions_pkey RENAME TO dead_letter_actions_pkey; -- postgresql
ALTER SEQUENCE letter_actions_id_seq RENAME TO dead_letter_actions_id_seq; -- postgresql
ALTER TABLE dead_letter_actions RENAME COLUMN letters TO dead_letters;
UPDATE replays
    SET request = replace(replace(request, '"fate":', '"status":'), '"outcome":"rejected"', '"outcome":"refused"');
UPDATE replays SET request = replace(request, '"letters":', '"deadLetters":');
UPDATE dead_letter_actions
    SET dead_letters = replace(replace(dead_letters, '"fate":', '"status":'), '"outcome":"rejected"', '"outcome":"refused"');
