import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../lib/error_text.ts";
import { OIDC_FAILURE_PREFIX, OIDC_FAILURES, type OidcFailure } from "../../lib/net/oidc_failures.ts";
import type { SignInOptions } from "../../resources/access/people/sign_in/schema.ts";
import { ApiError, api } from "../data/api.ts";
import { Button, LinkButton } from "../kit/button.tsx";
import { Command } from "../kit/copy.tsx";
import { TextField } from "../kit/field.tsx";
import { Gate } from "./gate.tsx";
import { signIn, signInWithPassword } from "./sign_in.ts";

const KEYS_ONLY: SignInOptions = { object: "sign_in_options", password: false, oidc: null };

/** Read once, before the address is cleaned. Only texts of the table are shown: anyone can make a link. */
const failure = location.hash.startsWith(OIDC_FAILURE_PREFIX)
  ? OIDC_FAILURES[location.hash.slice(OIDC_FAILURE_PREFIX.length) as OidcFailure]
  : undefined;

/** `why`: the server ended the session for this reason. */
export function SignInPage({ why }: { why: string | undefined }) {
  const [options, setOptions] = useState<SignInOptions | undefined>(undefined);
  const [withKey, setWithKey] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Verk";
    if (location.hash.startsWith(OIDC_FAILURE_PREFIX)) history.replaceState(null, "", location.pathname);
    void api<SignInOptions>("/v1/logins/options").then(setOptions, () => setOptions(KEYS_ONLY));
  }, []);
  return (
    <Gate title="Sign in">
      {failure && (
        <p class="bad" role="alert">
          {failure}
        </p>
      )}
      {options?.oidc && (
        <LinkButton kind="primary" href={`/v1/logins/oidc?return_to=${encodeURIComponent(location.pathname)}`}>
          Sign in with {options.oidc.name}
        </LinkButton>
      )}
      {options && (options.password && !withKey ? <PasswordForm why={why} /> : <KeyForm why={why} />)}
      {options?.password && (
        <Button kind="quiet" onClick={() => setWithKey(!withKey)}>
          {withKey ? "Use a password" : "Use an API key"}
        </Button>
      )}
    </Gate>
  );
}

/** Sends a form: the error of the last try, whether one is under way, and the handler. */
function useSubmit(why: string | undefined, send: () => Promise<void>) {
  const [error, setError] = useState(why);
  const [busy, setBusy] = useState(false);
  useEffect(() => document.querySelector<HTMLInputElement>(".gate input")?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await send().catch((cause: unknown) => setError(errorText(cause)));
    setBusy(false);
  };
  return { error, busy, submit };
}

function PasswordForm({ why }: { why: string | undefined }) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [needsCode, setNeedsCode] = useState(false);
  const { error, busy, submit } = useSubmit(why, () =>
    signInWithPassword({ email, password }).catch((cause: unknown) => {
      if (!(cause instanceof ApiError) || cause.code !== "second_factor_required") throw cause;
      setNeedsCode(true);
    }),
  );
  if (needsCode) return <CodeForm email={email} password={password} />;
  return (
    <form class="stack" onSubmit={submit}>
      <TextField label="E-mail address" type="email" value={email} onInput={setEmail} autocomplete="username" />
      <TextField
        label="Password"
        type="password"
        value={password}
        onInput={setPassword}
        autocomplete="current-password"
        error={error}
      />
      <Button submit kind="primary" disabled={busy || email.trim() === "" || password === ""}>
        Sign in
      </Button>
    </form>
  );
}

/** The second step, for a person with a second factor. */
function CodeForm({ email, password }: { email: string; password: string }) {
  const [code, setCode] = useState("");
  const { error, busy, submit } = useSubmit(undefined, () => signInWithPassword({ email, password, code }));
  return (
    <form class="stack" onSubmit={submit}>
      <TextField
        label="Code"
        value={code}
        onInput={setCode}
        autocomplete="one-time-code"
        error={error}
        hint="The six digits of your authenticator app, or a recovery code."
      />
      <Button submit kind="primary" disabled={busy || code.trim() === ""}>
        Sign in
      </Button>
    </form>
  );
}

function KeyForm({ why }: { why: string | undefined }) {
  const [key, setKey] = useState("");
  const { error, busy, submit } = useSubmit(why, () => signIn(key));
  return (
    <form class="stack" onSubmit={submit}>
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
  );
}
