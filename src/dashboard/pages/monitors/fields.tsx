/** Fields of a monitor: what it watches, and its rule. */
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import type { ApiError } from "../../data/api.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { SelectField, TextField } from "../../kit/field.tsx";
import type { TrainingJob } from "../runs/types.ts";
import type { Form } from "./form.ts";
import { METRICS, type Metric, type Target } from "./words.ts";

export type FieldProps = {
  form: Form;
  change: (part: Partial<Form>) => void;
  error: ApiError | undefined;
};

const errorAt = (error: ApiError | undefined, pointer: string) =>
  error?.param === pointer || error?.param?.startsWith(`${pointer}/`) ? error.message : undefined;

/** Choices of a list, with the one of the form also if the list does not have it. */
function withChosen(options: readonly (readonly [string, string])[], chosen: string) {
  return chosen === "" || options.some(([id]) => id === chosen) ? options : [...options, [chosen, chosen] as const];
}

export function Watched({ form, change, error }: FieldProps) {
  const { targets } = METRICS[form.metric];
  const metrics = Object.entries(METRICS)
    .filter(([, { operator }]) => !operator || may("admin"))
    .map(([metric, { name }]) => [metric as Metric, name] as const);
  return (
    <>
      <SelectField
        label="Watch"
        value={form.metric}
        options={metrics}
        onChange={(metric) => change({ metric, comparison: METRICS[metric].bad })}
        error={errorAt(error, "/metric")}
      />
      {targets.map((target) => (
        <TargetField
          key={target}
          name={target}
          value={form[target]}
          onChange={(value) => change({ [target]: value })}
          error={errorAt(error, `/${target}`)}
        />
      ))}
    </>
  );
}

type TargetProps = { name: Target; value: string; onChange: (value: string) => void; error: string | undefined };

const LISTS: Partial<Record<Target, string>> = {
  deployment_id: "/v1/deployments?limit=100",
  job_id: "/v1/training_jobs?limit=100",
  endpoint_id: "/v1/webhooks?limit=100",
};
type Listed = Partial<Pick<Deployment, "name"> & Pick<TrainingJob, "output_name"> & Pick<WebhookEndpoint, "url">> & {
  id: string;
};

function TargetField({ name, value, onChange, error }: TargetProps) {
  const list = useResource<ListPage<Listed>>(LISTS[name] ?? null);
  if (name === "device" || name === "score")
    return (
      <TextField
        label={name === "device" ? "Device" : "Score"}
        value={value}
        onInput={onChange}
        hint={name === "device" ? "Empty: the device with the highest value" : "The name of a score of traces"}
        error={error}
      />
    );
  const [label, none] = {
    deployment_id: ["Deployment", "All deployments"],
    job_id: ["Run", "Choose a run"],
    endpoint_id: ["Webhook", "All endpoints"],
  }[name];
  const options = (list.data?.data ?? []).map(
    ({ id, name, output_name, url }) => [id, name ?? output_name ?? url ?? id] as const,
  );
  return (
    <SelectField
      label={label ?? ""}
      value={value}
      options={[["", none ?? ""], ...withChosen(options, value)]}
      onChange={onChange}
      error={error}
    />
  );
}

const WINDOWS = [
  ["60", "1 minute"],
  ["300", "5 minutes"],
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
] as const;

export function Rule({ form, change, error }: FieldProps) {
  const { hint } = METRICS[form.metric];
  const number = (name: "alert" | "warning", label: string, below?: string) => (
    <TextField
      label={label}
      type="number"
      value={form[name]}
      onInput={(value) => change({ [name]: value })}
      hint={below}
      error={errorAt(error, `/thresholds/${name}`)}
    />
  );
  return (
    <>
      <div class="grid half monitors-pair">
        {number("alert", `Alert ${form.comparison}`, hint)}
        {number("warning", `Warning ${form.comparison}`, "May be left empty")}
      </div>
      <SelectField
        label="Over the last"
        value={form.window}
        options={withChosen(WINDOWS, form.window).map(
          ([value, shown]) => [value, shown === value ? `${value} s` : shown] as const,
        )}
        onChange={(window: string) => change({ window })}
        error={errorAt(error, "/window_seconds")}
      />
    </>
  );
}

const SIDES = [
  ["above", "Above a threshold"],
  ["below", "Below a threshold"],
] as const;
const NO_DATA = [
  ["no_data", "No data"],
  ["ok", "Fine"],
  ["alert", "Alert"],
] as const;

/** Fields that most monitors leave as they are. */
export function Details({ form, change, error }: FieldProps) {
  const number = (name: "evaluations" | "recovery_evaluations" | "min_samples", label: string, hint: string) => (
    <TextField
      label={label}
      type="number"
      value={form[name]}
      onInput={(value) => change({ [name]: value })}
      hint={hint}
      error={errorAt(error, `/${name}`)}
    />
  );
  const recovery = (name: "alert_recovery" | "warning_recovery", label: string) => (
    <TextField
      label={label}
      type="number"
      value={form[name]}
      onInput={(value) => change({ [name]: value })}
      hint="Empty: at the threshold itself"
      error={errorAt(error, `/thresholds/${name}`)}
    />
  );
  return (
    <details class="monitors-details">
      <summary>Details</summary>
      <div class="stack">
        <SelectField
          label="Bad is"
          value={form.comparison}
          options={SIDES}
          onChange={(comparison) => change({ comparison })}
        />
        <div class="grid half monitors-pair">
          {recovery("alert_recovery", "Alert ends beyond")}
          {recovery("warning_recovery", "Warning ends beyond")}
          {number("evaluations", "Rises after", "evaluations in a row")}
          {number("recovery_evaluations", "Falls after", "evaluations in a row")}
          {number("min_samples", "Needs at least", "observations in the window")}
          <SelectField
            label="Without data"
            value={form.no_data}
            options={NO_DATA}
            onChange={(no_data) => change({ no_data })}
          />
        </div>
      </div>
    </details>
  );
}
