import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { IconButton } from "../../kit/button.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import type { TargetForm, TargetType } from "./form.ts";

export const NEW_TARGET: TargetForm = { type: "deployment", value: "", name: "" };
const TYPES = [
  ["deployment", "Deployment"],
  ["checkpoint", "Result of a run"],
  ["model", "Base model"],
  ["outputs", "Recorded answers"],
] as const;

type Props = {
  target: TargetForm;
  deployments: readonly Deployment[];
  onChange: (target: TargetForm) => void;
  onRemove: (() => void) | undefined;
};

export function TargetRow({ target, deployments, onChange, onRemove }: Props) {
  const { type, value } = target;
  return (
    <div class="experiments-target">
      <SelectField
        label="Kind"
        value={type}
        options={TYPES}
        onChange={(chosen: TargetType) => onChange({ ...target, type: chosen, value: "" })}
      />
      <Value type={type} value={value} deployments={deployments} set={(next) => onChange({ ...target, value: next })} />
      <TextField
        label="Name"
        value={target.name}
        placeholder="By itself"
        onInput={(name) => onChange({ ...target, name })}
      />
      {onRemove ? <IconButton icon="close" label="Remove target" onClick={onRemove} /> : <span />}
    </div>
  );
}

type ValueProps = Pick<TargetForm, "type" | "value"> & {
  deployments: readonly Deployment[];
  set: (value: string) => void;
};

function Value({ type, value, deployments, set }: ValueProps) {
  const jobs = useResource<ListPage<TrainingJob>>(type === "checkpoint" ? "/v1/training_jobs?limit=100" : null);
  if (type === "model") return <TextField label="Model" value={value} onInput={set} placeholder="verk-tiny" />;
  if (type === "outputs")
    return <TextField label="Column of the answers" value={value} onInput={set} placeholder="answer" />;
  const options =
    type === "deployment"
      ? deployments.map(({ id, name }) => [id, name] as const)
      : (jobs.data?.data ?? [])
          .filter(({ status }) => status === "completed")
          .map(({ id, output_name }) => [id, output_name ?? id] as const);
  const label = type === "deployment" ? "Deployment" : "Run";
  return (
    <SelectField
      label={label}
      value={value}
      options={[["", `Choose a ${label.toLowerCase()}`], ...options]}
      onChange={set}
    />
  );
}
