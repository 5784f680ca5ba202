// Asks for the password, and opens the page that was asked for. The password is sent once, in the
// body of a request: it is in no address, and the pages do not keep it.

const asksUser = document.body.dataset.asks === "user";
const user = document.getElementById("user");
const password = document.getElementById("password");
const problem = document.getElementById("problem");
const button = document.querySelector("button");

document.getElementById("user-field").hidden = !asksUser;
user.required = asksUser;
document.getElementById("hint").textContent = asksUser
  ? "The user that the server's configuration names for the dashboard."
  : "The token that the dashboard was started with.";
const theme = localStorage.getItem("jetspark-theme");
if (theme) document.documentElement.dataset.theme = theme;
(asksUser ? user : password).focus();

function say(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  say("");
  button.disabled = true;
  try {
    const answer = await fetch("login", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" },
      body: JSON.stringify({ user: user.value, password: password.value }) });
    if (answer.ok) {
      location.reload();
      return;
    }
    const body = await answer.json().catch(() => ({}));
    say(body.error || `The dashboard answered ${answer.status}.`);
  } catch {
    say("The dashboard cannot be reached.");
  }
  button.disabled = false;
  password.select();
});
