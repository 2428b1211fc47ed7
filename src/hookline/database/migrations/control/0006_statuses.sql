-- Replays and actions that are kept name the dead letters they mean by today's words.

UPDATE replays SET request = replace(replace(request, '"fate":', '"status":'), '"outcome":"rejected"', '"outcome":"refused"');
UPDATE letter_actions
    SET letters = replace(replace(letters, '"fate":', '"status":'), '"outcome":"rejected"', '"outcome":"refused"');
