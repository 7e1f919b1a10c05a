import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Setting } from "../../../resources/server/settings/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Command } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/field.tsx";
import { Pill } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt, toast } from "../../shell/toasts.tsx";
import { fileLines, inWords, isChangeable, isRetention, SOURCES, shown, variableLine } from "./words.ts";

/** A setting: its meaning, its value with the source, and a button that changes it or says how. */
export function One({ setting }: { setting: Setting }) {
  const [isOpen, setIsOpen] = useState(false);
  const { name, value, meaning, source, set_by: by, is_default: isDefault, changed_at: at } = setting;
  const [word, tone] = SOURCES[by];
  const size = inWords(name, value);
  const isHere = isChangeable(setting);
  return (
    <li>
      <div class="settings-name">
        <code>{name}</code>
        <small>{meaning}</small>
      </div>
      <div class="settings-value">
        <span>
          <code class={isDefault ? "" : "set"}>{shown(value)}</code>
          {size !== undefined && <small>{` ${size}`}</small>}
        </span>
        <span class="row">
          <Pill tone={tone}>{word}</Pill>
          <small>{setting.needs_restart ? "changes with a restart" : "changes at once"}</small>
          {!isDefault && (
            <small title={source}>
              {by === "dashboard" ? "" : `${source}; `}
              {at !== null && by === "dashboard" && (
                <>
                  {"changed "}
                  <Time at={at} />
                  {"; "}
                </>
              )}
              {`default ${shown(setting.default)}`}
            </small>
          )}
        </span>
      </div>
      <Button label={`${isHere ? "Change" : "How to change"} ${name}`} onClick={() => setIsOpen(true)}>
        {isHere ? "Change" : "How to change"}
      </Button>
      {isOpen && isHere && <Change setting={setting} onClose={() => setIsOpen(false)} />}
      {isOpen && !isHere && <HowTo setting={setting} onClose={() => setIsOpen(false)} />}
    </li>
  );
}

type DialogProps = { setting: Setting; onClose: () => void };

function Change({ setting: { name, value, default: fallback, meaning, set_by: by }, onClose }: DialogProps) {
  const [typed, setTyped] = useState(String(value));
  const [error, setError] = useState<string | undefined>(undefined);
  const put = (next: number | null) => api(`/v1/settings/${name}`, { method: "PATCH", body: { value: next } });
  const after = async (said: string) => {
    toast(said);
    onClose();
    await reload("/v1/settings");
  };
  const next = Number(typed);
  const isReady = typed.trim() !== "" && !Number.isNaN(next) && next !== value;
  const save = async () => {
    try {
      await put(next);
      await after(`${name} is ${next} now`);
    } catch (cause) {
      setError(errorText(cause));
    }
  };
  const reset = async () => {
    if (await attempt(() => put(null))) await after(`${name} is back at its default`);
  };
  const size = inWords(name, next);
  return (
    <Dialog title={`Change ${name}`} onClose={onClose}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void save();
        }}
      >
        <div class="stack">
          <p>{meaning}</p>
          <TextField
            label="Value"
            type="number"
            value={typed}
            onInput={(text) => {
              setTyped(text);
              setError(undefined);
            }}
            hint={[size, `default ${shown(fallback)}`].filter(Boolean).join("; ")}
            error={error}
          />
          {isRetention(name) && typeof value === "number" && next < value && (
            <p class="warn">A shorter time removes what is older at the next cleaning. This cannot be undone.</p>
          )}
          <p class="muted">It counts at once and lasts over a restart. The audit log names you and the setting.</p>
        </div>
        <footer class="settings-footer">
          {by === "dashboard" && <Button onClick={reset}>Use the default</Button>}
          <span class="fill" />
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit disabled={!isReady}>
            Save
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** The lines to copy. A secret is not known here, so its place is empty. */
function HowTo({ setting, onClose }: DialogProps) {
  const { name, value, meaning, source, set_by: by, variable, needs_restart: needsRestart } = setting;
  const known = value === "[redacted]" ? "" : value;
  return (
    <Dialog title={`How to change ${name}`} onClose={onClose}>
      <div class="stack">
        <p>{meaning}</p>
        <p>
          {by === "default"
            ? "Its default is in force."
            : `It is set by ${source}${by === "file" ? "" : ", which wins over the file"}.`}
          {needsRestart
            ? " The server reads it when it starts: change the line, then restart."
            : " Remove it there to change it on this page."}
        </p>
        <div class="stack settings-lines">
          <b>In the configuration file</b>
          <Command text={fileLines(name, known)} />
          <b>Or in the environment of the server</b>
          <Command text={variableLine(variable, known)} />
        </div>
        <p class="muted">Check the file before the restart:</p>
        <Command text="verk config check" />
      </div>
    </Dialog>
  );
}
