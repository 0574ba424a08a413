# cluster.sh: a PostgreSQL cluster, for keeper.sh. Arguments: folder of the server programs, settings.
bin=$1
settings=$2

create() {
    "$bin/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale --no-sync &&
        printf '%s\n' "$settings" >>"$data/postgresql.conf"
}

# The server has its log file as its only open file, so a process that waits for the end of our output does not wait for it.
start() {
    : >"$log"
    "$bin/pg_ctl" -D "$data" -l "$log" -o "-p $1" -w -t 120 start
}

stop() {
    "$bin/pg_ctl" -D "$data" -m immediate -w -t 60 stop
}

stop_fast() {
    "$bin/pg_ctl" -D "$data" -m fast -w -t 60 stop
}

finish() {
    if [ -f "$data/postmaster.pid" ]; then
        stop || kill -9 "$(head -n 1 "$data/postmaster.pid")"
    fi
}

