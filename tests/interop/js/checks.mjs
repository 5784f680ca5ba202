// What the scripts share: their argument, their checks, and lines of JSON to the Python test.
import { connect } from "@nats-io/transport-node";

// Nothing takes this long unless something is broken.
const PATIENCE_MS = 20_000;

// What the test told the script: addresses and files.
export const given = JSON.parse(process.argv[2] ?? "{}");

// Tell the test something.
export function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

// A promise that fails when it takes too long.
export async function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Run the checks one after the other and report what each returned, or how it failed.
export async function run(checks) {
  const results = {};
  for (const [name, check] of Object.entries(checks)) {
    try {
      results[name] = (await soon(check(), name)) ?? null;
    } catch (err) {
      results[name] = { failed: `${err.name}: ${err.message}` };
    }
  }
  say({ results });
  process.exit(0);
}

// Connect, use the connection, close it.
export async function using(options, use) {
  const nc = await connect({ reconnect: false, ...options });
  try {
    return await use(nc);
  } finally {
    await nc.close();
  }
}

// The next messages of a subscription as `subject=payload`.
export async function texts(sub, count) {
  const got = [];
  if (count > 0) {
    for await (const m of sub) {
      got.push(`${m.subject}=${m.string()}`);
      if (got.length === count) break;
    }
  }
  return got;
}

// How a promise failed: the name of the error and what it says.
export async function failure(promise) {
  try {
    await promise;
  } catch (err) {
    return { name: err.name, message: err.message, code: err.code ?? null };
  }
  return null;
}

// The next status of a kind.
export async function status(nc, type) {
  for await (const s of nc.status()) {
    if (s.type === type) return s;
  }
  throw new Error(`the connection ended before ${type}`);
}
