-- Which deliver processes there are, and what each holds.

CREATE TABLE workers (
    worker TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (worker)
);
