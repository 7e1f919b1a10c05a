/** Tags, group and notes, which people write on a run. */
import { useState } from "preact/hooks";
import { api } from "../../../data/api.ts";
import { load } from "../../../data/resource.ts";
import { may } from "../../../data/session.ts";
import { Button } from "../../../kit/button.tsx";
import { Card } from "../../../kit/card.tsx";
import { FormDialog } from "../../../kit/dialog.tsx";
import { TextField } from "../../../kit/field.tsx";
import { toast } from "../../../shell/toasts.tsx";
import { Tags } from "../list/columns.tsx";
import { tagsOf } from "../list/fields.ts";
import { jobPath, type TrainingJob } from "../types.ts";

export function About({ job }: { job: TrainingJob }) {
  const [isOpen, setOpen] = useState(false);
  const { tags, group, notes } = job;
  const isEmpty = tags.length === 0 && group === null && notes === "";
  const mayWrite = may("training", false);
  if (isEmpty && !mayWrite) return null;
  return (
    <Card
      title="About this run"
      side={
        mayWrite && (
          <Button kind="quiet" onClick={() => setOpen(true)} label="Edit tags, group and notes">
            Edit
          </Button>
        )
      }
    >
      <div class="stack runs-about">
        {isEmpty && <p class="muted">No tags and no notes yet.</p>}
        {tags.length > 0 && <Tags tags={tags} />}
        {group !== null && (
          <p>
            <span class="muted">Group </span>
            <a class="ref" href={`/runs?q=${encodeURIComponent(groupSearch(group))}`}>
              {group}
            </a>
          </p>
        )}
        {notes !== "" && <pre class="text">{notes}</pre>}
      </div>
      {isOpen && <Edit job={job} onClose={() => setOpen(false)} />}
    </Card>
  );
}

/** A search of one word cannot name a group with spaces: then its words are searched. */
const groupSearch = (group: string) => (/\s/.test(group) ? group : `group:${group}`);

function Edit({ job, onClose }: { job: TrainingJob; onClose: () => void }) {
  const [tags, setTags] = useState(job.tags.join(", "));
  const [group, setGroup] = useState(job.group ?? "");
  const [notes, setNotes] = useState(job.notes);
  const save = async () => {
    const body = { tags: tagsOf(tags), group: group.trim() || null, notes };
    await api(jobPath(job.id), { method: "PATCH", body });
    await load(jobPath(job.id));
    toast("Saved");
  };
  return (
    <FormDialog title="About this run" verb="Save" onSubmit={save} onClose={onClose}>
      <TextField label="Tags" value={tags} onInput={setTags} hint="Several are separated by commas." />
      <TextField label="Group" value={group} onInput={setGroup} hint="Runs that belong together." />
      <TextField label="Notes" value={notes} onInput={setNotes} rows={6} />
    </FormDialog>
  );
}
