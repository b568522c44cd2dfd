#!/bin/sh
# demo - what `make demo` does: drop the bench night into a spool with cp, be its spooler until it is empty, show what happened.
# Expects .venv (see .ci/venv).  Where another spooler already owns the spool it leaves the work to that one and watches.
set -u
umask 022  # in a checkout made with umask 002 cp would drop files that a group may write to, and those are refused
cd "$(dirname "$0")/../../.." || exit
spool=${1:-spool}
night=jobspec/examples/bench-night
python=.venv/bin/python

.venv/bin/spoold init "$spool" || exit
if [ -e "$spool/PAUSED" ]; then
    echo "$spool is paused: $(cat "$spool/PAUSED")"
    echo "Nothing would start.  \`rm $spool/PAUSED\`, then \`make demo\` again."
    exit 75
fi
others=$(ls "$spool/incoming" "$spool/ready" "$spool/running" | grep -c '\.toml$')
since=$(date +%s)
files=$("$python" "$night/fit.py" "$spool") || exit
if [ -n "$files" ]; then
    [ "$others" -eq 0 ] || echo "$spool holds $others more of your jobs: they run too."
    echo "$files" | while IFS= read -r file; do
        echo "cp ${file#"$PWD"/} $spool/incoming/"
        cp "$file" "$spool/incoming/" || exit
    done || exit
fi
echo
while :; do
    echo "spoold --spool $spool run --until-empty"
    .venv/bin/spoold --spool "$spool" run --until-empty
    code=$?
    echo
    [ "$code" -eq 75 ] || break
    echo "A spooler runs on $spool already: it does the work, this only watches.  (Ctrl-C ends the watching, not the work.)"
    "$python" "$night/follow.py" "$spool"
    code=$?
    echo
    [ "$code" -eq 69 ] || break
    echo "That spooler has ended and jobs are left: this one goes on with them."
done
if [ "$code" -ne 0 ]; then
    echo "The spooler ended with exit code $code.  What is queued stays queued: \`make demo\` goes on with it."
    exit "$code"
fi
exec "$python" "$night/picture.py" "$spool" --since "$since"
