# pgbouncer.sh: a PgBouncer, for keeper.sh. Arguments: the program, its settings.
program=$1
settings=$2
process=
# Not empty: it ended although nothing here stopped it, with this status (128 and more: by a signal).
perished=

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
            perished=
            return 1
        fi
        sleep 0.05
    done
}

# As a crash: connections are cut. One that has ended by itself cannot be stopped: that is an error, with its log.
stop() {
    [ -n "$process" ] && finish && [ -z "$perished" ]
}

finish() {
    if [ -n "$process" ]; then
        kill -9 "$process"
        wait "$process"
        status=$?
        # 137: it ended by our signal.
        [ $status -eq 137 ] || perished=$status
        process=
    fi
    return 0
}
