// nats.js shows who it is, is kept to what it may do, and speaks TLS with the server.
import { connect, createInbox } from "@nats-io/transport-node";
import { failure, given, run, status, texts, using } from "./checks.mjs";

const { urls, files } = given;
const MIB = 1024 * 1024;
const trusting = { caFile: files.ca };
const known = { ...trusting, certFile: files.client.cert, keyFile: files.client.key };
const stranger = { ...trusting, certFile: files.stranger.cert, keyFile: files.stranger.key };

// Whether a client with these options can send, receive and answer.
async function echoes(options) {
  return await using(options, async (nc) => {
    nc.subscribe("echo", { callback: (_err, m) => m.respond(m.data) });
    return (await nc.request("echo", "hello", { timeout: 10_000 })).string() === "hello";
  });
}

// Whether it can with each of them.
async function all(options) {
  return await Promise.all(options.map((o) => echoes(o).catch((err) => err.message)));
}

// How connecting fails with each of them.
async function none(options) {
  return await Promise.all(
    options.map(async (o) => {
      const failed = await failure(connect({ reconnect: false, timeout: 10_000, ...o }));
      return failed && `${failed.name}: ${failed.message}`;
    }),
  );
}

const as = (user) => ({ servers: urls.permissions, user, pass: "pw" });

// The violation that an operation is answered with, and whether the connection stays.
async function violation(operate) {
  return await using(as("some"), async (nc) => {
    const error = status(nc, "error");
    operate(nc);
    const { name, message, operation, subject, queue } = (await error).error;
    await nc.flush();
    return { name, message, operation, subject, queue: queue ?? null };
  });
}

await run({
  accepted: () => all(given.accepted),

  rejected: () => none(given.rejected),

  publishViolation: () => violation((nc) => nc.publish("elsewhere", "no")),

  subscriptionViolation: () => violation((nc) => nc.subscribe("elsewhere")),

  queueViolation: () => violation((nc) => nc.subscribe("in.jobs", { queue: "others" })),

  // The error reaches the subscription that caused it as well.
  subscriptionError: () =>
    using(as("some"), async (nc) => {
      const sub = nc.subscribe("in.secret");
      return await failure(texts(sub, 1));
    }),

  deniedInWildcard: () =>
    using(as("all"), async (everything) =>
      await using(as("some"), async (nc) => {
        const sub = nc.subscribe("in.*");
        await nc.flush();
        for (const word of ["a", "secret", "b"]) everything.publish(`in.${word}`);
        return await texts(sub, 2);
      })),

  // A service may answer who asked, once.
  responses: () =>
    using(as("all"), async (nc) =>
      await using(as("service"), async (service) => {
        const error = status(service, "error");
        service.subscribe("ask", {
          callback: (_err, m) => {
            m.respond("first");
            m.respond("second");
          },
        });
        await service.flush();
        const inbox = createInbox();
        const sub = nc.subscribe(inbox);
        nc.publish("ask", "", { reply: inbox });
        const [answer] = await texts(sub, 1);
        const { operation, subject } = (await error).error;
        return [answer.split("=")[1], operation, subject === inbox];
      })),

  accounts: () =>
    using({ servers: urls.accounts, user: "ann", pass: "pw" }, async (ann) =>
      await using({ servers: urls.accounts, user: "bob", pass: "pw" }, async (bob) => {
        const subs = [ann, bob].map((nc) => nc.subscribe("shared"));
        bob.subscribe("service", { callback: (_err, m) => m.respond("of B") });
        await Promise.all([ann.flush(), bob.flush()]);
        ann.publish("shared", "of A");
        await ann.flush();
        bob.publish("shared", "of B");
        await bob.flush();
        const got = await Promise.all(subs.map((sub) => texts(sub, 1)));
        const counts = [ann, bob].map((nc) => nc.stats().inMsgs);
        const asked = await failure(ann.request("service", "", { timeout: 10_000 }));
        return { got: got.flat(), counts, asked: asked && asked.message };
      })),

  tls: async () => {
    const ways = {
      "behind INFO": { servers: urls.tls, tls: trusting },
      "behind INFO, verified": { servers: urls.verifying, tls: known },
      "first": { servers: urls.first, tls: { ...trusting, handshakeFirst: true } },
      "first, verified": { servers: urls.firstVerifying, tls: { ...known, handshakeFirst: true } },
      "auto, behind INFO": { servers: urls.auto, tls: trusting },
      "auto, first": { servers: urls.auto, tls: { ...trusting, handshakeFirst: true } },
    };
    const got = await all(Object.values(ways));
    return Object.fromEntries(Object.keys(ways).map((way, i) => [way, got[i]]));
  },

  tlsRefused: () =>
    none([
      { servers: urls.verifying, tls: trusting },
      { servers: urls.verifying, tls: stranger },
      { servers: urls.firstVerifying, tls: { ...trusting, handshakeFirst: true } },
      { servers: urls.tls, tls: {} },
    ]),

  tlsLarge: () =>
    using({ servers: urls.tls, tls: trusting }, async (nc) => {
      const sub = nc.subscribe("large");
      for (let i = 0; i < 8; i++) nc.publish("large", new Uint8Array(MIB).map((_, n) => n));
      const got = [];
      for await (const m of sub) {
        got.push(m.data.every((byte, i) => byte === i % 256) ? m.data.length : "damaged");
        if (got.length === 8) break;
      }
      return got;
    }),
});
