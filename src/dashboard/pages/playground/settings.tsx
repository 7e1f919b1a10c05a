import { TextField } from "../../kit/field.tsx";
import type { Fields, Wrong } from "./request.ts";

type SettingsProps = {
  fields: Fields;
  wrong: Wrong;
  onChange: (fields: Fields) => void;
  onRun: () => unknown;
};

export function Settings({ fields, wrong, onChange, onRun }: SettingsProps) {
  const set = (name: keyof Fields) => (value: string) => onChange({ ...fields, [name]: value });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onRun();
  };
  const isUsed = fields.system !== "" || fields.tools !== "" || fields.schema !== "" || fields.seed !== "";
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: only a shortcut; the button below does the same
    <div class="stack" onKeyDown={onKeyDown}>
      <TextField
        label="Prompt"
        rows={3}
        value={fields.prompt}
        onInput={set("prompt")}
        placeholder="What is 47 + 8?"
        hint="Ctrl+Enter runs it in all columns"
      />
      <details class="playground-more" open={isUsed}>
        <summary>System prompt, tools, JSON schema, sampling</summary>
        <div class="stack">
          <TextField label="System prompt" rows={2} value={fields.system} onInput={set("system")} />
          <div class="grid half">
            <TextField
              label="Tools"
              rows={4}
              mono
              value={fields.tools}
              onInput={set("tools")}
              error={wrong.tools}
              hint="JSON list of functions, each with name and parameters"
            />
            <TextField
              label="JSON schema of the answer"
              rows={4}
              mono
              value={fields.schema}
              onInput={set("schema")}
              error={wrong.schema}
              hint="The answer then always fits the schema"
            />
          </div>
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
              label="Most tokens"
              type="number"
              value={fields.max_tokens}
              onInput={set("max_tokens")}
              error={wrong.max_tokens}
            />
            <TextField label="Seed" type="number" value={fields.seed} onInput={set("seed")} error={wrong.seed} />
          </div>
        </div>
      </details>
    </div>
  );
}
