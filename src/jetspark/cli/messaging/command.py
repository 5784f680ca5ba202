"""`jetspark pub`, `sub`, `req`, `reply`: the command line."""

import click

from jetspark.cli.commands import remote_command
from jetspark.cli.quantities import COUNT, DURATION, HEADER, MOMENT, SEQUENCE, Whole

_subject = click.argument("subject")
_body = click.argument("body", required=False)
_headers = click.option(
    "-H", "--header", "headers", type=HEADER, multiple=True, metavar="K:V",
    help="Header; may be repeated.",
)  # fmt: skip
_stdin = click.option(
    "--force-stdin", is_flag=True, help="Read standard input even if it is a terminal."
)
_send_on = click.option(
    "--send-on", type=click.Choice(("eof", "newline")), default="eof", show_default=True,
    help="Standard input is one message, or each line is one.",
)  # fmt: skip
_templates = click.option(
    "--templates/--no-templates", default=True, show_default=True,
    help="Replace {{Count}}, {{Time}} and so on.",
)  # fmt: skip
_translate = click.option(
    "--translate", default="", metavar="COMMAND",
    help="Show what this command makes of a payload, which it gets as standard input.",
)  # fmt: skip
_times = click.option(
    "--count", type=Whole(1), default=1, show_default=True, help="Send it this many times."
)


@remote_command("pub", "jetspark.cli.messaging.publishing:publish", aliases=("publish",))
@_subject
@_body
@click.option("--reply", default="", metavar="SUBJECT", help="Where replies should go.")
@_headers
@_times
@click.option("--sleep", type=DURATION, default="0", help="Pause between messages: 100ms.")
@click.option("-J", "--jetstream", is_flag=True, help="Wait for the stream to store it.")
@click.option(
    "--atomic", is_flag=True,
    help="Store all messages or none: one atomic batch. Implies --jetstream.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Report nothing but errors.")
@_send_on
@_templates
@_stdin
@click.option("--schedule-at", type=MOMENT, help="Publish it at this time (ADR-51).")
@click.option("--schedule-after", type=DURATION, help="Publish it after this time: 10m.")
@click.option("--schedule-every", type=DURATION, help="Publish it again and again: 1h.")
@click.option("--schedule-cron", default="", help="Publish it by a cron expression.")
@click.option("--schedule-dest", default="", metavar="SUBJECT", help="Subject to publish under.")
@click.option(
    "--schedule-source", default="", metavar="SUBJECT",
    help="Publish the last message of this subject instead of BODY.",
)  # fmt: skip
@click.option("--schedule-ttl", type=DURATION, help="TTL of what is published.")
def pub() -> None:
    """Publish messages.

    Without BODY the payload is read from standard input. In SUBJECT, BODY and header values
    {{Count}}, {{ID}}, {{Time}}, {{TimeStamp}}, {{Unix}}, {{UnixNano}} and {{Random 10 100}} are
    replaced for each message.

    \b
    Examples:
      jetspark pub greetings hello
      jetspark pub orders.new '{"id": "{{ID}}"}' --jetstream --count 10
      jetspark pub orders.new -H Nats-Msg-Id:42 --jetstream < order.json
      tail -f app.log | jetspark pub logs.app --send-on newline
      jetspark pub orders.new 'item {{Count}}' --atomic --count 3
    """


