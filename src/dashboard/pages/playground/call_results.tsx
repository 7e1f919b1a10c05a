/** Fields for the results of tools that an answer calls. A person types them, because the page runs no tools. */
import { useState } from "preact/hooks";
import { Button } from "../../kit/button.tsx";
import { TextField } from "../../kit/field.tsx";
import type { Call } from "./answer.ts";

type ResultsProps = { calls: readonly Call[]; onSend: (texts: ReadonlyMap<string, string>) => void };

export function CallResults({ calls, onSend }: ResultsProps) {
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(new Map());
  return (
    <form
      class="playground-results"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(texts);
      }}
    >
      {calls.map(({ id, name }) => (
        <TextField
          key={id}
          label={`Result of ${name}`}
          rows={2}
          mono
          value={texts.get(id) ?? ""}
          onInput={(text) => setTexts(new Map(texts).set(id, text))}
          placeholder='{"result": 55}'
        />
      ))}
      <div class="row">
        <Button kind="primary" submit>
          {texts.size === 0 ? "Continue without results" : "Send results"}
        </Button>
      </div>
    </form>
  );
}
