/** A new key. It is shown once, with a copy button. */
import { useState } from "preact/hooks";
import type { Scope } from "../../../context.ts";
import { errorText } from "../../../lib/error_text.ts";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { CheckField, SelectField, TextField } from "../../kit/field.tsx";
import { ErrorBox } from "../../kit/page.tsx";
import { SCOPE_WORDS } from "./scopes.ts";

const LIVES = [
  ["", "As the server is set"],
  ["1", "After a day"],
  ["30", "After 30 days"],
  ["365", "After a year"],
  ["never", "Never"],
] as const;
const DAY_MS = 86_400_000;
const ALL = Object.keys(SCOPE_WORDS) as Scope[];

/** Without a choice the field is left out: the server has a life for keys (api_keys.life_days). */
function endOf(days: (typeof LIVES)[number][0]): { expires_at?: string | null } {
  if (days === "") return {};
  return { expires_at: days === "never" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString() };
}

export function Create({ onClose }: { onClose: () => void }) {
  const [key, setKey] = useState<string>();
  return (
    <Dialog title={key === undefined ? "New key" : "Copy the key now"} onClose={onClose}>
      {key === undefined ? <Form onMade={setKey} onClose={onClose} /> : <Shown text={key} onClose={onClose} />}
    </Dialog>
  );
}

const Shown = ({ text, onClose }: { text: string; onClose: () => void }) => (
  <>
    <div class="stack">
      <p>This is the only time that the key is shown. Only its hash is stored.</p>
      <div class="command">
        <code>{text}</code>
        <Copy text={text} label="Copy the key" />
      </div>
    </div>
    <footer>
      <Button kind="primary" onClick={onClose}>
        Done
      </Button>
    </footer>
  </>
);

function Form({ onMade, onClose }: { onMade: (key: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>(["*"]);
  const [budget, setBudget] = useState("");
  const [days, setDays] = useState<(typeof LIVES)[number][0]>("");
  const [error, setError] = useState<ApiError>();
  const create = async () => {
    const body = {
      name,
      scopes,
      monthly_budget_usd: budget.trim() === "" ? null : Number(budget),
      ...endOf(days),
    };
    try {
      const { key } = await api<ApiKey & { key: string }>("/v1/api_keys", { method: "POST", body });
      void reload("/v1/api_keys");
      onMade(key);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
    }
  };
  const set = (scope: Scope, isOn: boolean) =>
    setScopes(isOn ? [...scopes, scope] : scopes.filter((each) => each !== scope));
  return (
    <>
      <div class="stack">
        <TextField label="Name" value={name} onInput={setName} hint="Who or what uses it." />
        <fieldset class="keys-scopes">
          <legend>Scopes</legend>
          {ALL.filter((scope) => scope !== "admin" || may("admin")).map((scope) => (
            <CheckField
              key={scope}
              label={`${SCOPE_WORDS[scope][0]}: ${SCOPE_WORDS[scope][1]}`}
              checked={scopes.includes(scope)}
              onChange={(isOn) => set(scope, isOn)}
            />
          ))}
        </fieldset>
        <div class="grid half">
          <TextField
            label="Budget in dollars a month"
            value={budget}
            onInput={setBudget}
            type="number"
            hint="Empty: no limit of its own."
          />
          <SelectField label="Expires" value={days} options={LIVES} onChange={setDays} />
        </div>
        {error && <ErrorBox error={error} />}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={create} disabled={name.trim() === "" || scopes.length === 0}>
          Create key
        </Button>
      </footer>
    </>
  );
}
