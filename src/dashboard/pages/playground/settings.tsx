/** The system prompt, which is always seen, and the settings of requests. */
import { JsonField } from "../../kit/code/editor.tsx";
import { TextField } from "../../kit/field.tsx";
import { DEFAULTS, type Fields, type Wrong } from "./request.ts";

type SettingsProps = { fields: Fields; wrong: Wrong; onChange: (fields: Fields) => void };

export function Settings({ fields, wrong, onChange }: SettingsProps) {
  const set = (name: keyof Fields) => (value: string) => onChange({ ...fields, [name]: value });
  const changed = (Object.keys(DEFAULTS) as (keyof Fields)[]).filter(
    (name) => name !== "system" && fields[name] !== DEFAULTS[name],
  );
  return (
    <div class="playground-settings">
      <TextField
        label="System prompt"
        rows={Math.min(8, Math.max(1, fields.system.split("\n").length))}
        value={fields.system}
        onInput={set("system")}
        placeholder="None. For example: Answer in one sentence."
      />
      <details class="playground-more" open={Object.keys(wrong).length > 0 ? true : undefined}>
        <summary>{changed.length === 0 ? "Settings" : `Settings, ${changed.length} changed`}</summary>
        <div class="stack">
          <div class="grid three">
            <TextField
              label="Temperature"
              type="number"
              value={fields.temperature}
              onInput={set("temperature")}
              error={wrong.temperature}
              hint="0 always takes the most likely token"
            />
            <TextField
              label="Most tokens of an answer"
              type="number"
              value={fields.max_tokens}
              onInput={set("max_tokens")}
              error={wrong.max_tokens}
              hint="Empty: the rest of the context"
            />
            <TextField
              label="Seed"
              type="number"
              value={fields.seed}
              onInput={set("seed")}
              error={wrong.seed}
              hint="The same seed gives the same answer"
            />
          </div>
          <div class="grid half">
            <JsonField
              label="Tools"
              rows={4}
              value={fields.tools}
              onInput={set("tools")}
              error={wrong.tools}
              hint="JSON list of functions, each with name and parameters"
            />
            <JsonField
              label="JSON schema of the answer"
              rows={4}
              value={fields.schema}
              onInput={set("schema")}
              error={wrong.schema}
              hint="The answer then always fits the schema"
            />
          </div>
        </div>
      </details>
    </div>
  );
}
