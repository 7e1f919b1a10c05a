/** Adds a second factor in three steps: password, first code, recovery codes. Removes it with password and code. */
import { useState } from "preact/hooks";
import type { Me, RecoveryCodes, SecondFactorSecret } from "../../../resources/access/people/me/schema.ts";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { TextField } from "../../kit/field.tsx";
import { attempt } from "../../shell/toasts.tsx";

type Step = { is: "password" } | { is: "code"; begun: SecondFactorSecret } | { is: "done"; codes: readonly string[] };

export function SecondFactorCard({ me }: { me: Me }) {
  const [step, setStep] = useState<Step>({ is: "password" });
  const left = me.recovery_codes_left;
  return (
    <Card title="Second factor" note={left === null ? "off" : `on, ${plural(left, "recovery code")} left`}>
      {step.is === "done" && <Codes codes={step.codes} onClose={() => setStep({ is: "password" })} />}
      {step.is === "code" && <Confirm begun={step.begun} onDone={(codes) => setStep({ is: "done", codes })} />}
      {step.is === "password" && left === null && <Begin onBegun={(begun) => setStep({ is: "code", begun })} />}
      {step.is === "password" && left !== null && <Remove />}
    </Card>
  );
}

function Begin({ onBegun }: { onBegun: (begun: SecondFactorSecret) => void }) {
  const [password, setPassword] = useState("");
  const begin = (event: Event) => {
    event.preventDefault();
    return attempt(async () => {
      const body = { password };
      onBegun(await api<SecondFactorSecret>("/v1/me/second_factor", { method: "POST", body }));
    });
  };
  return (
    <form class="stack" onSubmit={begin}>
      <p>With a second factor, sign-in asks for a code of an authenticator app on your phone too.</p>
      <TextField
        label="Your password"
        type="password"
        value={password}
        onInput={setPassword}
        autocomplete="current-password"
      />
      <div class="row">
        <Button submit disabled={password === ""}>
          Add a second factor
        </Button>
      </div>
    </form>
  );
}

type ConfirmProps = { begun: SecondFactorSecret; onDone: (codes: readonly string[]) => void };

function Confirm({ begun, onDone }: ConfirmProps) {
  const [code, setCode] = useState("");
  const confirm = (event: Event) => {
    event.preventDefault();
    return attempt(async () => {
      const path = "/v1/me/second_factor/confirm";
      const { recovery_codes: codes } = await api<RecoveryCodes>(path, { method: "POST", body: { code } });
      onDone(codes);
      await Promise.all([reload("/v1/me"), reload("/v1/browser_sessions")]);
    });
  };
  return (
    <form class="stack" onSubmit={confirm}>
      <p>Type this secret into your authenticator app, or open the link on your phone.</p>
      <div class="command">
        <code>{begun.secret}</code>
        <Copy text={begun.secret} label="Copy the secret" />
      </div>
      <a href={begun.otpauth_uri}>Open in an authenticator app</a>
      <TextField
        label="Code that the app shows"
        value={code}
        onInput={setCode}
        autocomplete="one-time-code"
        hint="Six digits."
      />
      <div class="row">
        <Button submit kind="primary" disabled={code.trim() === ""}>
          Turn on
        </Button>
      </div>
    </form>
  );
}

function Codes({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
  const text = codes.join("\n");
  return (
    <div class="stack">
      <p>The second factor is on. Keep these recovery codes: each replaces one code of the app, once.</p>
      <div class="command">
        <code class="me-codes">{text}</code>
        <Copy text={text} label="Copy the recovery codes" />
      </div>
      <div class="row">
        <Button kind="primary" onClick={onClose}>
          I have kept them
        </Button>
      </div>
    </div>
  );
}

function Remove() {
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const remove = (event: Event) => {
    event.preventDefault();
    return attempt(async () => {
      await api("/v1/me/second_factor/remove", { method: "POST", body: { password, code } });
      await reload("/v1/me");
    }, "The second factor is removed");
  };
  return (
    <form class="stack" onSubmit={remove}>
      <TextField
        label="Your password"
        type="password"
        value={password}
        onInput={setPassword}
        autocomplete="current-password"
      />
      <TextField label="Code, or a recovery code" value={code} onInput={setCode} autocomplete="one-time-code" />
      <div class="row">
        <Button submit kind="danger" disabled={password === "" || code.trim() === ""}>
          Remove the second factor
        </Button>
      </div>
    </form>
  );
}
