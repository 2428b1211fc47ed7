-- Functions of SQLite that the rooms' statements use and PostgreSQL lacks. Made in each schema, beside its tables.
CREATE FUNCTION json_extract(document TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS
$$ SELECT CAST(document AS json) #>> string_to_array(substr(path, 3), '.') $$;
CREATE FUNCTION json_each(document TEXT) RETURNS TABLE (key INTEGER, value TEXT) LANGUAGE sql IMMUTABLE AS
$$ SELECT CAST(number - 1 AS INTEGER), text FROM json_array_elements_text(CAST(document AS json)) WITH ORDINALITY AS each (text, number) $$;
CREATE FUNCTION strftime(format TEXT, seconds BIGINT, modifier TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS
$$ SELECT to_char(
    to_timestamp(seconds) AT TIME ZONE 'UTC',
    replace(replace(replace(format, '%Y', 'YYYY'), '%m', 'MM'), '%d', 'DD')
) $$;
