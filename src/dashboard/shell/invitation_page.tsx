/** The page of an invitation: a person chooses a name and a password, and is signed in. */
import { useEffect, useState } from "preact/hooks";
import { ApiError, messageOf } from "../data/api.ts";
import { Button } from "../kit/button.tsx";
import { TextField } from "../kit/field.tsx";
import { navigate } from "./router.ts";
import { acceptInvitation } from "./sign_in.ts";

/** Read once, before the address is cleaned: the token must not stay in the address bar. */
const token = location.pathname === "/invitation" ? location.hash.slice(1) : "";

export function InvitationPage() {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [code, setCode] = useState<string>();
  const [error, setError] = useState<string>();
  useEffect(() => {
    document.title = "Invitation · Verk";
    history.replaceState(null, "", "/invitation");
  }, []);
  const accept = async (event: Event) => {
    event.preventDefault();
    const more = { ...(name.trim() === "" ? {} : { name }), ...(code === undefined ? {} : { code }) };
    try {
      await acceptInvitation({ token, password, ...more });
      navigate("/", { replace: true });
    } catch (cause) {
      if (cause instanceof ApiError && cause.code === "second_factor_required") setCode("");
      setError(messageOf(cause));
    }
  };
  return (
    <main class="gate">
      <div class="card">
        <span class="brand">
          ver<i>k</i>
        </span>
        <h1>You are invited</h1>
        {token === "" && <p class="muted">The address has no token. Open the whole link that you were sent.</p>}
        <form class="stack" onSubmit={accept}>
          <TextField label="Your name" value={name} onInput={setName} />
          <TextField
            label="Password"
            type="password"
            value={password}
            onInput={setPassword}
            autocomplete="new-password"
            error={error}
            hint="10 to 200 characters. If you have an account on this server, its password."
          />
          {code !== undefined && <TextField label="Code" value={code} onInput={setCode} autocomplete="one-time-code" />}
          <Button submit kind="primary" disabled={token === "" || password === ""}>
            Accept
          </Button>
        </form>
      </div>
    </main>
  );
}
