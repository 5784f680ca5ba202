"""`stream gaps`: the sequences whose messages were deleted."""

from typing import Final

from jetspark.cli.confirm import confirm
from jetspark.cli.output import Column
from jetspark.cli.progress import progress_bar
from jetspark.cli.session import Session
from jetspark.units import format_bytes

_SHOWN_EVERY: Final = 1_000


async def find_gaps(session: Session, *, name: str, force: bool, progress: bool) -> None:
    """List the sequences between the first and the last message that hold none."""
    stream = await session.stream(name)
    state = stream.cached_info.state
    output = session.output
    gaps: list[tuple[int, int]] = []
    if state.messages and state.messages < state.last_seq - state.first_seq + 1:
        confirm(
            f"Really read all {state.messages:,} messages ({format_bytes(state.bytes)}) of stream "
            f"{name}, without their payloads?",
            force=force,
        )
        with progress_bar(
            f"reading {name}", state.messages, quiet=output.json or not progress
        ) as bar:
            after, read = state.first_seq - 1, 0
            reader = stream.ordered_consumer(headers_only=True)
            async with reader.messages() as messages:
                async for message in messages:
                    metadata = message.metadata
                    seq = metadata.stream_seq
                    if seq > after + 1:
                        gaps.append((after + 1, min(seq - 1, state.last_seq)))
                    after, read = seq, read + 1
                    if read % _SHOWN_EVERY == 0:
                        bar(read)
                    if seq >= state.last_seq or metadata.num_pending == 0:
                        break
            if after < state.last_seq:  # the last messages were deleted
                gaps.append((after + 1, state.last_seq))
    if output.json:
        output.values([first, last] for first, last in gaps)
    elif not gaps:
        output.say(f"No deleted messages in {name}")
    else:
        found = "1 gap" if len(gaps) == 1 else f"{len(gaps):,} gaps"
        columns = (Column("First Message", number=True), Column("Last Message", number=True))
        output.table(
            f"{found} found in Stream {name}", columns,
            [(f"{first:,}", f"{last:,}") for first, last in gaps],
        )  # fmt: skip
