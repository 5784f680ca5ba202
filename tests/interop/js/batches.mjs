// nats.js publishes batches: atomic ones, and fast ingest in the released dialect (ADR-50).
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { startFastIngest } from "@nats-io/jetstream/internal";
import { failure, given, run, using } from "./checks.mjs";

const url = given.url;

// A stream of its own for a check, and what is in it at the end.
function onStream(name, config, use) {
  return using({ servers: url }, async (nc) => {
    const jsm = await jetstreamManager(nc);
    await jsm.streams.add({ name, subjects: [`${name}.>`], ...config });
    const js = jetstream(nc);
    const got = await use(nc, js, jsm);
    const { state } = await jsm.streams.info(name);
    return { got, messages: state.messages, last: state.last_seq };
  });
}

// A batch ack without the id, which is another one each time.
function told(ack, batch) {
  return { seq: ack.seq, count: ack.count, named: ack.batch === batch };
}

await run({
  atomic: () =>
    onStream("ATOMIC", { allow_atomic: true }, async (_nc, js) => {
      const batch = await js.startBatch("ATOMIC.a", "1");
      batch.add("ATOMIC.b", "2");
      await batch.add("ATOMIC.c", "3", { ack: true });
      return told(await batch.commit("ATOMIC.d", "4"), batch.id);
    }),

  atomicDisabled: () =>
    onStream("PLAIN", {}, async (_nc, js) => await failure(js.startBatch("PLAIN.a", "1"))),

  atomicAborted: () =>
    onStream("ABORTED", { allow_atomic: true }, async (_nc, js) => {
      const batch = await js.startBatch("ABORTED.a", "1");
      batch.count++; // a message that never arrives
      return await failure(batch.add("ABORTED.a", "3", { ack: true }));
    }),

  fast: () =>
    onStream("FAST", { allow_batched: true }, async (nc) => {
      const fast = await startFastIngest(nc, "FAST.a", "1", { ackInterval: 10, allowGaps: false });
      for (let i = 2; i <= 1000; i++) await fast.add(`FAST.${i % 7}`, `${i}`);
      return told(await fast.last("FAST.end", "end"), fast.batch);
    }),

  fastEnd: () =>
    onStream("END", { allow_batched: true }, async (nc) => {
      const fast = await startFastIngest(nc, "END.a", "1", { ackInterval: 100, allowGaps: true });
      for (let i = 2; i <= 250; i++) await fast.add("END.a", `${i}`);
      const seen = await fast.ping();
      return [seen.batchSeq, told(await fast.end(), fast.batch)];
    }),

  fastGap: () =>
    onStream("GAP", { allow_batched: true }, async (nc) => {
      const fast = await startFastIngest(nc, "GAP.a", "1", { ackInterval: 5, allowGaps: true });
      const gaps = fast.gaps();
      fast.seq += 3; // messages that never arrive
      await fast.add("GAP.a", "5");
      const ack = told(await fast.end(), fast.batch);
      const seen = [];
      for await (const gap of gaps) seen.push(gap);
      return [ack, seen];
    }),

  fastNoGap: () =>
    onStream("NOGAP", { allow_batched: true }, async (nc) => {
      const fast = await startFastIngest(nc, "NOGAP.a", "1", { ackInterval: 5, allowGaps: false });
      fast.seq += 3;
      await fast.add("NOGAP.a", "5");
      return told(await fast.done(), fast.batch);
    }),

  fastRefused: () =>
    onStream("REFUSED", { allow_batched: true }, async (nc) => {
      const expect = { streamName: "OTHER" };
      const options = { ackInterval: 5, allowGaps: false, expect };
      const fast = startFastIngest(nc, "REFUSED.a", "1", options);
      return await failure(fast.then((open) => open.done()));
    }),

  fastDisabled: () =>
    onStream("NOFAST", {}, async (nc) =>
      await failure(startFastIngest(nc, "NOFAST.a", "1", { ackInterval: 5, allowGaps: false }))),

  fastMany: () =>
    onStream("MANY", { allow_batched: true }, async (nc) => {
      const publish = async (n) => {
        const options = { ackInterval: 50, allowGaps: false };
        const fast = await startFastIngest(nc, `MANY.${n}`, "1", options);
        for (let i = 2; i <= 300; i++) await fast.add(`MANY.${n}`, `${i}`);
        return (await fast.end()).count;
      };
      return await Promise.all([1, 2, 3, 4].map(publish));
    }),
});
