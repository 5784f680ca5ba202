// Publish a test message; only where the dashboard may write.

import { h, replace } from "../dom.js";
import { post } from "../api.js";
import { count } from "../format.js";
import { empty, failure, field, pageHead } from "../parts.js";
import { streamHref } from "./streams.js";

export async function publish(context) {
  if (!context.session.writable) {
    return [pageHead("Publish"), empty("The dashboard is read-only", "It can publish test messages, edit keys and pause consumers if it is started so, with a password. In a server (monitor_token of its jetspark block is the password), or over any:",
      h("pre", { class: "payload" }, h("code", {}, "jetspark serve --dashboard-write\nJETSPARK_DASHBOARD_TOKEN=… jetspark dashboard --write")))];
  }
  const subject = h("input", { type: "text", required: true, value: context.query.get("subject") ?? "", placeholder: "orders.de.new", spellcheck: "false", autocomplete: "off", "data-search": true });
  const headers = h("textarea", { rows: 3, placeholder: "Name: value", spellcheck: "false" });
  const data = h("textarea", { rows: 10, spellcheck: "false" });
  const stored = h("input", { type: "checkbox", checked: true });
  const result = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "card stack", onsubmit: async (event) => {
    event.preventDefault();
    try {
      const pairs = headers.value.split("\n").filter((line) => line.trim()).map((line) => {
        const at = line.indexOf(":");
        if (at < 1) throw new Error(`"${line}" is no header: expected Name: value`);
        return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      });
      const found = await post("publish", { subject: subject.value.trim(), data: data.value, headers: pairs, mode: stored.checked ? "stored" : "core" });
      replace(result, h("p", { class: "notice good" }, found.stream
        ? ["Stored in ", h("a", { href: streamHref(found.stream, "", `?from=${found.seq}`) }, `${found.stream}, sequence ${count(found.seq)}`), found.duplicate ? ", as a duplicate." : "."]
        : "Sent to the subscribers of the subject."));
    } catch (error) {
      replace(result, failure(error));
    }
  } }, field("Subject", subject), field("Headers", headers, "One per line"), field("Payload", data),
  h("label", { class: "check" }, stored, " Wait until a stream has stored it"), h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary" }, "Publish")), result);
  return [pageHead("Publish", { note: "A test message." }), form];
}