@remote_command(
    "sub", "jetspark.cli.messaging.receiving:subscribe", aliases=("subscribe",), endless=True
)
@click.argument("subjects", nargs=-1, metavar="SUBJECT...")
@click.option("--queue", default="", help="Queue group: its members share the messages.")
@click.option("--count", type=COUNT, default=0, help="End after this many messages.")
@click.option("--wait", type=DURATION, help="End after this time without a message.")
@click.option("-i", "--inbox", is_flag=True, help="Subscribe to a new inbox.")
@click.option(
    "-I", "--ignore-subject", "ignored", multiple=True, metavar="SUBJECT",
    help="Do not show messages of this subject; may be repeated.",
)  # fmt: skip
@click.option("--stream", default="", help="Messages of this stream.")
@click.option(
    "--durable", default="", metavar="CONSUMER",
    help="Use this durable consumer, or create it; what was shown is acknowledged.",
)  # fmt: skip
@click.option("--start-sequence", "seq", type=SEQUENCE, help="From this message of the stream.")
@click.option("--all", "start", flag_value="all", help="From the first message of the stream.")
@click.option("--new", "start", flag_value="new", help="Only new messages of the stream.")
@click.option("--last", "start", flag_value="last", help="The last message, then new ones.")
@click.option(
    "--last-per-subject", "start", flag_value="last-per-subject",
    help="The last message of each subject, then new ones.",
)  # fmt: skip
@click.option("--since", type=MOMENT, help="From this time (2026-11-15T12:00:00Z) or age (2h).")
@click.option("-T", "--terminate-at-end", "terminate", is_flag=True, help="End at its end.")
@click.option("--ack", is_flag=True, help="Acknowledge what a push consumer delivers here.")
@click.option("-r", "--raw", is_flag=True, help="Only the payloads.")
@click.option("--headers-only", is_flag=True, help="No payloads.")
@click.option("--subjects-only", is_flag=True, help="Only the subjects.")
@click.option("-t", "--timestamp", is_flag=True, help="Show when each arrived.")
@click.option("-d", "--delta-time", is_flag=True, help="Show seconds since the start.")
@_translate
@click.option(
    "--dump", default="", metavar="DIR", help="Write each to a JSON file; -: null-terminated."
)
def sub() -> None:
    """Show messages as they arrive.

    Of subjects, or with one of the options for streams also of stored messages. Runs until it is
    interrupted, or --count or --wait end it.

    \b
    Examples:
      jetspark sub 'orders.>'
      jetspark sub 'orders.>' --queue workers --raw
      jetspark sub 'orders.>' --all --terminate-at-end --ndjson | jq .subject
      jetspark sub --stream ORDERS --durable worker --count 10
    """


@remote_command("req", "jetspark.cli.messaging.requesting:request", aliases=("request",))
@_subject
@_body
@_headers
@_times
@click.option(
    "--replies", type=COUNT, default=1, show_default=True,
    help="Wait for this many replies; 0: until --timeout.",
)  # fmt: skip
@click.option(
    "--reply-timeout", type=DURATION, default="300ms", show_default=True,
    help="Longest time between several replies.",
)  # fmt: skip
@click.option("--wait-for-empty", is_flag=True, help="Wait for replies until an empty one.")
@click.option("-r", "--raw", is_flag=True, help="Only the payloads.")
@_translate
@_send_on
@_templates
@_stdin
def req() -> None:
    """Send a request and show the reply.

    Without BODY the payload is read from standard input. A request without an answer is a failure:
    the exit code is 1.

    \b
    Examples:
      jetspark req time.now ''
      jetspark req services.list '' --replies 0 --timeout 2s
      jetspark req resize --raw < photo.jpg > small.jpg
    """


@remote_command("reply", "jetspark.cli.messaging.requesting:reply", endless=True)
@_subject
@_body
@click.option("--echo", is_flag=True, help="Reply what was received.")
@click.option(
    "--command", default="", help="Reply the output of this command; {{1}} is a token of SUBJECT."
)
@click.option(
    "-q", "--queue", default="NATS-RPLY-22", show_default=True,
    help="Queue group: its members share the requests.",
)  # fmt: skip
@click.option("--sleep", type=DURATION, default="0", help="Wait for up to this time: 100ms.")
@_headers
@click.option("--count", type=COUNT, default=0, help="End after this many requests.")
def reply() -> None:
    """Answer requests.

    BODY may have the templates of `pub`, and {{Request}}. A command gets the request in the
    variables NATS_REQUEST_SUBJECT and NATS_REQUEST_BODY.

    \b
    Examples:
      jetspark reply greetings 'Hello, {{Request}}'
      jetspark reply 'weather.*' --command "curl -s wttr.in/{{1}}?format=3"
      jetspark reply echo --echo --count 1
    """
