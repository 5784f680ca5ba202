// nats.js reads through a mirror whose origin is on another server (issue 9).
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { given, run, using } from "./checks.mjs";

const text = (data) => new TextDecoder().decode(data);
const on = (use) => using({ servers: given.url }, use);

await run({
  // Messages in the order of the origin, by an ordered consumer of the mirror.
  ordered: () =>
    on(async (nc) => {
      const consumer = await jetstream(nc).consumers.get("KV_copy");
      const seen = [];
      for await (const m of await consumer.fetch({ max_messages: 3, expires: 2000 })) {
        seen.push([m.seq, m.subject, text(m.data)]);
      }
      return seen;
    }),

  // A direct get of the origin, answered by the mirror.
  direct: () =>
    on(async (nc) => {
      const jsm = await jetstreamManager(nc, { checkAPI: false });
      const found = await jsm.direct.getMessage("KV_cfg", { last_by_subj: "$KV.cfg.a" });
      return [found.seq, text(found.data), found.header.get("Nats-Stream")];
    }),

  bucket: () =>
    on(async (nc) => {
      // open() of 3.4 does not look for a mirror; create() does, and finds the bucket there.
      const mirror = { name: "KV_cfg", external: { api: "$JS.hub.API", deliver: "" } };
      const kv = await new Kvm(nc).create("copy", { history: 5, mirror });
      const entry = await kv.get("a");
      const keys = [];
      for await (const key of await kv.keys()) keys.push(key);
      return [entry.string(), entry.revision, keys.sort()];
    }),

  info: () =>
    on(async (nc) => {
      const { mirror } = await (await jetstreamManager(nc)).streams.info("KV_copy");
      return [mirror.name, mirror.lag, mirror.external.api, mirror.error ?? null];
    }),
});
