"""Calls of natscli, as its documentation and help show them: the same words are understood here.

Only parsing is checked, which needs no server; what commands do is tested in `tests/client/cli`.
"""

import shlex
from pathlib import Path

import click
import pytest

from jetspark.cli.main import main

CALLS = """
pub test hello
pub test hello --count 10 --sleep 100ms
pub test "Message {{Count}} @ {{Time}}" --count 10
pub test --count 10 "Message {{Count}}: {{ Random 10 100 }}"
pub ORDERS.new body -H 'Nats-Msg-Id:1' -J
pub ORDERS.new body --header K:V --header K2:V2 --reply back
pub test --force-stdin --send-on newline
pub test body --atomic --count 5 --quiet
publish test hello
pub test body --schedule-after 10m --schedule-dest other
pub test body --no-templates
stream find --empty
stream find --idle 10m --created 1d --consumers 2 --invert
stream find --subject 'orders.>' --replicas 1 --sourced --mirrored --names
stream query --cluster east --server-name 'n.*' --leader n1 --api-level 1
stream cluster step-down ORDERS --preferred n1 --force
stream cluster peer-remove ORDERS n1 --force
stream c sd ORDERS
consumer cluster step-down ORDERS NEW --preferred n1 -f
consumer cluster elect ORDERS NEW
server cluster step-down --cluster east --tags ssd --host n1 --force
server raft peer-remove n1 -f
stream gaps ORDERS --force --no-progress
stream gaps ORDERS -f --json
stream graph ORDERS
consumer find ORDERS --pull --bound --waiting 1 --ack-pending 10 --pending 100
consumer query ORDERS --push --idle 1h --created 1d --replicas 1 --leader n1 --pinned --invert
consumer graph ORDERS NEW
account report connections --sort in-bytes --top 10 --reverse
account report conns --state closed --closed-reason slow --username bob --subject 'a.>'
account report statistics
account rep statsz
account backup /tmp/backup --force --check --no-consumers -w
account restore /tmp --cluster east --tag ssd
server check meta --expect 3 --lag-critical 10 --seen-critical 5s
server check raft --expect 3 --lag-critical 10 --seen-critical 5s
server check server --name n1 --cpu-warn 50 --cpu-critical 90 --mem-warn 100 --mem-critical 200
server check server --name n1 --conn-warn 10 --conn-critical 5 --subs-warn 1 --subs-critical 2
server check server --name n1 --uptime-warn 10m --uptime-critical 5m --auth-required
server check server --name n1 --tls-required --js-required --tls-cert-warn 7d --tls-cert-crit 1d
sub test
sub 'test.>' --queue group
sub test --count 10 --raw
sub 'ORDERS.>' --all
sub 'ORDERS.>' --new
sub 'ORDERS.>' --last
sub 'ORDERS.>' --last-per-subject
sub 'ORDERS.>' --since 1h
sub 'ORDERS.>' --start-sequence 10
sub --stream ORDERS --durable D
sub test --headers-only -t
sub test --subjects-only
sub test --wait 5s
sub test -I test.ignored --translate 'jq .'
sub test --dump /tmp
sub test --inbox
sub test -r -T --stream ORDERS
subscribe test
req cli.demo 'hello world'
req destination.subject "Content-Type:text/plain" -H X:y --raw
req srv body --replies 0 --timeout 2s
req srv body --replies 5 --reply-timeout 1s
req srv body --wait-for-empty
request srv body
reply cli.demo "default reply"
reply cli.weather.* --command "curl -s wttr.in/{{1}}?format=3"
reply echo --echo --queue q --sleep 10ms --count 3
stream add ORDERS --subjects 'ORDERS.*' --storage file --retention limits --ack
stream add ORDERS --config FILE
stream add ORDERS --subjects x --max-msgs=-1 --max-bytes=-1 --max-age=1y --max-msg-size=-1
stream add ORDERS --subjects x --discard=old --dupe-window 2m --replicas 3 --defaults
stream add ORDERS --subjects x --tag ssd --cluster east --compression s2 --first-sequence 10
stream add ORDERS --mirror OTHER --allow-mirror-direct
stream add ORDERS --source A --source B --description merged
stream add ORDERS --subjects x --validate
stream add ORDERS --subjects x --output FILE2
stream ls
stream ls -n -a
stream ls --subject ORDERS.new --json
stream info ORDERS
stream info ORDERS -j --state
stream state ORDERS
stream subjects ORDERS
stream subjects ORDERS 'ORDERS.*' --sort name -R --names
stream edit ORDERS --max-age 1d --dry-run
stream edit ORDERS --config FILE -f
stream edit ORDERS --no-allow-direct --no-republish --force
stream rm ORDERS -f
stream purge ORDERS --subject ORDERS.new --keep 10 -f
stream purge ORDERS --seq 100 --force --json
stream copy ORDERS ARCHIVE --subjects "ORDERS_ARCHIVE.*" --max-age 2y
stream cp ORDERS ARCHIVE
stream rmm ORDERS 1 -f
stream get ORDERS 1
stream get ORDERS -S ORDERS.new --json
stream get ORDERS 12345 --translate 'xxd'
stream view ORDERS
stream view ORDERS 25 --id 10 --raw
stream view ORDERS --since 1h --subject ORDERS.new
stream report
stream report --subject x -o -r
stream report -m -l --cluster c
stream report -n --dot FILE2
stream backup ORDERS DIR --check --no-consumers --no-progress
stream restore DIR --replicas 1 --config FILE
stream seal ORDERS -f
str ls
s info ORDERS
consumer add ORDERS NEW --filter ORDERS.received --ack explicit --pull --deliver all
consumer add ORDERS NEW --max-deliver=-1 --sample 100 --replay instant --wait 30s
consumer add ORDERS MONITOR --ack none --target monitor.ORDERS --deliver last --replay instant
consumer add ORDERS NEW --ephemeral --deliver 1h --headers-only --memory
consumer add ORDERS NEW --backoff linear --backoff-steps 5 --backoff-min 1s --backoff-max 1m
consumer add ORDERS NEW --max-pending 10 --max-waiting 5 --inactive-threshold 1h --defaults
consumer add ORDERS NEW --config FILE
consumer ls ORDERS
consumer ls ORDERS -n -j
consumer info ORDERS NEW
consumer state ORDERS NEW
consumer next ORDERS NEW
consumer next ORDERS NEW --ack --raw
consumer next ORDERS NEW --no-ack --count 10 --wait 1s
consumer next ORDERS NEW --nak
consumer next ORDERS NEW --term
consumer edit ORDERS NEW --wait 1m --dry-run
consumer copy ORDERS NEW OTHER --max-pending 5
consumer rm ORDERS NEW -f
consumer report ORDERS -r
consumer pause ORDERS NEW 1h -f
consumer resume ORDERS NEW -f
consumer reset ORDERS NEW --sequence 10 --force
consumer unpin ORDERS NEW GROUP -f
con ls ORDERS
kv add CONFIG
kv add CONFIG --history 5 --storage file --replicas 1 --ttl 1h --max-value-size 1MB
kv add CONFIG --max-bucket-size 1GB --compress --metadata a=b --tags ssd --cluster c1
kv new CONFIG --mirror OTHER --mirror-domain hub
kv add CONFIG --source A --source B --marker-ttl 1m
kv edit CONFIG --history 10
kv put CONFIG username bob
kv get CONFIG username
kv get CONFIG username --raw
kv get CONFIG username --revision 3
kv create CONFIG key value
kv create CONFIG key value --ttl 1h
kv update CONFIG key value 3
kv del CONFIG key
kv del CONFIG key -f
kv rm CONFIG --force
kv purge CONFIG key -f
kv history CONFIG key
kv revert CONFIG key 3 --force
kv info CONFIG
kv status CONFIG
kv watch CONFIG
kv watch CONFIG key --history --no-deletes
kv watch CONFIG key --updates
kv watch CONFIG --revision 10
kv ls
kv ls -n
kv ls CONFIG
kv ls CONFIG 'key.*' -v --display-value
kv compact CONFIG --force
object add FILES
obj add FILES --ttl 1h --replicas 1 --max-bucket-size 1GB --storage memory --compress
object edit FILES --description x
object put FILES FILE
object put FILES FILE --name other --description x -H A:b --no-progress -f
object put FILES --name x
object get FILES x
object get FILES x --output FILE2 --force
object get FILES x -O FILE2 --no-progress
object del FILES x -f
obj rm FILES --force
object info FILES
object info FILES x
object ls
object ls -n
object ls FILES
object seal FILES --force
object watch FILES
context add example --server nats://127.0.0.1:4222
context save example --server nats://127.0.0.1:4222 --description 'an example' --select
context create example --user u --password p
context ls
context ls --names
context ls --json
ctx info example
context show example --json
context select example
ctx switch example
context previous
ctx -
context unselect
context copy a b
context validate --connect
context rm example --force
account info
a nfo
rtt
rtt 10 --json
errors ls
errors ls 'stream.*found' http
errors lookup 10059
err find 10059
server check connection
server check connection --connect-warn 100ms --connect-critical 1s --rtt-warn 1s
server check conn --format json
server check --format prometheus jetstream --outfile FILE2
server check stream --stream ORDERS --lag-critical 100 --seen-critical 1m --peer-expect 3
server check stream --stream ORDERS --msgs-warn 10 --msgs-critical 5 --min-sources 1
server check consumer --stream ORDERS --consumer NEW --outstanding-ack-critical 10
server check consumer --stream ORDERS --consumer NEW --unprocessed-critical 10 --pinned
server check message --stream ORDERS --subject ORDERS.new --age-warn 1h --age-critical 2h
server check js --mem-warn 50 --mem-critical 80 --no-replicas
server check kv --bucket CONFIG --key username --values-warn 10 --values-critical 20
server check request --subject svc --payload x --match-payload ok --response-critical 1s
server check credential --credential FILE --validity-warn 1d --validity-critical 1h
server ls
server list 3 --sort conns --reverse --json
server ping 3
server info
srv info n1
server report connections --sort in-msgs --top 10 --account A
server report conns --username u --state closed
server report jsz --account A
server report accounts A
server report health
events
events --all --short
events --js-advisory --filter stream
--server nats://127.0.0.1:4222 stream ls
-s 127.0.0.1 --user u --password p stream ls
--context other --timeout 10s stream ls
--no-context --tlsfirst --connection-name n stream ls
stream ls --js-domain hub --js-api-prefix '$JS.hub.API' --inbox-prefix _I
"""


def parsed(command: click.Command, words: list[str], parent: click.Context | None) -> None:
    """Parse a call as click does, down to the last command, without running it."""
    name = words[0] if parent is None else command.name
    with command.make_context(name, list(words[1:]), parent=parent) as context:
        if isinstance(command, click.Group):
            _, found, rest = command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
            assert found is not None
            parsed(found, ["", *rest], context)


@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_calls_of_natscli_are_understood(call: str, tmp_path: Path) -> None:
    file = tmp_path / "FILE"
    file.write_text("{}")
    places = {"FILE": str(file), "FILE2": str(tmp_path / "new"), "DIR": str(tmp_path)}
    words = [places.get(word, word) for word in shlex.split(call)]

    parsed(main, ["jetspark", *words], None)
