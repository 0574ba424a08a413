-- 0041_keys.sql: history and change have primary keys, in the place of an index each that began with the same columns. A table without one
-- refuses updates and deletes as soon as a publication names it: then no node prunes, settles or dispatches. They are explained in schema.sql.
alter table turnwise.history add primary key (id, state, ended_at);
drop index turnwise.history_id;
alter table turnwise.change add primary key (xact, seq);
drop index turnwise.change_xact;
-- As they are called in a database that never had the other index.
alter index turnwise.history_success_id_idx1 rename to history_success_id_idx;
alter index turnwise.history_success_rest_id_idx1 rename to history_success_rest_id_idx;
alter index turnwise.history_failed_id_idx1 rename to history_failed_id_idx;
alter index turnwise.history_failed_rest_id_idx1 rename to history_failed_rest_id_idx;
alter index turnwise.history_cancelled_id_idx1 rename to history_cancelled_id_idx;
alter index turnwise.history_cancelled_rest_id_idx1 rename to history_cancelled_rest_id_idx;
