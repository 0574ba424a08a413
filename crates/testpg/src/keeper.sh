# keeper.sh: owns one server from its first file to its last. cluster.sh or pgbouncer.sh stands before it and defines how that
# server is created, started, stopped and finished.
# One command a line on standard input (create | put FILE | start PORT | stop | stop_fast); each is answered by `ok`, or by `failed`,
# the log, and `end`. The lines after `put`, up to one with a single full stop, become a file in the data folder. The end of
# the input is the order to remove everything: the kernel closes the pipe however the process at its other end dies, kill -9
# included. Commands run one after the other, so a server whose parent dies half way through `create` or `start` is first
# finished and then removed; nothing races with it.

# Ctrl-C and a test runner's TERM are for the parent; a closed pipe must not stop us before the clean-up.
trap '' INT TERM HUP PIPE
umask 077

# A private TMPDIR of root is closed to the user we run as.
folder=$(mktemp -d "${TMPDIR:-/tmp}/turnwise-testpg.XXXXXX" 2>/dev/null) ||
    folder=$(mktemp -d /tmp/turnwise-testpg.XXXXXX) || exit 1
data=$folder/data
log=$folder/log
output=$folder/output

put() {
    while IFS= read -r line && [ "$line" != . ]; do
        printf '%s\n' "$line"
    done >"$data/$1"
}

while read -r word port; do
    if [ "$word" = put ]; then
        put "$port" 2>"$output"
    else case $word in
        create) create ;;
        start) start "$port" ;;
        stop) stop ;;
        stop_fast) stop_fast ;;
        *) false ;;
    esac </dev/null >"$output" 2>&1; fi
    status=$?
    # When the parent is gone no process reads the answer; that is not an error.
    if [ $status -eq 0 ]; then
        echo ok
    else
        echo failed
        cat "$output" "$log"
        echo
        echo end
    fi 2>/dev/null
done

finish </dev/null >/dev/null 2>&1
# A test that lost its server has failed by now; the reason is in the log.
if [ -n "${perished-}" ]; then
    echo "the server had ended by itself (exit status $perished); the end of its log:"
    tail -n 100 "$log"
fi >&2 2>/dev/null
rm -rf "$folder"
