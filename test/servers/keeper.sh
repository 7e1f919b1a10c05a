#!/bin/sh
# keeper.sh DIR SIGNAL COMMAND…: runs the command until our standard input closes, which is when the test process is
# gone, however it went. Then it ends the server with SIGNAL, or with force, and removes DIR. The server's process id
# is in DIR/pid, what it says in DIR/log.
dir=$1 signal=$2
shift 2
trap : INT TERM HUP
setpriv --pdeathsig KILL -- "$@" </dev/null >"$dir/log" 2>&1 &
server=$!
echo $server >"$dir/pid.new" && mv "$dir/pid.new" "$dir/pid"
cat >/dev/null
kill -s "$signal" $server 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  kill -0 $server 2>/dev/null || break
  sleep 0.1
done
kill -s KILL $server 2>/dev/null
wait $server
rm -rf "$dir"
