import { useSignal } from "@preact/signals";
import { errorText } from "../../../lib/error_text.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { toast } from "../../shell/toasts.tsx";
import { CAPTURES, errorAt, type Scaling, ScalingFields, scalingBody } from "./form.tsx";

/** Fields of request traces. A server without traces does not have them. */
type Capture = { capture?: string; capture_retention_days?: number; capture_redact?: string[] };

export function Settings({ deployment }: { deployment: Deployment & Capture }) {
  const name = useSignal(deployment.name);
  const scaling = useSignal<Scaling>(scalingOf(deployment));
  const capture = useSignal({
    capture: deployment.capture ?? "none",
    days: String(deployment.capture_retention_days ?? 30),
    redact: (deployment.capture_redact ?? []).join("\n"),
  });
  const error = useSignal<ApiError | undefined>(undefined);
  const hasCapture = deployment.capture !== undefined;
  const save = async () => {
    const { capture: much, days, redact } = capture.value;
    const patterns = redact.split("\n").filter((line) => line !== "");
    const body = {
      name: name.value,
      ...scalingBody(scaling.value),
      ...(hasCapture ? { capture: much, capture_retention_days: Number(days), capture_redact: patterns } : {}),
    };
    try {
      await api(`/v1/deployments/${deployment.id}`, { method: "PATCH", body });
      toast("Saved");
      error.value = undefined;
      await reload("/v1/deployments");
    } catch (reason) {
      if (reason instanceof ApiError) error.value = reason;
      toast(errorText(reason), "bad");
    }
  };
  const set = (part: Partial<typeof capture.value>) => {
    capture.value = { ...capture.value, ...part };
  };
  return (
    <Card
      class="deployments-form"
      title="Settings"
      note="A new context length or number of sequences loads the model again"
    >
      <div class="stack">
        <TextField
          label="Name"
          value={name.value}
          onInput={(text) => (name.value = text)}
          hint="Requests name it as their model"
          error={errorAt(error.value, "name")}
        />
        <ScalingFields value={scaling.value} onChange={(next) => (scaling.value = next)} error={error.value} />
        {hasCapture && (
          <>
            <h3>What traces keep</h3>
            <div class="grid half">
              <SelectField
                label="Kept of each request"
                value={capture.value.capture}
                options={CAPTURES}
                onChange={(next) => set({ capture: next })}
              />
              <TextField
                label="Days until traces are removed"
                type="number"
                value={capture.value.days}
                onInput={(days) => set({ days })}
                error={errorAt(error.value, "capture_retention_days")}
              />
            </div>
            <TextField
              label="Text to hide"
              rows={3}
              mono
              value={capture.value.redact}
              onInput={(redact) => set({ redact })}
              hint="One regular expression a line. What matches is replaced before a trace is stored"
              error={error.value?.param?.startsWith("/capture_redact") ? error.value.message : undefined}
            />
          </>
        )}
        <div class="row">
          <Button kind="primary" onClick={save} disabled={!may("inference", false)}>
            Save
          </Button>
        </div>
      </div>
    </Card>
  );
}

const scalingOf = (deployment: Deployment): Scaling => ({
  min_replicas: String(deployment.min_replicas),
  max_replicas: String(deployment.max_replicas),
  idle_timeout_seconds: String(deployment.idle_timeout_seconds),
  context_length: String(deployment.context_length ?? ""),
  parallel: String(deployment.parallel ?? ""),
  kv_type: deployment.kv_type ?? "",
  pinned: deployment.pinned ? "yes" : "no",
});
