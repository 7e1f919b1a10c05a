/** The page of an invitation: a person chooses a name and a password, or joins with an account, and is signed in. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import { ApiError } from "../data/api.ts";
import { Button } from "../kit/button.tsx";
import { CheckField, TextField } from "../kit/field.tsx";
import { Gate } from "./gate.tsx";
import { navigate } from "./router.ts";
import { acceptInvitation } from "./sign_in.ts";

/** Read once, before the address is cleaned: the token must not stay in the address bar. */
const token = location.pathname === "/invitation" ? location.hash.slice(1) : "";

export function InvitationPage() {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [hasAccount, setHasAccount] = useState(false);
  const [code, setCode] = useState<string>();
  const [error, setError] = useState<string>();
  useEffect(() => {
    document.title = "Invitation · Verk";
    history.replaceState(null, "", "/invitation");
  }, []);
  const accept = async (event: Event) => {
    event.preventDefault();
    const more = { ...(name.trim() === "" ? {} : { name }), ...(code === undefined ? {} : { code }) };
    const credentials = password === "" ? {} : { password }; // a browser that is signed in needs none
    try {
      await acceptInvitation({ token, has_account: hasAccount, ...credentials, ...more });
      navigate("/", { replace: true });
    } catch (cause) {
      if (cause instanceof ApiError && cause.code === "second_factor_required") setCode("");
      setError(errorText(cause));
    }
  };
  return (
    <Gate title="You are invited">
      {token === "" && <p class="muted">The address has no token. Open the whole link that you were sent.</p>}
      <form class="stack" onSubmit={accept}>
        <CheckField label="I have an account on this server" checked={hasAccount} onChange={setHasAccount} />
        {!hasAccount && <TextField label="Your name" value={name} onInput={setName} />}
        <TextField
          label="Password"
          type="password"
          value={password}
          onInput={setPassword}
          autocomplete={hasAccount ? "current-password" : "new-password"}
          error={error}
          hint={
            hasAccount
              ? "The password of your account. Leave it empty if this browser is signed in to it."
              : "10 to 200 characters. The password opens this workspace alone."
          }
        />
        {code !== undefined && <TextField label="Code" value={code} onInput={setCode} autocomplete="one-time-code" />}
        <Button submit kind="primary" disabled={token === "" || (password === "" && !hasAccount)}>
          Accept
        </Button>
      </form>
    </Gate>
  );
}
