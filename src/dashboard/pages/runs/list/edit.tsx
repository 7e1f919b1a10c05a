/** Tags and the group of the picked runs. */
import { useState } from "preact/hooks";
import { api } from "../../../data/api.ts";
import { plural } from "../../../data/format.ts";
import { FormDialog } from "../../../kit/dialog.tsx";
import { CheckField, TextField } from "../../../kit/field.tsx";
import { toast } from "../../../shell/toasts.tsx";
import { jobPath } from "../types.ts";
import type { ListedRun } from "./columns.tsx";
import { tagsOf } from "./fields.ts";

type EditProps = { runs: readonly ListedRun[]; onDone: () => Promise<unknown>; onClose: () => void };

export function EditRuns({ runs, onDone, onClose }: EditProps) {
  const [added, setAdded] = useState("");
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set());
  const groups = [...new Set(runs.map(({ group }) => group ?? ""))];
  const before = groups.length === 1 ? (groups[0] ?? "") : "";
  const [group, setGroup] = useState(before);
  const tags = [...new Set(runs.flatMap((run) => run.tags))].sort();
  const save = async () => {
    for (const run of runs) {
      const next = [...new Set([...run.tags.filter((tag) => !removed.has(tag)), ...tagsOf(added)])];
      const body = { tags: next, ...(group === before ? {} : { group: group.trim() || null }) };
      await api(jobPath(run.id), { method: "PATCH", body });
    }
    await onDone();
    toast("Saved");
  };
  const drop = (tag: string, isKept: boolean) => {
    const next = new Set(removed);
    if (isKept) next.delete(tag);
    else next.add(tag);
    setRemoved(next);
  };
  return (
    <FormDialog title={`Tags and group of ${plural(runs.length, "run")}`} verb="Save" onSubmit={save} onClose={onClose}>
      <TextField label="Add tags" value={added} onInput={setAdded} hint="Several are separated by commas." />
      {tags.length > 0 && (
        <fieldset class="runs-kept-tags">
          <legend>Tags that stay</legend>
          {tags.map((tag) => (
            <CheckField key={tag} label={tag} checked={!removed.has(tag)} onChange={(on) => drop(tag, on)} />
          ))}
        </fieldset>
      )}
      <TextField
        label="Group"
        value={group}
        onInput={setGroup}
        hint={groups.length > 1 ? "They are in several groups. A text puts all of them into one." : "Empty: no group."}
      />
    </FormDialog>
  );
}
