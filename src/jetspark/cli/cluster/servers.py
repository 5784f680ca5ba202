"""`server cluster`: the servers that agree on the streams of a cluster."""

from typing import Any, NamedTuple

import click

from jetspark.cli.cluster.election import Leader, ask_cluster, elect
from jetspark.cli.confirm import confirm
from jetspark.cli.refusals import not_found
from jetspark.cli.server.querying import ask_system_account
from jetspark.cli.session import Session


class _Meta(NamedTuple):
    """What the leader of a cluster knows: its name, and the other servers."""

    leader: str
    replicas: list[dict[str, Any]]


async def step_down_meta(
    session: Session, *, cluster: str, tags: tuple[str, ...], host: str, force: bool
) -> None:
    """Elect another leader of the cluster."""
    placement = {
        name: value
        for name, value in (("cluster", cluster), ("tags", list(tags)), ("preferred", host))
        if value
    }
    old = (await _meta(session)).leader
    if not old and not force:
        raise click.ClickException("the cluster has no leader now; --force asks for one anyway")

    async def leader() -> Leader:
        return Leader((await _meta(session)).leader)

    await elect(session, "the cluster", placement, verb="META.LEADER.STEPDOWN", leader=leader)


async def remove_server(session: Session, *, name: str, force: bool) -> None:
    """Remove a server from the cluster."""
    meta = await _meta(session)
    if not meta.leader:
        raise click.ClickException("the cluster has no leader now, which has to remove the server")
    if name == meta.leader:
        raise click.ClickException(
            f"{name} leads the cluster: let another server lead first, with `jetspark server "
            "cluster step-down`"
        )
    found = [one for one in meta.replicas if name in {one.get("name"), one.get("peer")}]
    if not found:
        known = [str(one.get("name")) for one in meta.replicas]
        raise not_found("server", name, known, "jetspark server list")
    [peer] = found
    state = "offline" if peer.get("offline") else "online"
    confirm(
        f"Really remove the {state} server {peer.get('name')} from the cluster, with the data of "
        "streams that only it has? To return, it needs a restart of the whole cluster.",
        force=force,
    )
    await ask_cluster(
        session, "SERVER.REMOVE",
        {"peer_id": peer["peer"]} if peer.get("peer") else {"peer": peer.get("name")},
    )  # fmt: skip
    session.output.done(
        f"Server {peer.get('name')} was removed from the cluster", server=peer.get("name"),
        peer=peer.get("peer"),
    )  # fmt: skip


async def _meta(session: Session) -> _Meta:
    """The view of the leader; without one, that of any server."""
    answers = await ask_system_account(session.client, "jsz", {}, session.settings.timeout)
    if not answers:
        raise click.ClickException(
            "only a user of the system account of a cluster of nats-servers may do this; a "
            "jetspark server has no cluster"
        )
    views = [
        (answer.server, answer.data["meta_cluster"])
        for answer in answers
        if answer.data.get("meta_cluster")
    ]
    if not views:
        raise click.ClickException("these servers are not a cluster with JetStream")
    for server, view in views:
        if server == view.get("leader"):
            return _Meta(server, view.get("replicas") or [])
    return _Meta("", [])
