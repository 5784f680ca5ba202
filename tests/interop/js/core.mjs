// nats.js exchanges messages through the server: what users of a core NATS server rely on.
import { connect, headers } from "@nats-io/transport-node";
import { failure, given, run, status, texts, using } from "./checks.mjs";

const url = given.url;
const MIB = 1024 * 1024;

function echo(nc, options = {}) {
  nc.subscribe("echo", { ...options, callback: (_err, m) => m.respond(m.data) });
}

await run({
  publish: () =>
    using({ servers: url }, async (publisher) => {
      const clients = [await connect({ servers: url }), await connect({ servers: url })];
      const subs = clients.map((nc) => nc.subscribe("orders"));
      await Promise.all(clients.map((nc) => nc.flush()));
      for (let i = 0; i < 100; i++) publisher.publish("orders", `${i}`);
      const got = await Promise.all(subs.map((sub) => texts(sub, 100)));
      await Promise.all(clients.map((nc) => nc.close()));
      return got;
    }),

  wildcards: () =>
    using({ servers: url }, async (nc) => {
      const patterns = ["a.*", "a.*.c", "*.b", "a.>", ">"];
      const subs = patterns.map((pattern) => nc.subscribe(pattern));
      for (const subject of ["a", "a.b", "a.b.c", "a.c", "a.c.c", "b.b"]) nc.publish(subject);
      await nc.flush();
      const got = {};
      for (const sub of subs) {
        const messages = await texts(sub, sub.getReceived());
        got[sub.getSubject()] = messages.map((text) => text.slice(0, -1));
      }
      return got;
    }),

  queue: () =>
    using({ servers: url }, async (publisher) => {
      const members = [[], [], []];
      const clients = [];
      for (const got of members) {
        const nc = await connect({ servers: url });
        nc.subscribe("jobs.*", { queue: "workers", callback: (_err, m) => got.push(+m.string()) });
        await nc.flush();
        clients.push(nc);
      }
      for (let i = 0; i < 300; i++) publisher.publish("jobs.new", `${i}`);
      await publisher.flush();
      await Promise.all(clients.map((nc) => nc.drain()));
      const all = members.flat().sort((a, b) => a - b);
      return { once: all.every((n, i) => n === i), all: all.length, shares: members.map((m) => m.length) };
    }),

  headers: () =>
    using({ servers: url }, async (nc) => {
      const sub = nc.subscribe("with.headers");
      const sent = headers();
      for (const value of ["1", "2", "ünïcode"]) sent.append("several", value);
      sent.append("Nats-Msg-Id", "x");
      sent.append("UPPER", "with: colon");
      nc.publish("with.headers", "body", { headers: sent });
      nc.publish("with.headers", "plain");
      const got = [];
      for await (const m of sub) {
        got.push({ body: m.string(), headers: m.headers ? Object.fromEntries(m.headers) : null });
        if (got.length === 2) break;
      }
      return got;
    }),

  request: () =>
    using({ servers: url }, async (nc) => {
      echo(nc);
      const asked = headers();
      asked.append("k", "v");
      const shared = await nc.request("echo", "shared inbox", { headers: asked, timeout: 10_000 });
      const own = await nc.request("echo", "own inbox", { noMux: true, timeout: 10_000 });
      return [shared.string(), own.string()];
    }),

  concurrent: () =>
    using({ servers: url }, async (service) => {
      for (let i = 0; i < 3; i++) echo(service, { queue: "services" });
      await service.flush();
      return await using({ servers: url }, async (nc) => {
        const asked = [...Array(500).keys()];
        const answers = await Promise.all(
          asked.map((i) => nc.request("echo", `${i}`, { timeout: 10_000 })),
        );
        return answers.filter((m, i) => m.string() === `${i}`).length;
      });
    }),

  noResponders: () =>
    using({ servers: url }, async (nc) => {
      const refusals = [];
      for (const noMux of [false, true]) {
        try {
          await nc.request("nobody", "", { noMux, timeout: 10_000 });
        } catch (err) {
          refusals.push({ refused: err.isNoResponders(), subject: err.cause?.subject });
        }
      }
      return refusals;
    }),

  drain: () =>
    using({ servers: url }, async (publisher) => {
      const nc = await connect({ servers: url });
      const got = [];
      nc.subscribe("drained", { callback: (_err, m) => got.push(+m.string()) });
      await nc.flush();
      for (let i = 0; i < 2000; i++) publisher.publish("drained", `${i}`);
      await publisher.flush();
      await nc.drain();
      return { got: got.length, ordered: got.every((n, i) => n === i), closed: nc.isClosed() };
    }),

  handOver: () =>
    using({ servers: url }, async (publisher) => {
      const leaving = await connect({ servers: url });
      const staying = await connect({ servers: url });
      const got = [[], []];
      [leaving, staying].forEach((nc, i) =>
        nc.subscribe("work", { queue: "q", callback: (_err, m) => got[i].push(+m.string()) })
      );
      await Promise.all([leaving.flush(), staying.flush()]);
      let drained;
      for (let i = 0; i < 1000; i++) {
        publisher.publish("work", `${i}`);
        if (i === 500) {
          await publisher.flush();
          drained = leaving.drain();
        }
      }
      await publisher.flush();
      await drained;
      await staying.drain();
      const all = got.flat().sort((a, b) => a - b);
      return { once: all.every((n, i) => n === i), all: all.length, both: got.every((g) => g.length > 0) };
    }),

  maximum: () =>
    using({ servers: url }, async (nc) => {
      const sub = nc.subscribe("few");
      nc.publish("few", "0");
      await nc.flush();
      sub.unsubscribe(3);
      for (let i = 1; i < 6; i++) nc.publish("few", `${i}`);
      await nc.flush();
      return { got: await texts(sub, 3), fromServer: nc.stats().inMsgs };
    }),

  echoOff: () =>
    using({ servers: url, noEcho: true }, async (quiet) => {
      const sub = quiet.subscribe("shared");
      await quiet.flush();
      quiet.publish("shared", "own");
      await quiet.flush();
      await using({ servers: url }, async (other) => {
        other.publish("shared", "other");
        await other.flush();
      });
      return { got: await texts(sub, 1), fromServer: quiet.stats().inMsgs };
    }),

  verbose: () =>
    using({ servers: url, verbose: true }, async (nc) => {
      echo(nc);
      return (await nc.request("echo", "said", { timeout: 10_000 })).string();
    }),

  pedantic: () =>
    using({ servers: url, pedantic: true }, async (nc) => {
      const error = status(nc, "error");
      nc.publish("p.*", "bad");
      const told = (await error).error;
      echo(nc);
      const answer = await nc.request("echo", "still here", { timeout: 10_000 });
      return { name: told.name, message: told.message, answer: answer.string() };
    }),

  large: () =>
    using({ servers: url }, async (nc) => {
      const sub = nc.subscribe("large");
      const sizes = [0, 1, 4096, 65_537, MIB - 1, MIB];
      for (const size of sizes) nc.publish("large", new Uint8Array(size).map((_, i) => i));
      const got = [];
      for await (const m of sub) {
        got.push(m.data.every((byte, i) => byte === i % 256) ? m.data.length : "damaged");
        if (got.length === sizes.length) break;
      }
      return got;
    }),

  maxPayload: () =>
    using({ servers: given.small }, async (nc) => {
      const sub = nc.subscribe("limited");
      nc.publish("limited", "x".repeat(1024));
      const [text] = await texts(sub, 1);
      const more = failure((async () => nc.publish("limited", "x".repeat(1025)))());
      return { learned: nc.info.max_payload, got: text.length, refused: await more };
    }),

  connections: async () => {
    const clients = await Promise.all([...Array(100)].map(() => connect({ servers: url })));
    const subs = clients.map((nc) => nc.subscribe("everybody"));
    await Promise.all(clients.map((nc) => nc.flush()));
    clients[0].publish("everybody", "hello");
    const got = (await Promise.all(subs.map((sub) => texts(sub, 1)))).flat();
    const ids = new Set(clients.map((nc) => nc.info.client_id));
    await Promise.all(clients.map((nc) => nc.close()));
    return { got: got.filter((text) => text === "everybody=hello").length, ids: ids.size };
  },

  tooMany: () =>
    using({ servers: given.lonely }, async (nc) => {
      const refused = await failure(connect({ servers: given.lonely, reconnect: false }));
      await nc.flush();
      return refused;
    }),

  ipv6: async () => {
    if (!given.ipv6) return null;
    return await using({ servers: given.ipv6 }, async (nc) => {
      echo(nc);
      const answer = await nc.request("echo", "six", { timeout: 10_000 });
      return { answer: answer.string(), ip: nc.info.client_ip };
    });
  },

  stream: () =>
    using({ servers: given.streams }, async (nc) => {
      const config = { name: "JS", subjects: ["js.>"], allow_direct: true };
      await nc.request("$JS.API.STREAM.CREATE.JS", JSON.stringify(config));
      const ack = (await nc.request("js.1", "stored")).json();
      const got = (await nc.request("$JS.API.DIRECT.GET.JS.js.1", "")).string();
      return { ack, got };
    }),

  info: () =>
    using({ servers: url }, async (nc) => {
      await nc.flush();
      const { proto, version, headers, max_payload, api_lvl, remote_account } = nc.info;
      return { proto, version, headers, max_payload, api_lvl, remote_account };
    }),
});
