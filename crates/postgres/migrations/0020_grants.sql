-- 0020_grants.sql: who submits need not be able to delete jobs. take_back deletes only those that have ended before, and does
-- so with the rights of its owner.
alter function turnwise.take_back(uuid[]) security definer;
