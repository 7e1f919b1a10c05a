/** The page of the setup link: makes the first key, shows it once, and signs in with it. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { api } from "../../data/api.ts";
import { Button } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Gate } from "../../shell/gate.tsx";
import { navigate } from "../../shell/router.ts";
import { signIn } from "../../shell/sign_in.ts";

/** Read once, before the address is cleaned: the token must not stay in the address bar. */
const token = new URLSearchParams(location.search).get("token") ?? location.hash.slice(1);

export function SetupPage() {
  const [key, setKey] = useState<string | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  useEffect(() => {
    document.title = "Welcome · Verk";
    history.replaceState(null, "", "/setup");
  }, []);
  const make = async () => {
    try {
      const answer = await api<{ key: string }>("/setup", { method: "POST", body: { token } });
      setKey(answer.key);
      await signIn(answer.key);
    } catch (cause) {
      setError(errorText(cause));
    }
  };
  return (
    <Gate title="Welcome to Verk">
      {key === undefined ? (
        <>
          <p>
            This link works once. It makes an admin key for the workspace <b>default</b>.
          </p>
          {error !== undefined && (
            <p class="bad" role="alert">
              {error}
            </p>
          )}
          <Button kind="primary" onClick={make} disabled={token === ""}>
            Create my admin key
          </Button>
          {token === "" && <p class="muted">The address has no token. Open the link that the server printed.</p>}
        </>
      ) : (
        <>
          <p>This is your admin key. Keep it in a safe place: it is shown only now.</p>
          <div class="command">
            <code>{key}</code>
          </div>
          <div class="row">
            <Copy text={key} label="Copy the key" shown="Copy the key" />
            <Button kind="primary" onClick={() => navigate("/welcome")}>
              Get started
            </Button>
          </div>
        </>
      )}
    </Gate>
  );
}
