-- Whether a node's queues are the ones it does not serve: those that other pools of its process serve.
alter table turnwise.node add column all_but boolean not null default false;
