/** A trace as a row of a dataset, with the answer as it should have been. */
import { useState } from "preact/hooks";
import type { Append, Dataset } from "../../../resources/data/datasets/schema.ts";
import { api } from "../../data/api.ts";
import { type Page, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Json } from "../../kit/json.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { answerOf, type RowFormat, rowOf } from "./request.ts";
import type { Trace } from "./types.ts";

const NEW = "";
const FORMATS: readonly (readonly [RowFormat, string])[] = [
  ["chat", "Chat: learn the answer (SFT)"],
  ["completion", "Prompt and completion (SFT)"],
  ["prompt", "Prompt with the answer for a reward (GRPO)"],
];
const isRowFormat = (format: string | null): format is RowFormat => FORMATS.some(([each]) => each === format);

export function ToDataset({ trace, onClose }: { trace: Trace; onClose: () => void }) {
  const list = useResource<Page<Dataset>>("/v1/datasets?limit=100");
  const [id, setId] = useState<string>();
  const [name, setName] = useState("from-traces");
  const [first, setFirst] = useState<RowFormat>("chat");
  const [answer, setAnswer] = useState(answerOf(trace.output));
  const usable = (list.data?.data ?? []).filter(({ num_rows, format }) => num_rows !== null && isRowFormat(format));
  const chosen = id === NEW ? undefined : (usable.find((each) => each.id === id) ?? usable[0]);
  const format = isRowFormat(chosen?.format ?? null) ? (chosen?.format as RowFormat) : first;
  const row = rowOf(trace, answer, format);
  const add = async () => {
    const done = await attempt(async () => {
      const to =
        chosen ?? (await api<Dataset>("/v1/datasets", { method: "POST", body: { name: name.trim(), format } }));
      await api<Append>(`/v1/datasets/${to.id}/rows`, { method: "POST", body: { rows: [row] } });
      await reload("/v1/datasets");
      return to;
    }, "Added to the dataset");
    if (!done) return;
    onClose();
    navigate(`/datasets/${done.id}`);
  };
  return (
    <Dialog title="Add to dataset" onClose={onClose} wide>
      <div class="stack">
        <div class="grid half">
          <SelectField
            label="Dataset"
            value={chosen?.id ?? NEW}
            options={[...usable.map((each) => [each.id, each.name] as const), [NEW, "A new dataset"]]}
            onChange={setId}
          />
          {!chosen && <TextField label="Name" value={name} onInput={setName} />}
          {!chosen && <SelectField label="Format" value={first} options={FORMATS} onChange={setFirst} />}
        </div>
        <TextField
          label="Answer"
          rows={4}
          value={answer}
          onInput={setAnswer}
          hint="As the model should have said it. Correct it here"
        />
        <section aria-label="The row">
          <Json value={row} />
        </section>
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="primary" onClick={add} disabled={!chosen && name.trim() === ""}>
          Add row
        </Button>
      </footer>
    </Dialog>
  );
}
