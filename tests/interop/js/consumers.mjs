// nats.js reads streams, buckets and object stores, while its server comes and goes. The test
// restarts the server whenever this script says that it waits for that.
import { delay } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { failure, given, run, say, soon, status } from "./checks.mjs";

// Come back at once, and as often as it takes.
const persistent = { maxReconnectAttempts: -1, reconnectDelayHandler: () => 10 };

const nc = await connect({ servers: given.url, ...persistent });
const js = jetstream(nc);
const jsm = await jetstreamManager(nc);

async function restart() {
  const back = status(nc, "reconnect");
  say({ waiting: "restart" });
  await soon(back, "the reconnect");
}

async function filled(name, count, more = {}) {
  await jsm.streams.add({ name, subjects: [`${name}.>`], ...more });
  await put(name, 0, count);
}

async function put(name, first, last) {
  for (let n = first; n < last; n++) await js.publish(`${name}.${n % 3}`, `${n}`);
}

const explicit = (name, more = {}) => ({
  durable_name: name,
  ack_policy: AckPolicy.Explicit,
  ...more,
});

// The next messages, acknowledged one by one if the consumer wants that.
async function take(messages, count, acks = true) {
  const got = [];
  for await (const m of messages) {
    got.push(Number(m.string()));
    if (acks) await m.ackAck();
    if (got.length === count) break;
  }
  return got;
}

// The next entries of an iterator that never ends by itself.
async function entries(iterator, count, show) {
  const got = [];
  for await (const e of iterator) {
    got.push(show(e));
    if (got.length === count) break;
  }
  return got;
}

const upTo = (count) => [...Array(count).keys()];
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

await run({
  fetch: async () => {
    await filled("fetch", 60);
    await jsm.consumers.add("fetch", explicit("d"));
    const c = await js.consumers.get("fetch", "d");
    const first = await take(await c.fetch({ max_messages: 25 }), 25);
    await restart();
    const rest = await take(await c.fetch({ max_messages: 35 }), 35);
    const empty = await take(await c.fetch({ max_messages: 5, expires: 1000 }), 9);
    const info = await c.info();
    return {
      all: same([...first, ...rest], upTo(60)),
      empty,
      pending: info.num_pending,
      floor: info.ack_floor.stream_seq,
    };
  },

  next: async () => {
    await filled("next", 2);
    await jsm.consumers.add("next", explicit("d"));
    const c = await js.consumers.get("next", "d");
    const one = await c.next();
    one.nak();
    await delay(100); // nats-server takes a moment
    const again = await c.next();
    again.term("no good");
    const two = await c.next();
    await two.ackAck();
    const none = await c.next({ expires: 1000 });
    return {
      seqs: [one.seq, again.seq, two.seq],
      deliveries: [one.info.deliveryCount, again.info.deliveryCount],
      pending: one.info.pending,
      none,
    };
  },

  consume: async () => {
    await filled("consume", 100);
    await jsm.consumers.add("consume", explicit("d"));
    const c = await js.consumers.get("consume", "d");
    const messages = await c.consume({ max_messages: 20, expires: 2000 });
    const got = [];
    for await (const m of messages) {
      got.push(Number(m.string()));
      await m.ackAck();
      if (got.length === 50) await restart();
      if (got.length === 100) await put("consume", 100, 120);
      if (got.length === 120) break;
    }
    await messages.close();
    const seen = new Set(got);
    return { everything: upTo(120).every((n) => seen.has(n)), twice: got.length - seen.size };
  },

  ordered: async () => {
    await filled("ordered", 40);
    const c = await js.consumers.get("ordered", { deliver_policy: DeliverPolicy.All });
    const messages = await c.consume({ max_messages: 10, expires: 1000 });
    const got = [];
    for await (const m of messages) {
      got.push(m.seq);
      if (got.length === 40) {
        await restart();
        await put("ordered", 40, 50);
      }
      if (got.length === 50) break;
    }
    await messages.close();
    return same(got, upTo(50).map((n) => n + 1));
  },

  filtered: async () => {
    await filled("filtered", 9);
    const c = await js.consumers.get("filtered", { filter_subjects: ["filtered.0", "filtered.2"] });
    return await take(await c.fetch({ max_messages: 6 }), 6, false);
  },

  push: async () => {
    await filled("push", 10);
    await jsm.consumers.add("push", {
      durable_name: "d",
      deliver_subject: "pushed.here",
      ack_policy: AckPolicy.Explicit,
      idle_heartbeat: 1_000_000_000,
      flow_control: true,
    });
    const c = await js.consumers.getPushConsumer("push", "d");
    const messages = await c.consume();
    const got = [];
    let info;
    for await (const m of messages) {
      got.push(Number(m.string()));
      await m.ackAck();
      if (got.length === 10) {
        await restart();
        await put("push", 10, 20);
        info = await jsm.consumers.info("push", "d");
      }
      if (got.length === 20) break;
    }
    return { all: same(got, upTo(20)), bound: info.push_bound === true };
  },

  manage: async () => {
    await filled("manage", 1);
    for (const name of ["b", "a"]) await jsm.consumers.add("manage", explicit(name));
    const names = [];
    for await (const info of jsm.consumers.list("manage")) names.push(info.name);
    const changed = await jsm.consumers.update("manage", "a", { description: "new" });
    const paused = await jsm.consumers.pause("manage", "a", new Date("2099-01-01T00:00:00Z"));
    const resumed = await jsm.consumers.resume("manage", "a");
    const gone = await jsm.consumers.delete("manage", "b");
    const missing = await failure(jsm.consumers.info("manage", "b"));
    const wrong = await failure(
      jsm.consumers.add("manage", explicit("a", { deliver_policy: DeliverPolicy.New })),
    );
    return {
      names,
      description: changed.config.description,
      paused: paused.paused,
      resumed: resumed.paused,
      gone,
      missing: missing.message,
      wrong: wrong.message,
    };
  },

  kv: async () => {
    const kv = await new Kvm(js).create("bucket", { history: 5 });
    for (const value of ["1", "2"]) {
      await kv.put("x", value);
      await kv.put("y", value);
    }
    await kv.delete("y");
    const show = (e) => `${e.key}=${e.operation === "PUT" ? e.string() : e.operation}`;
    const watch = await kv.watch();
    const first = await entries(watch, 2, show);
    await restart();
    const again = await kv.watch();
    const there = await entries(again, 2, show);
    const follow = await kv.watch({ key: "z" });
    await kv.put("z", "9");
    const live = await entries(follow, 1, show);
    const keys = (await entries(await kv.keys(), 2, (k) => k)).sort();
    const history = await entries(await kv.history({ key: "x" }), 2, show);
    return { first, there, live, keys, history };
  },

  objects: async () => {
    const store = await new Objm(js).create("objects");
    const large = new Uint8Array(700_000).map((_, i) => i % 251);
    await store.putBlob({ name: "large" }, large);
    await store.putBlob({ name: "small" }, new Uint8Array([1, 2, 3]));
    await restart();
    const read = await store.getBlob("large");
    const names = (await store.list()).map((o) => o.name).sort();
    const watch = await store.watch({ includeHistory: true });
    const seen = await entries(watch, 2, (o) => o.name);
    await store.delete("small");
    const missing = await store.getBlob("small");
    return { same: same([...read], [...large]), names, seen: seen.sort(), missing };
  },
});
