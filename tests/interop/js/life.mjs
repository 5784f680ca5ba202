// nats.js while its server comes and goes, and when it cannot keep up. The test restarts and stops
// servers when this script says what it is waiting for.
import { readSync } from "node:fs";
import { connect } from "@nats-io/transport-node";
import { given, run, say, soon, status, texts } from "./checks.mjs";

// Come back at once, and as often as it takes.
const persistent = { maxReconnectAttempts: -1, reconnectDelayHandler: () => 10 };

// The script stops altogether until the test writes a line: it reads no sockets meanwhile.
async function stall(options) {
  const nc = await connect({ ...options, ...persistent });
  const lost = status(nc, "disconnect");
  const back = status(nc, "reconnect");
  let stalled = false;
  nc.subscribe("flood", {
    callback: () => {
      if (!stalled) {
        stalled = true;
        say({ waiting: "cut" });
        readSync(0, new Uint8Array(1));
      }
    },
  });
  await nc.flush();
  say({ waiting: "flood" });
  await soon(lost, "the cut");
  await soon(back, "the reconnect");
  nc.subscribe("echo", { callback: (_err, m) => m.respond(m.data) });
  const answer = await nc.request("echo", "back", { timeout: 10_000 });
  await nc.close();
  return answer.string();
}

await run({
  // nats.js drops what waits whenever it dials anew, so it publishes once per attempt: what it
  // published in the last one must arrive.
  reconnect: async () => {
    const nc = await connect({ servers: given.restarted, ...persistent });
    const sub = nc.subscribe("kept");
    nc.subscribe("echo", { callback: (_err, m) => m.respond(m.data) });
    nc.publish("kept", "before");
    const before = await texts(sub, 1);
    const again = nc.subscribe("kept");
    await nc.flush();
    let attempts = 0;
    const back = (async () => {
      for await (const s of nc.status()) {
        if (s.type === "reconnecting") nc.publish("kept", `attempt ${++attempts}`);
        if (s.type === "reconnect") return;
      }
    })();
    say({ waiting: "restart" });
    await soon(back, "the reconnect");
    const [kept] = await texts(again, 1);
    const answer = await nc.request("echo", "still here", { timeout: 10_000 });
    await nc.close();
    return { before, kept: kept === `kept=attempt ${attempts}`, answer: answer.string() };
  },

  stop: async () => {
    const nc = await connect({ servers: given.stopped, reconnect: false });
    nc.subscribe("anything");
    await nc.flush();
    say({ waiting: "stop" });
    const error = await soon(nc.closed(), "the end");
    return { closed: nc.isClosed(), error: error ? error.message : null };
  },

  slow: () => stall({ servers: given.slow }),

  slowTls: () => stall({ servers: given.slowTls, tls: { caFile: given.ca } }),
});
