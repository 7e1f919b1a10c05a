import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Page as Frame } from "../../kit/page.tsx";
import { navigate, queryOf } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { METRICS, type Metric, type Target } from "./words.ts";

type Form = Record<"name" | "alert" | "warning" | "window" | Target, string> & { metric: Metric };
const EMPTY = { name: "", alert: "", warning: "", window: "300", job_id: "", endpoint_id: "", device: "", score: "" };
const WINDOWS = [
  ["60", "1 minute"],
  ["300", "5 minutes"],
  ["3600", "1 hour"],
  ["86400", "1 day"],
] as const;
const figure = (text: string) => (text.trim() === "" ? undefined : Number(text));

function bodyOf(form: Form) {
  const { targets } = METRICS[form.metric];
  return {
    name: form.name.trim(),
    metric: form.metric,
    window_seconds: Number(form.window),
    thresholds: { alert: figure(form.alert), warning: figure(form.warning) },
    ...Object.fromEntries(targets.flatMap((name) => (form[name] === "" ? [] : [[name, form[name].trim()]]))),
  };
}

export function Page() {
  const [form, setForm] = useState<Form>(() => ({
    ...EMPTY,
    metric: "latency_p95",
    deployment_id: queryOf("deployment_id") ?? "",
  }));
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const set = (name: keyof Form) => (value: string) => setForm((before) => ({ ...before, [name]: value }));
  const facts = METRICS[form.metric];
  const errorAt = (pointer: string) => (error?.param?.startsWith(pointer) ? error.message : undefined);
  const isReady = form.name.trim() !== "" && (form.alert.trim() !== "" || form.warning.trim() !== "");
  const create = async () => {
    setError(undefined);
    try {
      const monitor = await api<Monitor>("/v1/monitors", { method: "POST", body: bodyOf(form) });
      await reload("/v1/monitors");
      navigate(`/monitors/${monitor.id}`);
    } catch (caught) {
      if (caught instanceof ApiError) setError(caught);
      toast(errorText(caught), "bad");
    }
  };
  const metrics = Object.entries(METRICS)
    .filter(([, { operator }]) => !operator || may("admin"))
    .map(([metric, { name }]) => [metric as Metric, name] as const);
  return (
    <Frame
      title="New monitor"
      purpose={`It warns when the value is ${facts.bad} a threshold.`}
      above={[["Monitors", "/monitors"]]}
    >
      <Card class="monitors-form">
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady) void create();
          }}
        >
          <TextField label="Name" value={form.name} onInput={set("name")} error={errorAt("/name")} placeholder="slow" />
          <SelectField label="Watch" value={form.metric} options={metrics} onChange={set("metric")} />
          {facts.targets.map((target) => (
            <TargetField
              key={target}
              name={target}
              value={form[target]}
              set={set(target)}
              error={errorAt(`/${target}`)}
            />
          ))}
          <div class="grid half">
            <TextField
              label="Alert"
              type="number"
              value={form.alert}
              onInput={set("alert")}
              hint={facts.hint}
              error={errorAt("/thresholds")}
            />
            <TextField
              label="Warning"
              type="number"
              value={form.warning}
              onInput={set("warning")}
              hint="May be left empty"
            />
          </div>
          <SelectField label="Over the last" value={form.window} options={WINDOWS} onChange={set("window")} />
          <div class="row">
            <Button kind="primary" submit disabled={!isReady}>
              Create monitor
            </Button>
          </div>
        </form>
      </Card>
    </Frame>
  );
}

type FieldProps = { name: Target; value: string; set: (value: string) => void; error: string | undefined };
const LABELS: Readonly<Record<Exclude<Target, "deployment_id">, readonly [label: string, hint: string]>> = {
  job_id: ["Run", "The id of a training run: job_…"],
  endpoint_id: ["Webhook", "The id of an endpoint. Empty: all"],
  device: ["Device", "Empty: the device with the highest value"],
  score: ["Score", "The name of a score of traces"],
};

function TargetField({ name, value, set, error }: FieldProps) {
  const deployments = useResource<ListPage<Deployment>>(name === "deployment_id" ? "/v1/deployments?limit=100" : null);
  if (name !== "deployment_id") {
    const [label, hint] = LABELS[name];
    return <TextField label={label} value={value} onInput={set} hint={hint} error={error} />;
  }
  const options = (deployments.data?.data ?? []).map(({ id, name: shown }) => [id, shown] as const);
  return (
    <SelectField
      label="Deployment"
      value={value}
      options={[["", "All deployments"], ...options]}
      onChange={set}
      error={error}
    />
  );
}
