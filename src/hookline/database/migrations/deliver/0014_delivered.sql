-- How many events each destination got at first hand, by partition, so that no two processes wait for a row.

CREATE TABLE delivered (
    destination TEXT NOT NULL,
    partition INTEGER NOT NULL,
    delivered BIGINT NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (destination, partition)
);
