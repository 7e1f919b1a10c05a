/** Chooses what a column shows: a deployment, an agent, a base model, or a checkpoint of a run. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { useRunNames } from "../../data/run_names.ts";
import { may } from "../../data/session.ts";
import { Dialog } from "../../kit/dialog.tsx";
import { SelectField } from "../../kit/field.tsx";
import { type Column, isActive } from "./columns.ts";
import { type Checkpoints, stepOf } from "./titles.ts";

type PickerProps = {
  title: string;
  deployments: readonly Deployment[];
  agents: readonly Agent[];
  onPick: (column: Column) => void;
  onClose: () => void;
};

export function Picker({ title, deployments, agents, onPick, onClose }: PickerProps) {
  const models = useResource<ListPage<Model>>("/v1/models?registry=true&limit=100").data?.data ?? [];
  const jobs =
    useResource<ListPage<TrainingJob>>(may("training") ? "/v1/training_jobs?limit=50" : null).data?.data ?? [];
  const nameOf = useRunNames();
  const bases = models.filter(
    ({ type, job_id: job, status }) => type === "model" && job === null && status === "ready",
  );
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">
        <Group title="Deployments" none="No deployment runs.">
          {deployments.filter(isActive).map(({ id, name, model }) => (
            <Choice key={id} name={name} note={nameOf(model)} onPick={() => onPick({ kind: "deployment", id })} />
          ))}
        </Group>
        {agents.length > 0 && (
          <Group title="Agents" none="">
            {agents.map(({ id, name, version, deployment }) => (
              <Choice
                key={id}
                name={name}
                note={`version ${version}, ${deployment}`}
                onPick={() => onPick({ kind: "agent", name })}
              />
            ))}
          </Group>
        )}
        <Group title="Base models" none="No model is on this server.">
          {bases.map(({ id, name }) => (
            <Choice key={id} name={name} note="without adapter" onPick={() => onPick({ kind: "model", name })} />
          ))}
        </Group>
        {jobs.length > 0 && <Steps jobs={jobs} onPick={onPick} />}
      </div>
    </Dialog>
  );
}

function Steps({ jobs, onPick }: { jobs: readonly TrainingJob[]; onPick: PickerProps["onPick"] }) {
  const job = useSignal(jobs[0]?.id ?? "");
  const checkpoints = useResource<Checkpoints>(
    job.value === "" ? null : `/v1/training_jobs/${encodeURIComponent(job.value)}/checkpoints?limit=100`,
  ).data;
  const isDone = jobs.find(({ id }) => id === job.value)?.status === "completed";
  const pick = (checkpoint: string | null) => onPick({ kind: "run", job: job.value, checkpoint });
  return (
    <>
      <SelectField
        label="Checkpoints of a run"
        value={job.value}
        options={jobs.map(({ id, output_name: name }) => [id, `${name} (${id.slice(-6)})`])}
        onChange={(next) => {
          job.value = next;
        }}
      />
      <Group title="Steps" none={isDone ? "" : "This run has no checkpoint yet."}>
        {[
          ...(isDone ? [<Choice key="result" name="Result" note="last step" onPick={() => pick(null)} />] : []),
          ...(checkpoints?.data ?? []).map((each) => (
            <Choice key={each.id} name={stepOf(each)} note="" onPick={() => pick(each.id)} />
          )),
        ]}
      </Group>
    </>
  );
}

const Group = ({ title, none, children }: { title: string; none: string; children: ComponentChildren[] }) => (
  <div class="playground-group">
    <h3>{title}</h3>
    {children.length === 0 ? <p class="muted">{none}</p> : <ul>{children}</ul>}
  </div>
);

const Choice = ({ name, note, onPick }: { name: string; note: string; onPick: () => void }) => (
  <li>
    <button type="button" onClick={onPick}>
      <b>{name}</b>
      {note !== "" && note !== name && <small>{note}</small>}
    </button>
  </li>
);
