-- ticket_make.sql: keeps a ticket unless it is there. Locks: its row. Index: primary key.
insert into turnwise.ticket (hash, token, granted, origins, until) values ($1, $2, $3, $4, $5) on conflict (hash) do nothing
