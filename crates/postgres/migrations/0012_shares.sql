-- Jobs a node is given at once, at most; null where it did not say.
alter table turnwise.node add column batch_size bigint;
