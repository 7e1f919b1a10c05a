import { useSignal } from "@preact/signals";
import { errorText } from "../../../lib/error_text.ts";
import type { Region } from "../../../resources/machines/regions/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { Model } from "../../../resources/serving/models/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { type Page as ListPage, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Page as Frame } from "../../kit/page.tsx";
import { navigate, queryOf } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { CAPTURES, errorAt, type Scaling, ScalingFields, scalingBody } from "./form.tsx";

type Checkpoints = { data: { id: string; step: number; is_best: boolean }[] };

const OTHER = "other";
const FIRST: Scaling = {
  min_replicas: "1",
  max_replicas: "1",
  idle_timeout_seconds: "300",
  context_length: "",
  parallel: "",
  kv_type: "",
  pinned: "no",
};

/** `?model=job_1&checkpoint=ckpt_2`: other pages link here with a choice made. */
export function Page() {
  const wantedModel = queryOf("model");
  const chosen = useSignal(wantedModel ?? "verk-tiny");
  const written = useSignal("");
  const checkpoint = useSignal(queryOf("checkpoint") ?? "");
  const name = useSignal("");
  const region = useSignal("");
  const scaling = useSignal(FIRST);
  const capture = useSignal<(typeof CAPTURES)[number][0]>("none");
  const error = useSignal<ApiError | undefined>(undefined);
  const listed = useResource<ListPage<Model>>("/v1/models?registry=true&limit=100");
  const models = listed.data?.data ?? [];
  const jobs =
    useResource<ListPage<TrainingJob>>(may("training") ? "/v1/training_jobs?limit=50" : null).data?.data ?? [];
  const nodes = (
    useResource<ListPage<Region>>(may("training") ? "/v1/regions?limit=100" : null).data?.data ?? []
  ).filter(({ provider }) => provider !== "local");
  const isJob = chosen.value.startsWith("job_");
  const checkpoints = useResource<Checkpoints>(
    isJob ? `/v1/training_jobs/${encodeURIComponent(chosen.value)}/checkpoints?limit=100` : null,
  ).data?.data;
  const model = chosen.value === OTHER ? written.value : chosen.value;
  const proposed = jobs.find(({ id }) => id === model)?.output_name ?? model.split("/").at(-1) ?? "";

  const create = async () => {
    const body = {
      model,
      name: name.value || proposed,
      checkpoint: isJob && checkpoint.value !== "" ? checkpoint.value : null,
      ...(region.value === "" ? {} : { region: region.value }),
      ...scalingBody(scaling.value),
      capture: capture.value,
    };
    try {
      const deployment = await api<Deployment>("/v1/deployments", { method: "POST", body });
      navigate(`/deployments/${deployment.id}`);
    } catch (reason) {
      if (reason instanceof ApiError) error.value = reason;
      toast(errorText(reason), "bad");
    }
  };

  const ready = models.filter(({ status, job_id: job }) => status === "ready" && job === null);
  const options: (readonly [string, string])[] = [
    ...ready.map((each) => [each.name, each.name] as const),
    ...jobs.map(({ id, output_name: output }) => [id, `run ${output} (${id.slice(-6)})`] as const),
    [OTHER, "Another model of the hub"],
  ];
  const preset = wantedModel ?? (listed.data ? undefined : chosen.value); // before the list is here
  if (preset !== undefined && !options.some(([value]) => value === preset)) options.unshift([preset, preset]);
  return (
    <Frame
      title="New deployment"
      purpose="Serve a model. Adapters of the same base model share one process."
      above={[["Deployments", "/deployments"]]}
    >
      <Card class="deployments-form">
        <div class="stack">
          <div class="grid half">
            <SelectField
              label="Model"
              value={chosen.value}
              options={options}
              onChange={(next) => {
                chosen.value = next;
                checkpoint.value = "";
              }}
              error={
                chosen.value === OTHER
                  ? undefined
                  : (errorAt(error.value, "model") ?? (listed.data ? undefined : listed.error?.message))
              }
            />
            {chosen.value === OTHER && (
              <TextField
                label="Name on the hub"
                value={written.value}
                onInput={(text) => (written.value = text)}
                placeholder="Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0"
                error={errorAt(error.value, "model")}
              />
            )}
            {isJob && (
              <SelectField
                label="Checkpoint"
                value={checkpoint.value}
                options={[
                  ["", "Result of the run"],
                  ...(checkpoints ?? []).map(
                    ({ id, step, is_best: best }) => [id, `step ${step}${best ? ", best" : ""}`] as const,
                  ),
                ]}
                onChange={(next) => (checkpoint.value = next)}
                error={errorAt(error.value, "checkpoint")}
              />
            )}
            <TextField
              label="Name"
              value={name.value}
              onInput={(text) => (name.value = text)}
              placeholder={proposed}
              hint="Requests name it as their model"
              error={errorAt(error.value, "name")}
            />
            {nodes.length > 0 && (
              <SelectField
                label="Region"
                value={region.value}
                options={[["", "This machine"], ...nodes.map(({ id, name }) => [id, name] as const)]}
                onChange={(next) => (region.value = next)}
                error={errorAt(error.value, "region")}
              />
            )}
          </div>
          <SelectField
            label="Kept of each request"
            value={capture.value}
            options={CAPTURES}
            onChange={(next) => (capture.value = next)}
            hint="A trace shows and finds prompts and answers only if they are kept. Secrets are removed first"
            error={errorAt(error.value, "capture")}
          />
          <ScalingFields value={scaling.value} onChange={(next) => (scaling.value = next)} error={error.value} />
          <div class="row">
            <Button kind="primary" onClick={create} disabled={model === ""}>
              Deploy
            </Button>
          </div>
        </div>
      </Card>
    </Frame>
  );
}
