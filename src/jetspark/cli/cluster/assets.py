"""`stream cluster` and `consumer cluster`."""

import click

from jetspark.cli.cluster.election import ANSWER_TIMEOUT, Leader, ask_cluster, elect
from jetspark.cli.confirm import confirm
from jetspark.cli.refusals import not_found
from jetspark.cli.session import Session
from jetspark.client.models.stream import ClusterInfo


async def step_down_stream(session: Session, *, stream: str, preferred: str, force: bool) -> None:
    """Elect another leader of a stream."""
    of = await session.stream(stream)

    async def leader() -> Leader:
        return _leader((await of.info(timeout=ANSWER_TIMEOUT)).cluster)

    what = f"stream {stream}"
    _check(what, of.cached_info.cluster, preferred, force=force)
    await elect(
        session, what, {"preferred": preferred} if preferred else {},
        verb=f"STREAM.LEADER.STEPDOWN.{stream}", leader=leader, stream=stream,
    )  # fmt: skip


async def step_down_consumer(
    session: Session, *, stream: str, name: str, preferred: str, force: bool
) -> None:
    """Elect another leader of a consumer."""
    of = await session.consumer(stream, name)

    async def leader() -> Leader:
        return _leader((await of.info(timeout=ANSWER_TIMEOUT)).cluster)

    what = f"consumer {name} of stream {stream}"
    _check(what, of.cached_info.cluster, preferred, force=force)
    await elect(
        session, what, {"preferred": preferred} if preferred else {},
        verb=f"CONSUMER.LEADER.STEPDOWN.{stream}.{name}", leader=leader,
        stream=stream, consumer=name,
    )  # fmt: skip


async def remove_stream_peer(session: Session, *, stream: str, peer: str, force: bool) -> None:
    """Remove a server from the replicas of a stream."""
    of = await session.stream(stream)
    cluster = of.cached_info.cluster
    what = f"stream {stream}"
    _check(what, cluster, "", force=True)
    known = _servers(cluster)
    if peer not in known:
        raise not_found(f"{what}: replica", peer, known, f"jetspark stream info {stream}")
    confirm(f"Really remove {peer} from the replicas of stream {stream}?", force=force)
    await ask_cluster(session, f"STREAM.PEER.REMOVE.{stream}", {"peer": peer})
    session.output.done(
        f"{peer} was removed from the replicas of stream {stream}", stream=stream, peer=peer
    )


def _check(what: str, cluster: ClusterInfo | None, preferred: str, *, force: bool) -> None:
    """Refuse what cannot have another leader."""
    if cluster is None or not cluster.replicas:
        raise click.ClickException(
            f"{what} has a single replica, which always leads: it needs --replicas 3 in a cluster "
            "of nats-servers"
        )
    if preferred and preferred not in _servers(cluster):
        raise click.ClickException(
            f"{what} has no replica on {preferred}, only on {', '.join(_servers(cluster))}"
        )
    if not cluster.leader and not force:
        raise click.ClickException(f"{what} has no leader now; --force asks for one anyway")


def _leader(cluster: ClusterInfo | None) -> Leader:
    return Leader("") if cluster is None else Leader(cluster.leader or "", cluster.leader_since)


def _servers(cluster: ClusterInfo | None) -> list[str]:
    if cluster is None:
        return []
    named = [cluster.leader or "", *(one.name for one in cluster.replicas or ())]
    return sorted(filter(None, named))
