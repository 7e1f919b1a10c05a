import { useState } from "preact/hooks";
import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { labelsOf } from "./label_lines.ts";
import { NEW, TargetField, targetOf } from "./target.tsx";

const HINT = "One line for each label: tone: kind, rude · stars: 1-5 · note: text · errors: mark wrong, rude";

export function NewQueue({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [mode, setMode] = useState<AnnotationQueue["mode"]>("pairwise");
  const [people, setPeople] = useState("1");
  const [instructions, setInstructions] = useState("");
  const [lines, setLines] = useState("");
  const [target, setTarget] = useState(NEW);
  const labels = labelsOf(lines);
  const create = async () => {
    const queue = await attempt(async () =>
      api<AnnotationQueue>("/v1/annotation_queues", {
        method: "POST",
        body: {
          name: name.trim(),
          dataset_id: await targetOf(target, name, mode),
          mode,
          annotators_per_item: Number(people),
          labels: labels.fields,
          instructions: instructions.trim() === "" ? null : instructions.trim(),
        },
      }),
    );
    if (!queue) return;
    await reload("/v1/annotation_queues");
    navigate(`/annotate/${queue.id}`);
  };
  return (
    <Dialog title="New queue" onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <TextField label="Name" value={name} onInput={setName} placeholder="rivers" />
        <SelectField
          label="Work"
          value={mode}
          options={[
            ["pairwise", "Choose between two answers"],
            ["single", "Label or correct one answer"],
          ]}
          onChange={setMode}
        />
        <TargetField mode={mode} queue={name} value={target} onChange={setTarget} />
        <TextField label="People for each item" type="number" value={people} onInput={setPeople} />
        <TextField
          label="Labels"
          rows={3}
          mono
          value={lines}
          onInput={setLines}
          hint={HINT}
          error={labels.fault}
          placeholder="tone: kind, rude"
        />
        <TextField label="Instructions" rows={3} value={instructions} onInput={setInstructions} />
        <div class="row">
          <Button kind="primary" submit disabled={name.trim() === "" || labels.fault !== undefined}>
            Create queue
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
