// nats.js against a jetspark server: publish, subscribe, request, and a stream through the API.
// Prints one line of JSON that the Python test compares.
import { connect } from "@nats-io/transport-node";

const nc = await connect({ servers: process.argv[2] });
const seen = [];
const sub = nc.subscribe("a.*", { max: 2 });
const reading = (async () => {
  for await (const m of sub) seen.push(`${m.subject}=${m.string()}`);
})();
nc.publish("a.b", "1");
nc.publish("a.c", "2");
await reading;

nc.subscribe("double", { callback: (_err, m) => m.respond(m.string().repeat(2)) });
const reply = (await nc.request("double", "xy")).string();

let refused = "";
try {
  await nc.request("nobody", "");
} catch (err) {
  refused = err.cause?.name ?? err.name;
}

await nc.request("$JS.API.STREAM.CREATE.JS", JSON.stringify({ name: "JS", subjects: ["js.>"], allow_direct: true }));
const ack = (await nc.request("js.1", "stored")).json();
const got = (await nc.request("$JS.API.DIRECT.GET.JS.js.1", "")).string();
await nc.drain();
console.log(JSON.stringify({ seen, reply, refused, ack, got }));
