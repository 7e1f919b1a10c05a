import { useState } from "preact/hooks";
import type { Deployment } from "../../../../resources/serving/deployments/schema.ts";
import { api } from "../../../data/api.ts";
import { FormDialog } from "../../../kit/dialog.tsx";
import { TextField } from "../../../kit/field.tsx";
import { hasPage, navigate } from "../../../shell/router.ts";
import { toast } from "../../../shell/toasts.tsx";
import type { JobCheckpoint, TrainingJob } from "../types.ts";

type DeployProps = { job: TrainingJob; checkpoint: JobCheckpoint | undefined; onClose: () => void };

/** Asks for a name and serves the checkpoint, or without one the result of the run. */
export function Deploy({ job, checkpoint, onClose }: DeployProps) {
  const [name, setName] = useState(checkpoint ? `${job.output_name}-step-${checkpoint.step}` : job.output_name);
  const deploy = async () => {
    const body = { model: job.id, name, min_replicas: 0, ...(checkpoint ? { checkpoint: checkpoint.id } : {}) };
    const deployment = await api<Deployment>("/v1/deployments", { method: "POST", body });
    toast(`${deployment.name} starts`);
    if (hasPage("/deployments/:id")) navigate(`/deployments/${deployment.id}`);
  };
  return (
    <FormDialog
      title={checkpoint ? `Deploy step ${checkpoint.step}` : "Deploy the result"}
      verb="Deploy"
      isReady={name.trim() !== ""}
      onSubmit={deploy}
      onClose={onClose}
    >
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        hint="Requests use this name as model. The deployment is parked while nobody uses it."
      />
    </FormDialog>
  );
}
