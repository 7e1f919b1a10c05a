import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../data/api.ts";
import { Button } from "../kit/button.tsx";
import { Command } from "../kit/copy.tsx";
import { TextField } from "../kit/field.tsx";
import { signIn } from "./sign_in.ts";

/** `why`: the server ended the session for this reason. */
export function SignInPage({ why }: { why: string | undefined }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState(why);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Verk";
    document.querySelector<HTMLInputElement>(".gate input")?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await signIn(key).catch((cause: unknown) => setError(messageOf(cause)));
    setBusy(false);
  };
  return (
    <main class="gate">
      <form class="card" onSubmit={submit}>
        <span class="brand">
          ver<i>k</i>
        </span>
        <h1>Sign in</h1>
        <TextField
          label="API key"
          type="password"
          mono
          placeholder="vk_…"
          value={key}
          onInput={setKey}
          error={error}
          hint="The key becomes a session of this browser. It is not stored in the page."
        />
        <Button submit kind="primary" disabled={busy || key.trim() === ""}>
          Sign in
        </Button>
        <p class="muted">No key? Make one on the server:</p>
        <Command text="verk keys create --scope admin" />
      </form>
    </main>
  );
}
