-- once_write.sql: writes down a key, in place of an old one. Index: primary key.
insert into turnwise_once (caller, key, body, answers, at)
values (?1, ?2, ?3, ?4, ?5)
    on conflict (caller, key) do update set body = excluded.body, answers = excluded.answers, at = excluded.at
