import { useState } from "preact/hooks";
import type { AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { FormDialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { navigate } from "../../shell/router.ts";
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
    const queue = await api<AnnotationQueue>("/v1/annotation_queues", {
      method: "POST",
      body: {
        name: name.trim(),
        dataset_id: await targetOf(target, name, mode),
        mode,
        annotators_per_item: Number(people),
        labels: labels.fields,
        instructions: instructions.trim() === "" ? null : instructions.trim(),
      },
    });
    await reload("/v1/annotation_queues");
    navigate(`/annotate/${queue.id}`);
  };
  return (
    <FormDialog
      title="New queue"
      verb="Create queue"
      isReady={name.trim() !== "" && labels.fault === undefined}
      onSubmit={create}
      onClose={onClose}
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
    </FormDialog>
  );
}
