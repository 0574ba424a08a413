-- Which jobs of a settled batch failed. A row of an older process has none of it: not known to have failed.
alter table turnwise.change add column failed boolean[] not null default '{}';
