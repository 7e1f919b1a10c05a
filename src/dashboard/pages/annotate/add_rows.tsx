import { useState } from "preact/hooks";
import type { Dataset } from "../../../resources/data/datasets/schema.ts";
import { api } from "../../data/api.ts";
import { plural } from "../../data/format.ts";
import { type Page, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { attempt, toast } from "../../shell/toasts.tsx";

/** Rows of a dataset become items of the queue. */
export function AddRows({ path, onClose }: { path: string; onClose: () => void }) {
  const datasets = useResource<Page<Dataset>>("/v1/datasets?limit=100");
  const [chosen, setChosen] = useState("");
  const [limit, setLimit] = useState("100");
  const add = async () => {
    const body = { dataset: { id: chosen, limit: Number(limit) } };
    const answer = await attempt(() => api<{ added: number }>(`${path}/items`, { method: "POST", body }));
    if (!answer) return;
    toast(`${plural(answer.added, "item")} added`);
    await reload(path);
    onClose();
  };
  return (
    <Dialog title="Add the rows of a dataset" onClose={onClose}>
      <div class="stack">
        <SelectField
          label="Dataset"
          value={chosen}
          options={[
            ["", "Choose a dataset"],
            ...(datasets.data?.data ?? []).map(({ id, name }) => [id, name] as const),
          ]}
          onChange={setChosen}
        />
        <TextField label="Most rows" type="number" value={limit} onInput={setLimit} />
        <div class="row">
          <Button kind="primary" disabled={chosen === ""} onClick={add}>
            Add rows
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
