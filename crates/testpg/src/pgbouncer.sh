# pgbouncer.sh: a PgBouncer, for keeper.sh. Arguments: the program, its settings.
program=$1
settings=$2
process=

create() {
    mkdir "$data"
}

# A child of ours with its log as its only open file. It logs `process up` once it listens; one that cannot listen ends.
start() {
    printf '%s\n' "$settings" "listen_port = $1" >"$data/pgbouncer.ini"
    (cd "$data" && exec "$program" pgbouncer.ini) >"$log" 2>&1 &
    process=$!
    tries=0
    until grep -q 'process up' "$log"; do
        tries=$((tries + 1))
        if [ $tries -gt 1200 ] || ! kill -0 "$process"; then
            finish
            return 1
        fi
        sleep 0.05
    done
}

# As a crash: connections are cut.
stop() {
    [ -n "$process" ] && finish
}

finish() {
    if [ -n "$process" ]; then
        kill -9 "$process"
        wait "$process"
        process=
    fi
}

