// nats.js on a server that becomes a lame duck when this script is connected.
import { connect } from "@nats-io/transport-node";
import { failure, given, run, say, soon, status } from "./checks.mjs";

await run({
  lameDuck: async () => {
    const nc = await connect({ servers: given.url, reconnect: false });
    const told = status(nc, "ldm");
    say({ waiting: "signal" });
    const { server } = await soon(told, "ldm");
    const { ldm } = nc.info;
    nc.subscribe("echo", { callback: (_err, m) => m.respond(m.data) });
    const answer = (await nc.request("echo", "still here", { timeout: 10_000 })).string();
    const refused = await failure(connect({ servers: given.url, reconnect: false }));
    await nc.close();
    return { server, ldm, answer, refused: refused?.message };
  },
});
