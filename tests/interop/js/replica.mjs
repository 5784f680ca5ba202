// nats.js uses buckets through a read replica as it would at the leader.
import { Kvm } from "@nats-io/kv";
import { connect } from "@nats-io/transport-node";
import { given, run, soon } from "./checks.mjs";

const nc = await connect({ servers: given.replica });
const kv = await new Kvm(nc).create("js", { history: 5 });

await run({
  values: async () => {
    const revision = await kv.create("a", "1");
    const updated = await kv.update("a", "2", revision);
    await kv.put("b", "3");
    const read = [(await kv.get("a")).string(), (await kv.get("b")).string()];
    const old = await kv.get("a", { revision });
    return { revision, updated, read, old: old.string() };
  },
  deletes: async () => {
    await kv.delete("b");
    const gone = await kv.get("b");
    await kv.purge("a");
    return [gone?.operation, (await kv.get("a"))?.operation];
  },
  watch: async () => {
    const watch = await kv.watch({ key: "w.*" });
    const seen = [];
    const reading = (async () => {
      for await (const entry of watch) {
        seen.push(`${entry.key}=${entry.string()}`);
        if (seen.length === 3) return;
      }
    })();
    for (const n of [1, 2, 3]) await kv.put(`w.${n}`, `${n}`);
    await soon(reading, "three changes");
    return seen;
  },
  keys: async () => {
    const keys = [];
    for await (const key of await kv.keys("w.*")) keys.push(key);
    return keys.sort();
  },
  requests: async () => {
    nc.subscribe("echo", { callback: (_err, m) => m.respond(m.data) });
    const answer = await nc.request("echo", "hi", { timeout: 5_000 });
    let nobody = null;
    await nc.request("nobody").catch((err) => (nobody = err.isNoResponders()));
    return [answer.string(), nobody];
  },
});
